"""Odd input of groups: one sentence each, and no file changes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kinrank
from kinrank import Constraints, InvalidInputError, KinrankError

N = 30


def rows():
    random = np.random.default_rng(0)
    centres = random.normal(size=(6, 8))
    return np.repeat(centres, 5, axis=0) + 0.1 * random.normal(size=(N, 8))


def with_value(value, row=3):
    odd = rows()
    odd[row] = value
    return odd


@pytest.fixture(scope="module")
def found():
    return kinrank.group(rows())


@pytest.mark.parametrize(
    ("vectors", "given", "sentence"),
    [
        (with_value(np.nan), {}, "must be finite, got NaN or infinity in row 3"),
        (with_value(0), {}, "Row 3 of `vectors` is a zero vector, which is like no other row"),
        (np.empty((0, 4)), {}, "at least one row and one column"),
        (np.arange(4.0), {}, "two-dimensional"),
        (None, {}, "must hold real numbers"),
        (rows(), {"ids": ["a"]}, "for each of the 30 rows"),
        (rows(), {"ids": [None] * N}, "for each of the 30 rows"),
        (rows(), {"ids": ["a", *range(N - 1)]}, "all numbers or all text, got both"),
        (rows(), {"ids": np.arange(N, dtype=np.uint64) + 2**63}, r"below 2\^63"),
        (rows(), {"strictness": "a"}, r"`strictness` must be a number in \[0, 1\], got 'a'"),
        (rows(), {"threshold": 2}, r"`threshold` must be a number in \[0, 1\], got 2"),
        (rows(), {"method": "cas"}, r"`method` must be kinrank\.CAS with parameters, got 'cas'"),
        (rows(), {"method": kinrank.KReciprocal()}, r"`method` must be kinrank\.CAS"),
        (rows(), {"threads": 0}, "`threads` must be"),
        (rows(), {"run": "fast"}, r"`run` must be a kinrank\.Run"),
        (rows(), {"corrections": 3}, "`corrections` must be the path"),
    ],
)
def test_what_cannot_be_grouped(vectors, given, sentence):
    with pytest.raises(KinrankError, match=sentence):
        kinrank.group(vectors, **given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"together": [(0, 99)]}, "`together` names the id 99, which no row has"),
        ({"together": [(True, False)]}, "names the id True"),
        ({"together": [0, 1]}, "must be pairs of ids, or pairs and a weight, got 0"),
        ({"together": None}, "must be pairs of ids, or pairs and a weight, got None"),
        ({"apart": [(1, 1)]}, "two different rows, got 1 twice"),
        ({"apart": [(1, 2, np.nan)]}, r"`apart\[0\]\[2\]` must be a number"),
        ({"distinct": [1, 2]}, r"`distinct` must be columns by name.*got \[1, 2\]"),
        ({"distinct": None}, "`distinct` must be columns by name.*got None"),
        ({"distinct": {"photo": [1]}}, r"`distinct\['photo'\]` must be a value for each of the 30"),
        ({"distinct": {"photo": [[1]] * N}}, r"`distinct\['photo'\]` must hold numbers or text"),
        ({"intervals": ([2] * N, [1] * N)}, "must not end before they start"),
        ({"intervals": 3}, "must be two columns"),
        ({"known": ["a"]}, "`known` must be a value for each of the 30 rows, got 1"),
        (
            {"together": [(0, 1), (1, 2)], "apart": [(0, 2)]},
            "contradict each other: 0 and 2 must stay apart, .* through 0 - 1 - 2",
        ),
        (
            {"known": ["a", "", "b", *[None] * (N - 3)], "together": [(0, 1), (1, 2)]},
            "contradict each other: 0 and 2 are known as two, .* through 0 - 1 - 2",
        ),
    ],
)
def test_constraints_that_cannot_be(given, sentence):
    with pytest.raises(KinrankError, match=sentence):
        kinrank.group(rows(), constraints=Constraints(**given))


def test_a_correction_goes_before_what_is_known():
    log = kinrank.Corrections()
    log.append("merge", ids=[0, 1])
    known = ["a", "b", *[None] * (N - 2)]
    groups = kinrank.group(rows(), constraints=Constraints(known=known), corrections=log)
    assert groups.group_of(0) == groups.group_of(1)
    assert "the correction holds" in groups.contradictions[0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda g: g.rows(-1), "`number` must be an integer of at least 0"),
        (lambda g: g.group_of(True), "no row with the id True"),
        (lambda g: g.why(None, 1), "no row with the id None"),
        (lambda g: g.candidates(0, 0), "`k` must be an integer of at least 1"),
        (lambda g: g.answer(g.questions(1)[0], "yes"), "`same` must be True or False, got 'yes'"),
        (lambda g: g.merge("01"), "numbers of groups, got '01'"),
        (lambda g: g.merge([[0], [1]]), r"`numbers` must be an integer of at least 0, got \[0\]"),
        (lambda g: g.merge([0, 99]), "There is no group 99"),
        (lambda g: g.split(0, None), "`parts` must be lists of ids"),
        (lambda g: g.move([], 0), "at least one row"),
        (lambda g: g.remove(0), "must be a list of ids, got 0"),
        (lambda g: g.name(0, None), "`name` must be text"),
        (lambda g: g.name(0, "a", author=3), "`author` must be text"),
        (lambda g: g.join(np.zeros((1, 8))), "Row 0 of `vectors` is a zero vector"),
        (lambda g: g.join(rows()[0]), "two-dimensional"),
        (lambda g: g.join(rows()[:1], np.array([2**63], np.uint64)), r"below 2\^63"),
        (lambda g: g.save("groups.xlsx"), r"must end in \.csv or \.json"),
    ],
)
def test_calls_that_cannot_be_answered(found, call, sentence):
    before = found.corrections.version
    with pytest.raises(KinrankError, match=sentence):
        call(found)
    assert found.corrections.version == before


@pytest.mark.parametrize(
    ("vectors", "given", "sentence"),
    [
        (rows()[:1], {}, "at least 2 rows"),
        (with_value(0, row=29), {}, "Row 29 of `vectors` is a zero vector"),
        (with_value(np.inf), {}, "must be finite"),
        (rows(), {"similarity": 2}, r"`similarity` must be a number in \(0, 1\], got 2"),
        (rows(), {"ids": ["a"] * N}, "got 'a' more than once"),
    ],
)
def test_near_duplicates_of_odd_rows(vectors, given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        kinrank.near_duplicates(vectors, **given)


def test_an_index_refuses_in_the_same_words():
    index = kinrank.CAS(k1=5, k2=2).fit(rows())
    with pytest.raises(InvalidInputError, match=r"`constraints` must be kinrank\.Constraints"):
        index.groups(constraints=3)
    euclidean = kinrank.CAS(k1=5, k2=2, metric="euclidean").fit(with_value(0))
    with pytest.raises(InvalidInputError, match="Row 3 of `vectors` is a zero vector"):
        euclidean.groups()


def written(path):
    groups = kinrank.group(rows(), corrections=path).merge([0, 1]).name(0, "Anna")
    assert groups.names == {0: "Anna"}
    return path.read_bytes()


DAMAGE = {
    "nothing of kinrank": lambda whole: b"id,group\n1,2\n",
    "binary": lambda whole: bytes(range(256)),
    "deeply nested": lambda whole: b"[" * 100_000 + b"\n",
    "without its first line": lambda whole: whole.split(b"\n", 1)[1],
    "a line of nonsense": lambda whole: whole + b"nonsense\n",
    "not UTF-8": lambda whole: whole + b"\xff\xfe\n",
    "an unknown kind": lambda whole: whole + b'{"kind": "dance", "key": "x", "time": 1}\n',
    "ids that are lists": lambda whole: (
        whole + b'{"kind": "merge", "key": "x", "time": 1, "ids": [[0], [1]]}\n'
    ),
    "a newer version": lambda whole: (
        json.dumps({"kinrank": "corrections", "version": 99}).encode() + b"\n"
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_of_corrections_is_left_as_it_is(tmp_path, damage):
    path = tmp_path / "corrections.jsonl"
    content = damage(written(path))
    path.write_bytes(content)
    with pytest.raises(kinrank.FileFormatError, match="left as it is"):
        kinrank.group(rows(), corrections=path)
    assert path.read_bytes() == content


def test_corrections_of_another_collection_are_left_as_they_are(tmp_path):
    path = tmp_path / "corrections.jsonl"
    content = written(path)
    with pytest.raises(kinrank.FileFormatError, match="must be of this collection"):
        kinrank.group(rows(), [f"other {row}" for row in range(N)], corrections=path)
    assert path.read_bytes() == content


def test_corrections_where_no_file_can_be(tmp_path):
    with pytest.raises(InvalidInputError, match="must be a file, got the folder"):
        kinrank.group(rows(), corrections=tmp_path)
    with pytest.raises(InvalidInputError, match="must be in a folder that is there"):
        kinrank.group(rows(), corrections=tmp_path / "none" / "corrections.jsonl")
