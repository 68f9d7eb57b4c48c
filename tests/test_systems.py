"""What differs on Windows and macOS, as far as Linux can play them (docs/reference/extras.md)."""

import builtins
import io as standard_io
import mmap
import socket
import sys

import numpy as np
import pytest

import kinrank
from kinrank import cache, cli, io, parallel, progress
from kinrank.errors import LockedError, UnwritableError
from kinrank.groups import corrections
from kinrank.groups.corrections import Corrections
from kinrank.index import file as index_file
from kinrank.runs import mapped
from kinrank.serve import run as serve_run
from kinrank.serve.settings import Settings
from other_systems import System, play_windows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="plays the others on Linux")


@pytest.fixture
def windows(monkeypatch):
    return play_windows(monkeypatch)


@pytest.fixture(scope="module")
def vectors():
    return kinrank.datasets.load("toy").gallery.features


@pytest.fixture
def saved(vectors, tmp_path):
    file = tmp_path / "gallery.index"
    kinrank.CAS().fit(vectors).save(file)
    return file


def without(monkeypatch, *names):
    """Have some modules missing."""
    plain = builtins.__import__

    def missing(name, *args, **options):
        if name in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return plain(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)


# Windows: files that are open


def test_an_index_is_saved_over_the_file_that_it_was_opened_from(windows, saved, vectors):
    with kinrank.open(saved, writable=True) as index:
        index.add(vectors[:2] + np.float32(0.01))
        index.save()
        index.remove(index.ids[:1])
        index.save()
    assert len(kinrank.open(saved)) == len(vectors) + 1
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_reader_keeps_the_file_and_the_error_says_what_to_do(windows, saved, vectors):
    reader = kinrank.open(saved)
    with kinrank.open(saved, writable=True) as index:
        index.add(vectors[:1] + np.float32(0.01))
        with pytest.raises(UnwritableError, match="open elsewhere cannot be replaced: close it"):
            index.save()
        assert len(reader) == len(vectors)
        del reader
        index.save()


def test_one_writer_at_a_time(windows, saved):
    with kinrank.open(saved, writable=True):
        with pytest.raises(LockedError, match="open for writing"):
            kinrank.open(saved, writable=True)
        assert len(kinrank.open(saved))  # a lock keeps no reader out
    with kinrank.open(saved, writable=True):
        pass
    assert not windows.locked
    assert not saved.with_name(f"{saved.name}.lock").exists()


def test_leftovers_of_killed_writers_are_removed_and_writers_spared(windows, saved):
    left = saved.with_name(f".{saved.name}.0123abcd.tmp")
    written = saved.with_name(f".{saved.name}.0123abce.tmp")
    left.write_bytes(b"half")
    with written.open("wb"):
        io.remove_leftovers(saved)
        assert not left.exists()
        assert written.exists()


def test_locks_are_at_one_place_whatever_is_written_meanwhile(windows, tmp_path):
    path = tmp_path / "file"
    with path.open("a+b") as first, path.open("a+b") as second:
        io.take_lock(first)
        first.write(b"a line\n")
        first.flush()
        second.seek(0, 2)
        with pytest.raises(OSError, match="denied"):
            io.take_lock(second)
        second.seek(0)
        assert second.read() == b"a line\n"
        io.release_lock(first)
        io.take_lock(second)
        io.release_lock(second)
    assert not windows.locked


def test_two_people_correct_groups(windows, tmp_path, monkeypatch):
    path = tmp_path / "corrections"
    mine = Corrections(path)
    theirs = Corrections(path)
    mine.append("merge", ids=["a", "b"])
    theirs.append("merge", ids=["c", "d"])
    assert mine.refresh() == 1
    monkeypatch.setattr(corrections, "WAIT", 0.02)
    with path.open("rb") as held:
        io.take_lock(held)
        with pytest.raises(LockedError, match="Try again"):
            mine.append("merge", ids=["e", "f"])
        io.release_lock(held)


