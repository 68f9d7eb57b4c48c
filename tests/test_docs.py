"""What the documentation shows works."""

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import click
import pytest

import kinrank
from kinrank.cli.app import app

README = Path(__file__).parents[1] / "README.md"
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(kinrank.__path__, "kinrank.")
    if module.name != "kinrank.__main__"
)


def blocks(language):
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(compile(block, str(README), "exec"), names)  # noqa: S102
    assert names["ranking"].indices.shape == (30, 10)
    assert "mAP" in capsys.readouterr().out


def test_commands_of_the_readme_are_understood():
    lines = [
        shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()
    ]
    commands = [line[1:] for line in lines if line and line[0] == "kinrank"]
    assert {command[0] for command in commands} == set(app.commands)
    for name, *args in commands:
        command = app.commands[name]
        if isinstance(command, click.Group):
            name, command = args[0], command.commands[args[0]]  # noqa: PLW2901
        with command.make_context(name, [], resilient_parsing=True) as context:
            known = {word for option in command.get_params(context) for word in option.opts}
        assert {word for word in args if word.startswith("-")} <= known


def test_make_targets_of_the_readme_exist():
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(
        r"^make ([a-z-]+)|`make ([a-z-]+)`", README.read_text("utf-8"), re.MULTILINE
    )
    assert {"demo", "test"} <= {first or second for first, second in targets}
    for target in (first or second for first, second in targets):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_changelog_knows_this_version():
    text = (README.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{kinrank.__version__}]" in text or "## [Unreleased]" in text
