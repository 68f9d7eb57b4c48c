"""Several who save: threads, drafts, copies of a process, other names of one file."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

import kinrank
from index_data import ROWS
from kinrank import CAS
from kinrank.errors import LockedError
from kinrank.io import remove_leftovers, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="fork and hard links")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "an.index"
    CAS(k1=10, k2=4).fit(ROWS[:60]).save(file)
    return file


def all_of(*jobs):
    """Run jobs on threads; returns what they raised."""
    raised = []

    def guarded(job):
        try:
            job()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def slowed(monkeypatch):
    """Let every second save take longer between its look at the rows and its file."""
    from kinrank.index import index as module

    plain, count = module.save_state, iter(range(10**6))

    def save_state(*arguments, **named):
        time.sleep(0.02 * (next(count) % 2))
        plain(*arguments, **named)

    monkeypatch.setattr(module, "save_state", save_state)


@pytest.mark.parametrize("opened", [True, False])
def test_what_a_save_returned_for_is_in_the_file(path, monkeypatch, opened):
    """A second one that began before must not put its older rows in the place of newer ones."""
    slowed(monkeypatch)
    index = kinrank.open(path, writable=True) if opened else CAS(k1=10, k2=4).fit(ROWS[:60])
    target = None if opened else path
    done = threading.Event()

    def save_on():
        while not done.is_set():
            index.save(target)

    def add():
        try:
            for row in range(60, 75):
                index.add(ROWS[row : row + 1], [row])
                index.save(target)
                assert row in kinrank.open(path, verify=False)
        finally:
            done.set()

    assert all_of(add, save_on, save_on) == []
    index.close()
    assert len(kinrank.open(path)) == 75
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_drafts_and_their_index_wait_for_each_other(path, monkeypatch):
    slowed(monkeypatch)
    with kinrank.open(path, writable=True) as index:
        draft = index.draft()
        assert all_of(*[index.save, draft.save] * 8) == []
    assert len(kinrank.open(path)) == 60


def test_closing_waits_for_a_save(path, monkeypatch):
    slowed(monkeypatch)
    index = kinrank.open(path, writable=True)
    index.save()
    assert all_of(index.save, lambda: (time.sleep(0.005), index.close())) == []
    kinrank.open(path, writable=True).close()


def test_a_file_that_is_being_written_is_no_leftover(tmp_path):
    target = tmp_path / "file"
    with replacing(target) as file:
        file.write(b"whole")
        remove_leftovers(target)
    assert target.read_bytes() == b"whole"
    left = tmp_path / ".file.0123abcd.tmp"
    left.write_bytes(b"half")
    remove_leftovers(target)
    assert not left.exists()


WRITER = """
import sys
from kinrank.io import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"whole")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_nor_is_one_of_another_process_until_it_dies(tmp_path):
    target = tmp_path / "file"

    def writer():
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(target)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout.readline() == "ready\n"
        return process

    process = writer()
    remove_leftovers(target)
    process.communicate("go on\n", timeout=60)
    assert (process.returncode, target.read_bytes()) == (0, b"whole")
    process = writer()
    process.kill()
    process.communicate(timeout=60)
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(target)
    assert list(tmp_path.iterdir()) == [target]


def forked(job):
    """What a copy of this process says to a job; bounded in time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            job()
            said = "done"
        except BaseException as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_copy_of_the_process_does_not_save_over_its_parent(path, tmp_path):
    with kinrank.open(path, writable=True) as index:
        before = path.read_bytes()

        def save():
            index.notes["who"] = "child"
            index.save()

        assert forked(save).startswith("LockedError: ")
        assert "forked from" in forked(lambda: index.save(path))
        assert "forked from" in forked(lambda: index.draft().save())
        assert forked(lambda: kinrank.open(path, writable=True)).startswith("LockedError: ")
        assert forked(index.close) == "done"  # which is the parent's still
        with pytest.raises(LockedError):
            kinrank.open(path, writable=True)
        assert path.read_bytes() == before
        assert forked(lambda: index.save(tmp_path / "other.index")) == "done"
        assert len(kinrank.open(tmp_path / "other.index")) == 60
        index.save()
    kinrank.open(path, writable=True).close()


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_lives_on_keeps_no_lock(path):
    index = kinrank.open(path, writable=True)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        index.save()
        index.close()
        kinrank.open(path, writable=True).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@posix
def test_another_name_of_the_file_is_the_same_file(path, tmp_path):
    other = tmp_path / "other.index"
    os.link(path, other)
    with kinrank.open(path, writable=True) as index:
        with pytest.raises(LockedError, match=r"other\.index is open for writing"):
            kinrank.open(other, writable=True)
        assert len(kinrank.open(other)) == 60
        index.save()
        kinrank.open(other, writable=True).close()  # the old file, under its only name
        os.link(path, tmp_path / "third.index")
        with pytest.raises(LockedError):
            kinrank.open(tmp_path / "third.index", writable=True)
    kinrank.open(tmp_path / "third.index", writable=True).close()
    left = ["an.index", "other.index", "third.index"]
    assert sorted(file.name for file in tmp_path.iterdir()) == left


@posix
def test_a_pipe_is_not_waited_for(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with suppress(OSError):  # it cannot be gone back in; that it ends is what counts
        kinrank.open(path).save(tmp_path / "pipe")
    reader.join(60)
    assert not reader.is_alive()