def test_a_run_in_files(windows, vectors, tmp_path):
    plain = kinrank.rerank(vectors[:30], vectors, k=5)
    work = tmp_path / "work"
    run = kinrank.Run(memory_budget="4GB", work=work)
    in_files = kinrank.rerank(vectors[:30], vectors, k=5, run=run)
    assert np.array_equal(plain.indices, in_files.indices)
    assert np.array_equal(plain.distances, in_files.distances)
    del in_files
    again = kinrank.rerank(vectors[:30], vectors, k=5, run=run)  # whatever stayed is no hindrance
    assert np.array_equal(plain.indices, again.indices)


def test_code_that_another_process_reads_stays_in_the_cache(windows, tmp_path):
    cache.write_entry(tmp_path, "kernel", b"code")
    with (tmp_path / "kernel").open("rb"):
        cache.write_entry(tmp_path, "kernel", b"code")
    assert cache.read_entry(tmp_path, "kernel") == b"code"
    assert [path.name for path in tmp_path.iterdir()] == ["kernel"]


# Windows: everything else


def test_a_port_has_one_service(windows, monkeypatch):
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)
    with serve_run._listen(Settings(port=0)) as listening:
        reused = listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        exclusive = listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert (reused, exclusive) == (0, 1)


def test_signs_that_a_pipe_cannot_take_are_no_failure(monkeypatch):
    pipe = standard_io.TextIOWrapper(standard_io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", pipe)
    monkeypatch.setattr(sys, "argv", ["kinrank", "--version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    pipe.write("Δ → κ")
    pipe.flush()
    assert pipe.buffer.getvalue().endswith(b"? ? ?")


def test_limits_that_a_system_does_not_tell(monkeypatch):
    without(monkeypatch, "resource")
    assert serve_run.open_files() > 100
    monkeypatch.setattr(progress, "Path", lambda name: cache.Path("/nonexistent"))
    assert progress.peak_memory() is None


def test_rights_of_others_are_not_known(windows, tmp_path):
    tmp_path.chmod(0o777)
    cache.write_entry(tmp_path, "kernel", b"code")
    assert cache.read_entry(tmp_path, "kernel") == b"code"


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("win32", {"LOCALAPPDATA": "/data"}, "/data/kinrank"),
        ("win32", {}, "/home/me/AppData/Local/kinrank"),
        ("darwin", {}, "/home/me/Library/Caches/kinrank"),
        ("linux", {}, "/home/me/.cache/kinrank"),
    ],
)
def test_the_cache_is_where_a_system_has_it(monkeypatch, platform, variables, folder):
    for name in ("KINRANK_CACHE", "LOCALAPPDATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cache, "sys", System(platform))
    assert cache.cache_folder().as_posix() == folder


# macOS


def test_peak_memory_is_counted_in_bytes(monkeypatch):
    import resource

    monkeypatch.setattr(progress, "Path", lambda name: cache.Path("/nonexistent"))
    monkeypatch.setattr(progress, "sys", System("darwin"))
    assert progress.peak_memory() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_budget_holds_without_a_look_at_the_memory(monkeypatch, vectors, tmp_path):
    monkeypatch.setattr(mapped, "resident_bytes", lambda: None)
    monkeypatch.delattr(mapped.os, "posix_fallocate")
    run = kinrank.Run(memory_budget="4GB", work=tmp_path / "work")
    in_files = kinrank.rerank(vectors[:30], vectors, k=5, run=run)
    assert np.array_equal(kinrank.rerank(vectors[:30], vectors, k=5).indices, in_files.indices)
    monkeypatch.delattr(mmap, "MADV_DONTNEED")  # Windows
    again = kinrank.rerank(vectors[:30], vectors, k=5, run=run)
    assert np.array_equal(again.indices, in_files.indices)


def test_cores_are_counted_where_affinity_is_unknown(monkeypatch):
    monkeypatch.delattr(parallel.os, "sched_getaffinity")
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: None)
    assert parallel.thread_count() == 1


def test_a_folder_that_cannot_be_synchronised(monkeypatch, tmp_path):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(index_file.os, "open", refuse)
    index_file._sync_folder(tmp_path)
