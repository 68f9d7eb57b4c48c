"""What lists of neighbours say, against loops over sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinrank.parallel import Runner
from kinrank.tune import lists as listing
from kinrank.tune import look as looking
from kinrank.tune.lists import Lists, compare_lists
from kinrank.tune.look import FAR, NEAR, RANKS, dimension, hubness
from kinrank.tune.look import look as look_at
from kinrank.types import Neighbors

RUN = Runner(1)


def look(rows, n_asked):
    return look_at(Lists(rows, RUN), n_asked, np.random.default_rng(0))


def groups_of(sizes, d=16, spread=0.2, seed=0):
    random = np.random.default_rng(seed)
    centres = np.repeat(random.normal(size=(len(sizes), d)), sizes, axis=0)
    return (centres + spread * random.normal(size=centres.shape) / np.sqrt(d)).astype(np.float32)


def naive_lists(rows, k):
    d2 = ((rows[:, None].astype(float) - rows[None]) ** 2).sum(axis=2)
    np.fill_diagonal(d2, -1)
    return np.argsort(d2, axis=1, kind="stable")[:, :k].astype(np.int32)


def naive_shares(asked, lists, k):
    kept, found = [], []
    for row in asked:
        own, theirs = set(lists[row, : k + 1]), set(lists[lists[row, k], : k + 1])
        kept.append(len(own & theirs) / (k + 1))
        found.append(row in theirs)
    return np.mean(kept), np.mean(found)


class KnownLists(Lists):
    """Lists that a loop found."""

    def of(self, rows, k):
        return Neighbors(naive_lists(self.vectors, k)[rows], np.empty((0, 0), np.float32))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), n=st.integers(6, 70))
def test_shares_against_sets(seed, n):
    random = np.random.default_rng(seed)
    rows = random.integers(0, 3, size=(n, 3)).astype(np.float32)  # with ties
    lists = naive_lists(rows, min(n, FAR + 1))
    asked = np.sort(random.choice(n, n // 2, replace=False))
    known = KnownLists(rows, RUN)
    together, mutual = compare_lists(asked, RANKS, known)
    assert list(together) == list(mutual) == [k for k in RANKS if k < lists.shape[1]]
    for k in together:
        assert (together[k], mutual[k]) == pytest.approx(naive_shares(asked, lists, k))


def test_groups_share_their_lists():
    seen = look(groups_of([11] * 40), 200)
    assert seen.together[NEAR] == 1
    assert seen.mutual[NEAR] == 1
    assert seen.together[FAR] < 0.6
    assert (seen.rows, seen.columns) == (440, 16)


def test_of_a_large_collection_only_some_lists_are_found(monkeypatch):
    rows = groups_of([15] * 60, spread=2.0)
    whole = look(rows, 900)
    monkeypatch.setattr(listing, "WHOLE", 300)
    monkeypatch.setattr(looking, "SAMPLE", 300)
    some = look(rows, 900)
    assert some.together == pytest.approx(whole.together, abs=1e-6)
    assert some.mutual == pytest.approx(whole.mutual, abs=1e-6)


def test_hubness_is_the_skewness_of_occurrences():
    rows = np.random.default_rng(0).normal(size=(60, 20)).astype(np.float32)
    lists = naive_lists(rows, NEAR + 1)[:, 1:]
    counts = np.bincount(lists.ravel(), minlength=60).astype(float)
    skewness = np.mean((counts - counts.mean()) ** 3) / counts.std() ** 3
    assert hubness(lists, 60) == pytest.approx(skewness)
    assert look(rows, 60).hubness == pytest.approx(skewness)
    assert hubness(np.array([[1], [0]]), 2) == 0


def test_what_all_rows_have_in_common():
    rows = np.random.default_rng(0).normal(size=(500, 20))
    alike = look((rows + 8).astype(np.float32), 100)
    apart = look(rows.astype(np.float32), 100)
    assert alike.common > 0.95
    assert abs(apart.common) < 0.05


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_the_dimension_of_a_cube(dimensions):
    rows = np.zeros((1500, 12), np.float32)
    rows[:, :dimensions] = np.random.default_rng(0).random((1500, dimensions))
    seen = look(rows, 1500)
    assert seen.near_dimension == pytest.approx(dimensions, rel=0.2)
    assert seen.wide_dimension == pytest.approx(dimensions, rel=0.2)


def test_a_noisy_line_has_many_dimensions_near_a_row_and_one_farther_away():
    random = np.random.default_rng(0)
    rows = 0.02 * random.normal(size=(1500, 12))
    rows[:, 0] += 5 * random.random(1500)
    seen = look(rows.astype(np.float32), 1500)
    assert seen.wide_dimension < 0.5 * seen.near_dimension


def test_dimension_against_a_loop():
    squared = np.sort(np.random.default_rng(0).random((20, 9)), axis=1)
    squared[3, :4] = 0  # copies
    growths = []
    for row in squared:
        for near in row[1:-1]:
            if near > 0:
                growths.append(np.log(np.sqrt(row[-1]) / np.sqrt(near)))
    expected = np.mean([sum(1 / i for i in range(j, 9)) for j in range(2, 9)])
    assert dimension(squared) == pytest.approx(expected / np.mean(growths))
    assert dimension(np.zeros((4, 9))) == 0


def test_rows_that_are_all_the_same():
    seen = look(np.ones((80, 4), np.float32), 80)
    assert np.isfinite([seen.common, seen.hubness]).all()
    assert seen.near_dimension == seen.wide_dimension == 0
