"""A wheel with machine code in an empty environment: its first answer comes at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Seconds of a processor, imports included. By the clock it is less where there are more of them.
MOST = 2.0


def run(*command, **environment):
    """What a command prints, in an environment without the sources of this work tree."""
    left = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)),
        env={**left, **environment},
        cwd=environment.get("HOME"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_first_answer_with_chosen_parameters(tmp_path):
    dist = tmp_path / "dist"
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", dist, ROOT)
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    python = next(venv.glob("*/python*"))
    (wheel,) = dist.glob("kinrank-*.whl")
    run(python, "-m", "pip", "install", "--disable-pip-version-check", wheel)
    smoke = ROOT / ".ci" / "smoke.py"
    home = tmp_path / "home"
    home.mkdir()
    times = []
    for _ in range(3):
        said = run(python, smoke, HOME=str(home), KINRANK_CACHE=str(home / "cache"))
        assert "works and compiles nothing" in said
        times.append(float(re.search(r"([\d.]+) s of a processor", said)[1]))
    assert min(times) < MOST
