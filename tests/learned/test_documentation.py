"""What docs/learned.md shows works."""

import re
import shlex
from pathlib import Path

import numpy as np

import kinrank
from kinrank.cli.app import app
from kinrank.learned.recipes import RECIPES
from learned_models import TINY

PAGE = (Path(__file__).parents[2] / "docs" / "learned.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_commands_are_understood():
    lines = [shlex.split(line) for block in blocks("sh") for line in block.splitlines() if line]
    commands = [line[1:] for line in lines if line[0] == "kinrank"]
    assert {command[1] for command in commands if command[0] == "train"} == set(RECIPES)
    for name, *args in commands:
        command = app.commands[name]
        with command.make_context(name, [*args], resilient_parsing=True) as context:
            known = {word for option in command.get_params(context) for word in option.opts}
        assert {word for word in args if word.startswith("--")} <= known


def test_python_runs(half, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, labels, (queries, gallery, *_) = half
    kinrank.learned.train("lattqe", features, labels, out="lattqe.safetensors", **TINY["lattqe"])
    names = {"kinrank": kinrank, "features": features, "labels": labels}
    names |= {"queries": queries, "gallery": np.repeat(gallery, 2, axis=0)}
    (block,) = blocks("python")
    # The recipe of the page is for thousands of rows and takes a minute.
    small = ", ".join(f"{name}={value}" for name, value in TINY["csa"].items())
    block = block.replace("labels, out=", f"labels, {small}, out=")
    exec(compile(block, "learned.md", "exec"), names)  # noqa: S102
    assert kinrank.learned.read_card("model.safetensors").method == "csa"
