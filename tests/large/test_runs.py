"""Stages in files: the same bits as in memory, whatever was finished before."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import kinrank
import large_data
from kinrank.runs import journal
from kinrank.runs.mapped import Memory

TESTS = str(Path(large_data.__file__).parent)
METHODS = [
    ("cas", {}),
    ("cas", {"whiten": 0.25}),
    ("alphaqe", {"whiten": 0.4}),
    ("cas", {"variant": "paper", "geodesic": True}),
    ("kreciprocal", {}),
    ("kreciprocal", {"dialect": "torchreid"}),
    ("ecn", {}),
    ("gnn", {}),
    ("rdp", {}),
    ("dfs", {}),
    ("sca", {}),
    ("alphaqe", {"dba": True}),
]


@pytest.mark.parametrize(("name", "params"), METHODS)
def test_files_change_no_bit(tmp_path, name, params):
    queries, gallery = large_data.rows()
    expected = kinrank.rerank(queries, gallery, name, 20, **params)
    found = kinrank.rerank(
        queries, gallery, name, 20, run=kinrank.Run(work=tmp_path / "w"), **params
    )
    assert large_data.digest(found) == large_data.digest(expected)
    assert not (tmp_path / "w").exists()


def test_approximate_neighbours_in_files_change_no_bit(tmp_path, monkeypatch):
    large_data.searched_in_cells(monkeypatch)
    queries, gallery = large_data.rows()
    found = [
        kinrank.rerank(
            queries,
            gallery,
            "cas",
            20,
            run=kinrank.Run(search="approximate", **where),
            threads=threads,
        )
        for where, threads in (
            ({}, None),
            ({"work": tmp_path / "w"}, None),
            ({"block_size": 33}, None),
            ({}, 1),
        )
    ]
    assert len({large_data.digest(ranking) for ranking in found}) == 1


class Stop(Exception):  # noqa: N818 - what a test throws
    pass


@pytest.mark.parametrize("name", ["cas", "kreciprocal", "dfs"])
def test_a_stopped_run_goes_on_at_the_last_finished_block(tmp_path, monkeypatch, name):
    queries, gallery = large_data.rows()
    options = {"run": kinrank.Run(work=tmp_path / "w", block_size=200)}
    with large_data.counted() as every:
        expected = kinrank.rerank(queries, gallery, name, 20, **options)
    for stop in (3, len(every) // 2, len(every) - 1):
        plain, left = journal.Call.finished, [stop]

        def finished(call, block, plain=plain, left=left):
            if left[0] == 0:
                raise Stop
            left[0] -= 1
            plain(call, block)

        monkeypatch.setattr(journal.Call, "finished", finished)
        with pytest.raises(Stop):
            kinrank.rerank(queries, gallery, name, 20, **options)
        monkeypatch.setattr(journal.Call, "finished", plain)
        with large_data.counted() as rest:
            found = kinrank.rerank(queries, gallery, name, 20, **options)
        assert large_data.digest(found) == large_data.digest(expected)
        assert len(rest) == len(every) - stop


def test_blocks_may_be_of_another_size_when_a_run_goes_on(tmp_path, monkeypatch):
    queries, gallery = large_data.rows()
    expected = kinrank.rerank(queries, gallery, "cas", 20)
    plain, left = journal.Call.finished, [60]

    def finished(call, block):
        left[0] -= 1
        if left[0] < 0:
            raise Stop
        plain(call, block)

    monkeypatch.setattr(journal.Call, "finished", finished)
    with pytest.raises(Stop):
        kinrank.rerank(
            queries, gallery, "cas", 20, threads=1, run=kinrank.Run(work=tmp_path, block_size=70)
        )
    monkeypatch.undo()
    found = kinrank.rerank(
        queries, gallery, "cas", 20, threads=3, run=kinrank.Run(work=tmp_path, block_size=111)
    )
    assert large_data.digest(found) == large_data.digest(expected)


def begun(folder, n, search="exact"):
    """A process that runs CAS with a work folder, once it is about to begin."""
    args = [TESTS, str(folder), "cas", str(n), search]
    process = subprocess.Popen(
        [sys.executable, "-c", large_data.RUN, *args], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_killed_process_is_gone_on_with(tmp_path):
    n = 3000
    whole = json.loads(begun(tmp_path / "whole", n).communicate(timeout=300)[0])
    random = np.random.default_rng(5)
    folder, kills, done = tmp_path / "w", 0, 0
    for _ in range(4):
        process = begun(folder, n)
        limit = time.monotonic() + 60
        wanted = done + int(random.integers(20, 120))
        while process.poll() is None and listed(folder) < wanted and time.monotonic() < limit:
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate(timeout=60)
        done = listed(folder)
        if not folder.exists():
            break
    assert kills >= 2
    last = json.loads(begun(folder, n).communicate(timeout=300)[0])
    assert last["digest"] == whole["digest"]
    assert last["blocks"] <= whole["blocks"] - done  # what was listed is not done again
    assert not folder.exists()


def listed(folder):
    files = list(folder.glob("*/blocks")) if folder.exists() else []
    return sum(file.read_bytes().count(b"\n") for file in files if file.exists())


def stopped(folder, monkeypatch, after, n=3000, search="exact"):
    """Leave a run of CAS in a folder."""
    queries, gallery = large_data.rows(n)
    left = [after]
    plain = journal.Call.finished

    def finished(call, block):
        left[0] -= 1
        if left[0] < 0:
            raise Stop
        plain(call, block)

    with monkeypatch.context() as patch:
        patch.setattr(journal.Call, "finished", finished)
        with pytest.raises(Stop):
            kinrank.rerank(
                queries,
                gallery,
                "cas",
                20,
                run=kinrank.Run(work=folder, block_size=100, search=search),
            )
    return queries, gallery


def test_other_data_or_parameters_are_refused(tmp_path, monkeypatch):
    queries, gallery = stopped(tmp_path, monkeypatch, 40)
    before = listed(tmp_path)
    changed = gallery.copy()
    changed[7, 3] += 1e-3
    same = kinrank.Run(work=tmp_path)
    for rows, params, run in (
        (changed, {}, same),
        (gallery, {"k1": 19}, same),
        (gallery, {}, kinrank.Run(work=tmp_path, search="approximate")),
    ):
        with pytest.raises(kinrank.InvalidInputError, match="another run in it"):
            kinrank.rerank(queries, rows, "cas", 20, run=run, **params)
    with pytest.raises(kinrank.InvalidInputError, match="another run in it"):
        kinrank.rerank(queries, gallery, "cas", 21, run=kinrank.Run(work=tmp_path))
    assert listed(tmp_path) == before
    found = kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path))
    assert large_data.digest(found) == large_data.digest(
        kinrank.rerank(queries, gallery, "cas", 20)
    )


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(kinrank.InvalidInputError, match="with other files in it"):
        kinrank.rerank(*large_data.rows(400), "cas", 5, run=kinrank.Run(work=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def lost(content):
    """As if the machine had stopped before the second half was written."""
    return content[: len(content) // 2] + bytes(len(content) - len(content) // 2)


def cut(content):
    return content[: len(content) // 3]


def flipped(content):
    return bytes([*content[:9], content[9] ^ 4, *content[10:]]) if len(content) > 9 else content


def longer(content):
    return content + b"12 3"


def emptied(_):
    return b""


@pytest.mark.parametrize(
    ("files", "change"),
    [
        *(("*/0.bin", change) for change in (lost, longer)),
        *(("*/1.bin", change) for change in (cut, flipped)),
        *(("*/2.bin", change) for change in (flipped, emptied)),
        *(("*/blocks", change) for change in (cut, flipped, longer)),
        *(("kept-*", change) for change in (cut, flipped)),
    ],
)
def test_parts_that_are_not_what_was_written_are_made_again(tmp_path, monkeypatch, files, change):
    large_data.searched_in_cells(monkeypatch)
    queries, gallery = stopped(tmp_path, monkeypatch, 50, 900, search="approximate")
    assert list(tmp_path.glob(files))
    for file in tmp_path.glob(files):
        file.write_bytes(change(file.read_bytes()))
    found = kinrank.rerank(
        queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path, search="approximate")
    )
    assert large_data.digest(found) == approximate_digest()


@cache
def approximate_digest():
    return large_data.digest(
        kinrank.rerank(*large_data.rows(900), "cas", 20, run=kinrank.Run(search="approximate"))
    )


def test_parts_that_changed_places_are_made_again(tmp_path, monkeypatch):
    queries, gallery = stopped(tmp_path, monkeypatch, 150)
    files = sorted(tmp_path.glob("*/0.bin"))
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    found = kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path))
    assert large_data.digest(found) == large_data.digest(
        kinrank.rerank(queries, gallery, "cas", 20)
    )


@pytest.mark.parametrize("name", ["run.json", "*/call.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_a_broken_journal_is_refused(tmp_path, monkeypatch, name, content):
    queries, gallery = stopped(tmp_path, monkeypatch, 5)
    next(iter(tmp_path.glob(name))).write_bytes(content)
    with pytest.raises(kinrank.KinrankError):
        kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path))


def test_room_on_the_disk_is_taken_before_it_is_needed(tmp_path):
    with Memory(None) as memory:
        (tmp_path / "a").touch()
        memory.mapped(tmp_path / "a", (1000, 1000), np.float32, write=True)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 4_000_000


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_a_disk_without_room_or_reservations(tmp_path, monkeypatch, error):
    def refused(*_):
        raise OSError(error, os.strerror(error))

    queries, gallery = large_data.rows()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refused, raising=False)
        if error == errno.ENOSPC:
            with pytest.raises(kinrank.InvalidInputError, match="make room and call again"):
                kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path))
            patch.undo()
        found = kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path))
    assert large_data.digest(found) == large_data.digest(
        kinrank.rerank(queries, gallery, "cas", 20)
    )


def test_a_list_that_ends_in_the_middle_of_a_line_is_read(tmp_path, monkeypatch):
    queries, gallery = stopped(tmp_path, monkeypatch, 90)
    last = max(tmp_path.glob("*/blocks"))
    last.write_bytes(last.read_bytes() + b"12 3")
    found = kinrank.rerank(queries, gallery, "cas", 20, run=kinrank.Run(work=tmp_path))
    assert large_data.digest(found) == large_data.digest(
        kinrank.rerank(queries, gallery, "cas", 20)
    )


def test_a_list_of_blocks_is_written_again_as_often_as_needed(tmp_path):
    folder, facts = tmp_path / "001-rows", {"rows": 40}
    call = journal.Call(folder, facts)
    for low in range(0, 40, 10):
        call.finished(journal.BlockEntry(low, low + 10, 0, low))
    for last in (30, 20, 10):
        call.checked(lambda block, _, last=last: block.low if block.low < last else -1)
        assert journal.Call(folder, facts).blocks == call.blocks
    assert [block.low for block in call.blocks] == [0]
