"""Damaged files of every kind: a result or a KinrankError, and never a crash."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import damage

SCRIPT = Path(damage.__file__)
INDEXES = tuple(kind for kind in damage.KINDS if "index" in kind or "forged" in kind)
OTHERS = tuple(kind for kind in damage.KINDS if kind not in INDEXES)


def refused(kinds, seed, count):
    """How often a file of each kind was refused, by a process of its own."""
    paths = os.pathsep.join([str(SCRIPT.parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, SCRIPT, str(seed), str(count), *kinds],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
        timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(("kinds", "count"), [(OTHERS, 200), (INDEXES, 60)])
def test_damaged_files(kinds, count):
    found = refused(kinds, 0, count)
    assert set(found) == set(kinds)
    assert min(found.values()) > count // 4


@pytest.mark.long
@pytest.mark.parametrize(("kinds", "count"), [(OTHERS, 3000), (INDEXES, 1000)])
def test_many_damaged_files(kinds, count):
    refused(kinds, 1, count)
