"""Ids of rows: text, 64-bit integers, twice, unknown."""

import numpy as np
import pytest

from index_data import QUERIES, ROWS
from kinrank import CAS, Ranking
from kinrank.errors import InvalidInputError, UnknownIdError

METHOD = CAS(k1=10, k2=4)


def test_text():
    names = [f"image {n}é" for n in range(100)]
    index = METHOD.fit(ROWS[:100], ids=names)
    found = index.search(QUERIES, k=5)
    assert found.ids.dtype.kind == "U"
    assert found.ids[0, 0] == names[found.indices[0, 0]]
    assert "image 3é" in index
    assert "image 333" not in index
    assert 3 not in index
    assert 2.5 not in index
    index.add(ROWS[100:102], ids=["a much longer name than all the others", "b"])
    assert "a much longer name than all the others" in index
    with pytest.raises(InvalidInputError, match="`ids` is missing"):
        index.add(ROWS[102:103])


def test_integers_of_64_bits():
    big = np.arange(100) + 2**62
    index = METHOD.fit(ROWS[:100], ids=big)
    found = index.search(QUERIES, k=5)
    assert found.ids.dtype == np.int64
    np.testing.assert_array_equal(found.ids, big[found.indices])
    index.add(ROWS[100:101])
    assert 2**62 + 100 in index
    index.remove([2**62 + 1, -5 + 2**62 + 7])
    assert len(index) == 99
    negative = METHOD.fit(ROWS[:50], ids=-np.arange(50))
    assert -49 in negative


def test_the_last_ids_of_64_bits():
    index = METHOD.fit(ROWS[:100], ids=range(2**63 - 102, 2**63 - 2))
    with pytest.raises(InvalidInputError, match="3 more integers of 64 bits do not fit behind"):
        index.add(ROWS[100:103])
    index.add(ROWS[100:102])
    assert index.ids[-2:].tolist() == [2**63 - 2, 2**63 - 1]
    with pytest.raises(InvalidInputError, match="do not fit behind 9223372036854775807"):
        index.add(ROWS[102:103])


def test_rows_are_numbered_by_default():
    index = METHOD.fit(ROWS[:100])
    found = index.search(QUERIES, k=5)
    np.testing.assert_array_equal(found.ids, found.indices)
    index.remove([0, 50])
    again = index.search(QUERIES, k=5)
    np.testing.assert_array_equal(again.ids, index.ids[again.indices])
    assert 50 not in again.ids


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1] * 100, "got 1 more than once"),
        (["a"] * 100, "got 'a' more than once"),
        (np.arange(99), r"one per row \(100\), got 99"),
        (np.arange(100) / 2, "all text or all integers"),
        (["a", *range(99)], "all text or all integers"),
        (np.arange(100, dtype=np.uint64) + np.uint64(2**63), "integers of 64 bits"),
        (np.arange(100).reshape(10, 10), "one-dimensional"),
        ("abc", "must be a list or an array"),
        ([None] * 100, "all text or all integers"),
    ],
)
def test_bad_ids(ids, message):
    with pytest.raises(InvalidInputError, match=message):
        METHOD.fit(ROWS[:100], ids=ids)


def test_unknown_ids():
    index = METHOD.fit(ROWS[:100])
    for call in (index.neighbors, index.vectors, index.remove):
        with pytest.raises(UnknownIdError, match="There is no row with the id 100"):
            call([100] if call != index.neighbors else 100)
    with pytest.raises(UnknownIdError):
        index.explain(QUERIES[0], "3")


def test_a_ranking_keeps_its_ids(tmp_path):
    found = METHOD.fit(ROWS[:100], ids=[f"r{n}" for n in range(100)]).search(QUERIES, k=8)
    found.top(3).save(tmp_path / "r.npz")
    again = Ranking.load(tmp_path / "r.npz")
    np.testing.assert_array_equal(again.ids, found.ids[:, :3])
    with pytest.raises(InvalidInputError, match="`ids` must have the shape"):
        Ranking(found.indices, found.distances, found.ids[:, :2])
