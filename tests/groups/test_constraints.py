"""What must be together and apart, over rows; contradictions by name."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
from kinrank import Constraints, Corrections
from kinrank.groups.constraints import bind, distinct_pairs, overlapping_pairs

IDS = np.array(["a", "b", "c", "d"])


def test_rows_that_must_be_together_are_one_leaf():
    bound = bind(Constraints(together=[("a", "b"), ("b", "d")]), None, IDS)
    assert bound.leaves.tolist() == [0, 0, 1, 0]


def test_known_values_are_anchors():
    bound = bind(Constraints(known=["Anna", None, "Anna", "Ben"]), None, IDS)
    assert bound.leaves[0] == bound.leaves[2]
    assert len(set(bound.anchors[bound.leaves].tolist())) == 3


def test_a_weight_is_a_wish():
    bound = bind(Constraints(together=[("a", "b", 2.0)], apart=[("c", "d", 0.5)]), None, IDS)
    assert bound.n_leaves == 4
    assert bound.weights.tolist() == [2.0, -0.5]


@pytest.mark.parametrize("name", ["together", "apart"])
def test_unknown_ids_are_named(name):
    with pytest.raises(kinrank.UnknownIdError, match=f"`{name}` names the id 'x'"):
        bind(Constraints(**{name: [("a", "x")]}), None, IDS)


@pytest.mark.parametrize("pair", [("a",), "ab c", 3, ("a", "b", "heavy")])
def test_odd_pairs_are_refused(pair):
    with pytest.raises(kinrank.KinrankError):
        bind(Constraints(together=[pair]), None, IDS)


def test_a_contradiction_says_through_whom():
    given = Constraints(together=[("a", "b"), ("b", "c")], apart=[("a", "c")])
    with pytest.raises(kinrank.InvalidInputError, match=r"through 'a' - 'b' - 'c'"):
        bind(given, None, IDS)


def test_a_column_contradicts_by_name_too():
    given = Constraints(together=[("a", "b")], distinct={"photo": [1, 1, 2, 3]})
    with pytest.raises(kinrank.InvalidInputError, match="'a' and 'b' must stay apart"):
        bind(given, None, IDS)


def test_a_row_apart_from_itself_is_refused():
    with pytest.raises(kinrank.InvalidInputError, match="two different rows"):
        bind(Constraints(apart=[("a", "a")]), None, IDS)


def test_the_pair_with_an_odd_weight_is_named():
    with pytest.raises(kinrank.InvalidInputError, match=r"`apart\[1\]\[2\]` must be a number"):
        bind(Constraints(apart=[("a", "b"), ("a", "c", -3)]), None, IDS)


def test_a_correction_goes_before_what_was_given_and_it_is_said():
    log = Corrections()
    log.append("merge", ids=["a", "b"])
    bound = bind(Constraints(apart=[("a", "b")]), log.agreed(), IDS)
    assert bound.leaves[0] == bound.leaves[1]
    assert "'a' and 'b'" in bound.contradictions[0]
    log = Corrections()
    log.append("apart", parts=[["a"], ["b"]])
    bound = bind(Constraints(together=[("a", "b")]), log.agreed(), IDS)
    assert bound.leaves[0] != bound.leaves[1]
    assert "a person said that they are not" in bound.contradictions[0]


def test_pairs_of_a_column():
    pairs = distinct_pairs("photo", ["p", "q", "p", "p"], 4)
    assert sorted(map(tuple, pairs.tolist())) == [(0, 2), (0, 3), (2, 3)]
    assert len(distinct_pairs("photo", [None, None, "", float("nan")], 4)) == 0


def test_pairs_of_overlapping_times_are_those_of_all_pairs():
    random = np.random.default_rng(0)
    start = random.integers(0, 20, 30)
    end = start + random.integers(0, 6, 30)
    got = {tuple(sorted(pair)) for pair in overlapping_pairs((start, end), 30).tolist()}
    expected = {
        (one, other)
        for one in range(30)
        for other in range(one + 1, 30)
        if max(start[one], start[other]) < min(end[one], end[other])
    }
    # Moments without length overlap nothing but what goes on around them.
    assert expected <= got
    assert all(start[one] <= end[other] and start[other] <= end[one] for one, other in got)


def test_odd_columns_are_refused():
    with pytest.raises(kinrank.InvalidInputError, match="`photo` must be a value for each"):
        distinct_pairs("photo", [1, 2], 4)
    with pytest.raises(kinrank.InvalidInputError, match="must not end before they start"):
        overlapping_pairs(([3, 0], [1, 1]), 2)
    with pytest.raises(kinrank.InvalidInputError, match="two columns"):
        overlapping_pairs(([3, 0],), 2)
    with pytest.raises(kinrank.InvalidInputError, match="a finite start"):
        overlapping_pairs((["a", "b"], [1, 1]), 2)
