"""The first call: what it compiles, where that is kept, and what it says meanwhile."""

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
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
ranking = kinrank.rerank(x[:20], x[20:], method="aqe", k=10)
print(ranking.indices.tobytes().hex(), ranking.distances.tobytes().hex())
"""
FIGURE = """
import numpy as np
from kinrank import evaluate
evaluate.reid(np.array([[0, 3, 1, 4, 5, 2]]), [7], [7, 7, 7, 1, 2, 3])
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


def counted(code, *before, **environment):
    """What a process prints, how many functions it compiles, and what it says on stderr."""
    code = COUNT + code + "\nprint(sum(e.is_start for _, e in timer.buffer))"
    out, said = run(code, *before, **environment)
    *printed, count = out.splitlines()
    return printed, int(count), said


def compiled(*before, **environment):
    """How many functions a process compiles for a first ranking, and what it says on stderr."""
    return counted(RANK, *before, **environment)[1:]


@pytest.fixture(scope="module")
def first(tmp_path_factory, bare):
    """The cache of a first ranking, and the ranking."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    ranking, count, _ = counted(RANK, KINRANK_CACHE=str(cache), **bare)
    assert count > 0
    return cache, ranking


@pytest.fixture(scope="module")
def filled(first):
    """The cache of a first ranking."""
    return first[0]


@pytest.fixture(scope="module")
def ranking(first):
    """A first ranking, as it is printed."""
    return first[1]


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
    _, count, said = counted(FIGURE, KINRANK_CACHE=str(tmp_path / "file" / "cache"), **bare)
    assert count > 0
    assert said.count("KinrankWarning") == 1
    assert "Set KINRANK_CACHE to a folder that can be written to" in said


def test_numbas_own_folder_is_heeded(tmp_path, bare):
    run(FIGURE, NUMBA_CACHE_DIR=str(tmp_path), KINRANK_CACHE="", **bare)
    assert list((tmp_path / "kinrank" / "kernels").rglob("*.kernel"))


def damaged(content, accident, random):
    """Bytes with one of the four accidents that disks have."""
    place = int(random.integers(len(content)))
    match accident:
        case 0:
            flipped = content[place] ^ 1 << int(random.integers(8))
            return content[:place] + bytes([flipped]) + content[place + 1 :]
        case 1:
            place = int(random.integers(max(1, len(content) - 64)))
            return content[:place] + bytes(64) + content[place + 64 :]
        case 2:
            return content[:place]
        case _:
            return content + content[place:]


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_cache_gives_the_right_answer(filled, ranking, tmp_path, bare, seed):
    cache = shutil.copytree(filled, tmp_path / "cache")
    random = np.random.default_rng(seed)
    paths = sorted(cache.rglob("*.kernel"))
    assert len(paths) > 4
    for place, path in enumerate(paths):
        path.write_bytes(damaged(path.read_bytes(), (place + seed) % 4, random))
    answer, count, said = counted(RANK, KINRANK_CACHE=str(cache), **bare)
    assert (answer, said) == (ranking, "")
    assert count > 0
    assert compiled(KINRANK_CACHE=str(cache), **bare) == (0, "")  # it is whole again


def test_code_of_one_signature_is_not_found_under_another(filled, ranking, tmp_path, bare):
    cache = shutil.copytree(filled, tmp_path / "cache")
    paths = sorted(cache.rglob("*.kernel"))
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    answer, _, said = counted(RANK, KINRANK_CACHE=str(cache), **bare)
    assert (answer, said) == (ranking, "")


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_code_that_others_can_write_is_not_run(filled, tmp_path, bare):
    cache = shutil.copytree(filled, tmp_path / "cache")
    kept = {**bare, "KINRANK_CACHE": str(cache)}
    for path in cache.rglob("expand.*.kernel"):
        path.chmod(0o666)
    count, said = compiled(**kept)
    assert count > 0
    assert said.count("KinrankWarning") == 1
    assert "can be written to by other users" in said
    assert "set KINRANK_CACHE to one of your own" in said
    assert compiled(**kept) == (0, "")  # kept again, as files of ours


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
    first = on_terminal("warmup", "--for", "aqe", **bare)
    assert "Compiling kernels, once on this machine: about" in first
    assert "compiling kernels" in first
    assert f"{tmp_path}" in first.replace("\r\n", "")
    second = on_terminal("warmup", "--for", "aqe", **bare)
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


def test_numba_and_garbage_collection_are_left_as_they_were_found(tmp_path, bare):
    code = """
import gc, numba
from numba.core import event, types
call_type = types.functions.BaseFunction.get_call_type
listeners = list(event._registered["numba:compile"])
from kinrank.kernels.measures import finish
assert event._registered["numba:compile"] == listeners
class Look(event.Listener):
    def on_start(self, _):
        assert gc.isenabled() and types.functions.BaseFunction.get_call_type is call_type
    on_end = on_start
with event.install_listener("numba:compile", Look()):
    numba.njit(lambda x: x + x)(2)
    finish(0, 0.5, 1.0, 1.0)
"""
    run(code, KINRANK_CACHE=str(tmp_path), **bare)
