"""What docs/index.md shows runs as it stands there."""

import re
import shlex
from pathlib import Path

from kinrank.cli.index import index

PAGE = (Path(__file__).parents[2] / "docs" / "index.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)  # noqa: S102
    assert names["ranking"].ids.shape == (3, 10)
    assert "Cluster (weight before" in capsys.readouterr().out
    assert "late.jpg" in names["index"]


def test_every_command_is_shown():
    shown = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]
    assert {words[2] for words in shown} == set(index.commands)
    for _, _, name, *args in shown:
        command = index.commands[name]
        with command.make_context(name, [], resilient_parsing=True) as context:
            known = {word for option in command.get_params(context) for word in option.opts}
        assert {word for word in args if word.startswith("-")} <= known
