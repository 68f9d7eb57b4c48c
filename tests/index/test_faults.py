"""Killed at any moment, out of room, two at once: the old index or the new one."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from fuzz.kills import METHOD, check_kills
from index_data import ROWS
from kinrank import LockedError


def test_a_few_kills(tmp_path):
    assert check_kills(tmp_path, 6, seed=0)[0] == 6


@pytest.mark.long
def test_sixty_kills(tmp_path):
    assert check_kills(tmp_path, 60, seed=1)[1] > 20


def test_killed_in_the_middle_of_a_save(tmp_path):
    """Stopped by itself after every so many bytes: what is there is what was there."""
    path = tmp_path / "an.index"
    METHOD.fit(ROWS[:120]).save(path)
    whole = path.read_bytes()
    script = """
import os, sys, kinrank
from kinrank.index import file as index_file
path, limit = sys.argv[1], int(sys.argv[2])
chunks, index_file._CHUNK = index_file._chunks, 4096
def counted(array, seen=[0]):
    for part in chunks(array):
        seen[0] += len(part)
        if seen[0] > limit:
            os.kill(os.getpid(), 9)
        yield part
index_file._chunks = counted
index = kinrank.open(path, writable=True)
index_file.StoredIndex.verify = lambda self: None
index.save()
"""
    for limit in (0, 5_000, 60_000):
        done = subprocess.run([sys.executable, "-c", script, path, str(limit)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert path.read_bytes() == whole
    assert len(kinrank.open(path, verify=True)) == 120


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
def test_no_room_on_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "an.index"
    METHOD.fit(ROWS[:120]).save(path)
    whole = path.read_bytes()
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # A limit on the size of files fails a write in the middle, as a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, before[1]))
        with kinrank.open(path, writable=True) as index:
            index.add(ROWS[120:130])
            with pytest.raises(OSError, match="File too large"):
                index.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.glob(".*")] == []
    with kinrank.open(path, writable=True) as index:
        index.add(ROWS[120:130])
        index.save()
    assert len(kinrank.open(path)) == 130


def test_a_lock_goes_with_its_process(tmp_path):
    path = tmp_path / "an.index"
    METHOD.fit(ROWS[:120]).save(path)
    opened = f"i = kinrank.open({str(path)!r}, writable=True)"
    script = f"import kinrank, time; {opened}; print(1, flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    other.stdout.readline()
    with pytest.raises(LockedError):
        kinrank.open(path, writable=True)
    np.save(tmp_path / "v.npy", ROWS[:1])
    refused = run("index", "add", path, "--vectors", tmp_path / "v.npy")
    assert refused.exit_code == 2
    assert "is open for writing in another process" in refused.output
    other.kill()
    other.communicate()
    kinrank.open(path, writable=True).close()
