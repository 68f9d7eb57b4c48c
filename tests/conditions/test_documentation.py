"""What docs/conditions.md shows runs as it stands there."""

import re
import shlex
from pathlib import Path

from kinrank.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "conditions.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)  # noqa: S102
    assert names["ranking"].indices.shape == (2, 5)
    assert names["neighbors"].indices.shape == (600, 5)
    wrong = names["first"].ids[0, 4]
    assert wrong not in names["second"].ids
    assert (tmp_path / "photos.index").exists()


def test_commands_are_understood():
    for line in (line for block in blocks("sh") for line in block.splitlines()):
        words, command = shlex.split(line)[1:], app
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        with command.make_context(command.name, [], resilient_parsing=True) as context:
            known = {word for option in command.get_params(context) for word in option.opts}
        assert {word for word in words if word.startswith("-")} <= known


def test_the_page_is_short():
    assert len(re.sub(r"```.*?```|^\|.*$", "", PAGE, flags=re.DOTALL | re.MULTILINE).split()) <= 900
