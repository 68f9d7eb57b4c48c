"""What docs/features.md shows works."""

import re
import shlex
from pathlib import Path

import numpy as np

from kinrank import features
from kinrank.cli.app import app
from kinrank.features.preprocess import FIELDS, PRESETS
from picture_files import tiny_network, two_halves

PAGE = (Path(__file__).parents[2] / "docs" / "features.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_network(tmp_path / "net.onnx")
    market = Path("path/to/Market-1501")
    for folder in (Path("photos"), market / "query", market / "bounding_box_test"):
        folder.mkdir(parents=True)
        for number in range(3):
            two_halves().save(folder / f"000{number}_c{number + 1}s1.jpg")
    names = {}
    for block in blocks("python"):
        exec(compile(block, "features.md", "exec"), names)  # noqa: S102
    assert names["features"].regional(names["maps"], levels=3).shape == (2, 20, 64)
    assert len(names["found"].features) == 3
    with np.load("people.npz") as file:
        assert file["query_labels"].tolist() == [0, 1, 2]


def test_commands_are_understood():
    lines = [
        shlex.split(line, comments=True)
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("kinrank")
    ]
    assert {line[1] for line in lines} == {"extract", "rerank", "eval", "demo"}
    for _, name, *words in lines:
        known = {word for option in app.commands[name].params for word in option.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_everything_is_named():
    for option in app.commands["extract"].params:
        flag = option.opts[0]
        assert flag == "images" or flag in PAGE, flag
    for name in ("whiten", "models"):
        assert f"kinrank {name}" in PAGE
    for name in [*PRESETS, "mac", "spoc", "gem", "rmac", "none"]:
        assert f"`{name}`" in PAGE
    for name in FIELDS:
        assert f"`--{name.replace('_', '-')}`" in PAGE
    for name in features.__all__:
        assert getattr(features, name) is not None
