"""The first call: what it compiles, where that is kept, and what it says meanwhile."""

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kinrank
from kinrank import compiling
from kinrank.kernels import jit

ROOT_OBEYS = [  # root, too, must not write where the permissions say no
    "setpriv", "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
]  # fmt: skip
RANK = """
import numpy as np, kinrank
x = np.random.default_rng(0).normal(size=(300, 16))
kinrank.rerank(x[:20], x[20:], method="aqe", k=10)
from numba.core import event
"""
COUNT = """
from numba.core import event
timer = event.RecordingListener()
event.register("numba:compile", timer)
"""
EVERY_CALL = """
import json, sys
from first_calls import CALLS, spelled
for call in CALLS.values():
    call()
rows = {}
for name, module in sys.modules.items():
    if name.startswith("kinrank.kernels."):
        for function in vars(module).values():
            if hasattr(function, "overloads") and function.py_func.__module__ == name:
                key = f"{name.rpartition('.')[2]}.{function.py_func.__name__}"
                rows[key] = [", ".join(map(spelled, types)) for types in function.overloads]
print(json.dumps(rows))
"""


def copied(sources):
    """Copy the package, without the machine code of its installation."""
    package, left_out = Path(kinrank.__file__).parent, shutil.ignore_patterns("machine")
    shutil.copytree(package, Path(sources) / "kinrank", ignore=left_out)
    return str(sources)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Where a process has to compile."""
    return {"PYTHONPATH": copied(tmp_path_factory.mktemp("bare"))}


def run(code, *before, **environment):
    """A new process; returns what it printed and what it said on stderr."""
    known = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [*before, sys.executable, "-W", "always", "-c", code], env={**known, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def compiled(*before, **environment):
    """How many functions a process compiles for a first ranking."""
    code = COUNT + RANK + "\nprint(sum(e.is_start for _, e in timer.buffer))"
    out, said = run(code, *before, **environment)
    return int(out), said


@pytest.fixture(scope="module")
def filled(tmp_path_factory, bare):
    """The cache of a first ranking."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    count, _ = compiled(KINRANK_CACHE=str(cache), **bare)
    assert count > 0
    return cache


def test_first_calls_compile_what_is_recorded_and_each_kernel_once():
    out, _ = run("import sys; sys.path.insert(0, 'benchmarks')\n" + EVERY_CALL)
    recorded = {}
    for entry in {entry for entries in compiling.jobs().values() for entry in entries}:
        recorded.setdefault(entry.name, set()).add(entry.types)
    for name, signatures in json.loads(out).items():
        if name in recorded:
            assert set(signatures) <= recorded[name], f"{name} is compiled for other types"
    twice = sorted(name for name, types in recorded.items() if len(types) > 1)
    assert twice == ["cross.product_sum_rows"]  # for one product, and for the sum of two


def test_a_cache_that_was_filled_is_read_where_nothing_can_be_written(filled, tmp_path, bare):
    cache = shutil.copytree(filled, tmp_path / "cache")
    for folder in (cache, *cache.rglob("*/")):
        folder.chmod(0o555)
    try:
        before = ROOT_OBEYS if os.geteuid() == 0 else []
        second, said = compiled(*before, KINRANK_CACHE=str(cache), HOME="/nonexistent", **bare)
    finally:
        for folder in (cache, *cache.rglob("*/")):
            folder.chmod(0o755)
    assert (second, said) == (0, "")


def test_one_warning_says_what_to_set_where_nothing_can_be_kept(tmp_path, bare):
    (tmp_path / "file").write_text("")
    count, said = compiled(KINRANK_CACHE=str(tmp_path / "file" / "cache"), **bare)
    assert count > 0
    assert said.count("KinrankWarning") == 1
    assert "Set KINRANK_CACHE to a folder that can be written to" in said


def test_numbas_own_folder_is_heeded(tmp_path, bare):
    run(RANK, NUMBA_CACHE_DIR=str(tmp_path), KINRANK_CACHE="", **bare)
    assert list((tmp_path / "kinrank" / "kernels").rglob("*.nbc"))


def test_a_damaged_cache_is_as_good_as_none(filled, tmp_path, bare):
    cache = shutil.copytree(filled, tmp_path / "cache")
    for path in cache.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:20])
    count, _ = compiled(KINRANK_CACHE=str(cache), **bare)
    assert count > 0


def on_terminal(*arguments, **environment):
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "kinrank", *arguments]
    with subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower,
        env={**os.environ, **environment},
    ) as process:  # fmt: skip
        os.close(follower)
        text = b""
        try:
            while part := os.read(leader, 4096):
                text += part
        except OSError:  # the other end was closed
            pass
        os.close(leader)
    assert process.returncode == 0, text.decode()
    return text.decode()


def test_a_terminal_sees_that_kernels_are_compiled_once(tmp_path, bare):
    bare = {**bare, "KINRANK_CACHE": str(tmp_path)}
    first = on_terminal("warmup", "--for", "aqe,alphaqe", **bare)
    assert "Compiling kernels, once on this machine: about" in first
    assert "compiling kernels" in first
    assert f"{tmp_path}" in first.replace("\r\n", "")
    second = on_terminal("warmup", "--for", "aqe,alphaqe", **bare)
    assert "Compiling" not in second
    assert "0 kernels compiled" in second


def test_warmup_knows_what_people_do():
    assert kinrank.warmup(["rerank", "index"])["folder"] == jit.kernel_folder()
    with pytest.raises(kinrank.UnknownNameError, match="for_"):
        kinrank.warmup("everything")


def test_what_another_process_cannot_compile_is_compiled_here(monkeypatch):
    entries = compiling.jobs()["aqe"][:2]
    monkeypatch.setattr(compiling, "_CODE", "raise SystemExit(1)")
    monkeypatch.setattr(compiling, "thread_count", lambda _=None: 2)
    begun = time.monotonic()
    compiling.compile_all(entries)
    assert all(entry.cached() for entry in entries)
    assert time.monotonic() - begun < 60


def test_numba_types_the_functions_of_others_by_itself(tmp_path, bare):
    code = """
import numba, numpy as np
from numba.core import types
from kinrank.kernels import jit
from kinrank.kernels.divergence import finish
@numba.njit
def twice(x):
    return x + x
assert (twice(2), twice(2.5), tuple(twice(np.ones(2)))) == (4, 5.0, (2.0, 2.0))
assert not jit._typed and types.functions.BaseFunction.get_call_type is jit._call_type
finish(0, 0.5, 1.0, 1.0)
assert jit._typed and types.functions.BaseFunction.get_call_type is jit._call_type
"""
    run(code, KINRANK_CACHE=str(tmp_path), **bare)
