"""The file of corrections: what it says in the end, two writers, and damage."""

from __future__ import annotations

import json
import multiprocessing

import pytest

import kinrank
from kinrank import Corrections


def log_with(*events):
    log = Corrections()
    for kind, fields in events:
        log.append(kind, **fields)
    return log


def test_merging_ties_and_a_later_removal_unties():
    log = log_with(
        ("merge", {"ids": ["a", "b", "c"]}),
        ("remove", {"ids": ["c"], "source": ["a", "b"]}),
    )
    agreed = log.agreed()
    assert agreed.together == (("a", "b"),)
    assert agreed.apart == (("a", "c"), ("b", "c"))


def test_a_later_merge_goes_before_an_earlier_split():
    log = log_with(
        ("split", {"parts": [["a"], ["b"]]}),
        ("merge", {"ids": ["a", "b"]}),
    )
    assert log.agreed().apart == ()
    assert log.agreed().together == (("a", "b"),)


def test_split_keeps_ties_within_parts():
    log = log_with(
        ("confirm", {"ids": ["a", "b", "c", "d"]}),
        ("split", {"parts": [["a", "b"], ["c", "d"]]}),
    )
    assert sorted(log.agreed().together) == [("a", "b"), ("c", "d")]
    assert len(log.agreed().apart) == 4


def test_move_leaves_one_group_for_another():
    log = log_with(("move", {"ids": ["x"], "source": ["a"], "to": ["b"]}))
    assert log.agreed().together == (("b", "x"),)
    assert log.agreed().apart == (("a", "x"),)


def test_undo_takes_back_and_can_be_taken_back():
    log = Corrections()
    event = log.append("merge", ids=[1, 2])
    undo = log.append("undo", event=event.key)
    assert log.standing() == []
    log.append("undo", event=undo.key)
    assert log.standing() == [event]


def test_file_is_read_again_with_the_same_events(tmp_path):
    path = tmp_path / "c.jsonl"
    log = Corrections(path)
    log.append("name", ids=["ä"], name="Änne", author="me")
    again = Corrections(path)
    assert again.events == log.events
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["kinrank"] == "corrections"


def test_two_logs_of_one_file_see_each_other(tmp_path):
    path = tmp_path / "c.jsonl"
    one = Corrections(path)
    other = Corrections(path)
    one.append("merge", ids=[1, 2])
    other.append("merge", ids=[3, 4])  # reads the first before it adds its own
    assert other.version == 2
    assert one.refresh() == 1
    assert one.events == other.events


def _add(path, number):
    log = Corrections(path)
    for step in range(20):
        log.append("merge", ids=[number, 1000 * number + step])


def test_no_line_is_lost_between_processes(tmp_path):
    path = tmp_path / "c.jsonl"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(path, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Corrections(path).version == 60


def test_half_a_last_line_is_set_aside_and_nothing_is_lost(tmp_path):
    path = tmp_path / "c.jsonl"
    Corrections(path).append("merge", ids=[1, 2])
    with path.open("ab") as file:
        file.write(b'{"key": "half')
    with pytest.warns(kinrank.KinrankWarning, match="not finished"):
        log = Corrections(path)
    assert log.version == 1
    with pytest.warns(kinrank.KinrankWarning, match="not finished"):
        log.append("merge", ids=[3, 4])
    assert Corrections(path).version == 2
    assert (tmp_path / "c.jsonl.unfinished").read_bytes() == b'{"key": "half\n'


@pytest.mark.parametrize(
    "line",
    ["nonsense", "{}", '{"kind": "merge", "key": "k", "time": 0, "ids": "ab"}', "[1]"],
)
def test_a_damaged_line_is_named_and_the_file_left_alone(tmp_path, line):
    path = tmp_path / "c.jsonl"
    Corrections(path).append("merge", ids=[1, 2])
    with path.open("a") as file:
        file.write(line + "\n")
    before = path.read_bytes()
    with pytest.raises(kinrank.FileFormatError, match=r"Line 3 of .* is damaged"):
        Corrections(path)
    assert path.read_bytes() == before


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("name,group\n")
    with pytest.raises(kinrank.FileFormatError, match="must be a file of corrections"):
        Corrections(path)
    assert path.read_text() == "name,group\n"


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"kinrank": "corrections", "version": 2}\n')
    with pytest.raises(kinrank.FileFormatError, match="a newer kinrank wrote it"):
        Corrections(path)


def test_corrections_of_another_collection_are_refused():
    log = log_with(("merge", {"ids": ["a", "b", "c"]}))
    with pytest.raises(kinrank.FileFormatError, match="names 3 ids of which 1 are here"):
        log.check_collection(["a", "x", "y"])
    log.check_collection(["a", "b", "x"])  # one was removed since


def test_odd_corrections_are_refused():
    with pytest.raises(kinrank.InvalidInputError, match="must be one of merge"):
        Corrections().append("melt", ids=[1])
    with pytest.raises(kinrank.InvalidInputError, match="with its own fields"):
        Corrections().append("merge", parts=[[1]])
