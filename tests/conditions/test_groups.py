"""Groups: each ranked as if it were a collection of its own."""

import warnings

import numpy as np
import pytest

import kinrank
from kinrank import CAS, InvalidInputError
from struck import rows

NQ, NG = 12, 160


@pytest.fixture(scope="module")
def sets():
    return rows(NQ, 5), rows(NG, 6)


@pytest.fixture(scope="module")
def groups():
    rng = np.random.default_rng(0)
    return rng.integers(0, 4, NQ), rng.integers(0, 3, NG)  # nobody is in group 3


@pytest.mark.parametrize("name", ["cas", "aqe", "kreciprocal"])
@pytest.mark.parametrize("k", [5, None])
def test_each_group_alone(sets, groups, name, k):
    queries, gallery = sets
    of_queries, of_gallery = groups
    got = kinrank.rerank(queries, gallery, name, k, groups=groups)
    for group in range(4):
        some, members = np.flatnonzero(of_queries == group), np.flatnonzero(of_gallery == group)
        if len(members) == 0:
            assert (got.indices[some] == -1).all()
            continue
        alone = kinrank.rerank(queries[some], gallery[members], name, k)
        np.testing.assert_array_equal(got.indices[some][:, : alone.k], members[alone.indices])
        np.testing.assert_array_equal(got.distances[some][:, : alone.k], alone.distances)
        assert (got.indices[some][:, alone.k :] == -1).all()


def test_text_filters_and_rows_that_ask_each_other(sets):
    _, gallery = sets
    words = np.array(["cars", "people"])[np.arange(NG) % 2]
    words[7] = "bikes"  # alone: nobody to find
    mask = np.random.default_rng(1).random((NG, NG)) < 0.5
    got = kinrank.rerank(gallery, k=6, groups=words, allowed=mask, k1=8, k2=4)
    assert (got.indices[7] == -1).all()
    for word in ("cars", "people"):
        some = np.flatnonzero(words == word)
        alone = CAS(k1=8, k2=4).rerank(gallery[some], k=6, allowed=mask[np.ix_(some, some)])
        known = alone.indices >= 0
        np.testing.assert_array_equal(got.indices[some], np.where(known, some[alone.indices], -1))


def test_lists_of_rows_are_those_of_the_whole(sets, groups):
    queries, gallery = sets
    lists = [[0, 5, 9, 40, 41, 42]] * NQ
    got = kinrank.rerank(queries, gallery, k=6, groups=groups, allowed=lists)
    whole = kinrank.rerank(queries, gallery, groups=groups)
    for query in range(NQ):
        expected = [row for row in whole.indices[query] if row in lists[0]]
        assert got.indices[query, : len(expected)].tolist() == expected
        assert (got.indices[query, len(expected) :] == -1).all()


@pytest.mark.filterwarnings("ignore:Re-ranking is not expected", "ignore:Whether re-ranking helps")
def test_parameters_for_each_group(sets):
    queries, gallery = sets
    groups = (np.arange(NQ) % 2, np.arange(NG) % 2)
    got = kinrank.rerank(queries, gallery, k=5, groups=groups, params="auto")
    for group in range(2):
        alone = kinrank.rerank(queries[group::2], gallery[group::2], k=5, params="auto")
        np.testing.assert_array_equal(got.indices[group::2] // 2, alone.indices)


def test_a_group_of_one_row():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        got = kinrank.rerank(np.eye(3)[:1], np.eye(3), k=2, groups=([1], [1, 2, 2]))
    np.testing.assert_array_equal(got.indices, [[0, -1]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": [1, 2, 3]}, "two lists"),
        ({"groups": (np.zeros(3), np.zeros(NG))}, r"each of the 12 queries, got shape \(3,\)"),
        ({"groups": (np.zeros(NQ, int), np.zeros(3, int))}, "each of the 160 gallery rows"),
        ({"groups": (["a"] * NQ, np.zeros(NG, int))}, "values of one kind"),
        ({"groups": (np.zeros(NQ), np.zeros(NG))}, "a whole number or text"),
        (
            {
                "groups": (np.zeros(NQ, int), np.zeros(NG, int)),
                "run": kinrank.Run(memory_budget="4GB"),
            },
            "`memory_budget` cannot be used with `groups`",
        ),
    ],
)
def test_bad_groups(sets, given, message):
    with pytest.raises(InvalidInputError, match=message):
        kinrank.rerank(*sets, k=5, **given)
