"""What docs/large.md shows runs as it stands there."""

import re
import shlex
from pathlib import Path

from kinrank.cli.rerank import rerank

PAGE = (Path(__file__).parents[2] / "docs" / "large.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)  # noqa: S102
    assert names["ranking"].indices.shape == (50, 100)
    assert names["facts"].get("recall") is None  # few rows are searched exactly


def test_options_of_commands_exist():
    with rerank.make_context("rerank", [], resilient_parsing=True) as context:
        known = {word for option in rerank.get_params(context) for word in option.opts}
    for line in "".join(blocks("sh")).splitlines():
        assert {word for word in shlex.split(line) if word.startswith("-")} <= known
