"""What docs/evaluation.md shows works."""

import re
import shlex
from pathlib import Path

import pytest

from kinrank import datasets, evaluate
from kinrank.cli.app import app
from kinrank.datasets.load import BUILT_IN, READERS

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_python_runs(capsys) -> None:
    pytest.importorskip("sklearn")
    names = {}
    for block in blocks("python"):
        exec(compile(block, "evaluation.md", "exec"), names)  # noqa: S102
    assert "66.76" in capsys.readouterr().out
    assert names["levels"].mAP["E"] == 1.0


def test_commands_are_understood() -> None:
    lines = [shlex.split(line) for block in blocks("sh") for line in block.splitlines() if line]
    assert {line[1] for line in lines} == {"eval", "compare", "ablate", "report"}
    for _, name, *args in lines:
        command = app.commands[name]
        known = {word for option in command.params for word in option.opts}
        assert {word for word in args if word.startswith("--")} <= known


def test_formats_and_names_are_listed() -> None:
    for name in [*READERS, *BUILT_IN]:
        assert f"`{name}`" in PAGE
    for name in re.findall(r"`evaluate\.(\w+)", PAGE):
        assert hasattr(evaluate, name)
    for name in evaluate.__all__:
        assert getattr(evaluate, name) is not None
    for name in datasets.__all__:
        assert getattr(datasets, name) is not None
