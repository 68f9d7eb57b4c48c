"""Two halves of the features that judge each other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank
from kinrank.parallel import Runner
from kinrank.tune import views
from kinrank.tune.diagnosis import expected_gain, judge
from kinrank.tune.look import Look
from kinrank.tune.views import ASKED, NEAR, Evidence, cross_examine, draw, halves, precision
from row_data import blobs

ROWS = blobs()


def naive_precision(order, right):
    hits, total = 0, 0.0
    for place, column in enumerate(order, start=1):
        if right[column]:
            hits += 1
            total += hits / place
    return total / right.sum()


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(1, 30), listed=st.integers(1, 30))
def test_precision_against_a_loop(seed, n, listed):
    random = np.random.default_rng(seed)
    orders = np.array([random.permutation(n)[:listed] for _ in range(5)], np.int32)
    right = random.random((5, n)) < 0.3
    right[:, 0] = True
    expected = [naive_precision(*pair) for pair in zip(orders, right, strict=True)]
    np.testing.assert_allclose(precision(orders, right), expected)


def test_halves_hold_all_that_the_features_say():
    pair = halves(ROWS, np.random.default_rng(0), unit=False)
    assert [half.shape[1] for half in pair] == [12, 12]
    np.testing.assert_allclose(sum(half @ half.T for half in pair), ROWS @ ROWS.T, atol=1e-3)
    for half in halves(ROWS, np.random.default_rng(0), unit=True):
        np.testing.assert_allclose(np.linalg.norm(half, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("width", [2, 3, 8, 9, 24])
def test_the_cosine_transform_by_its_sum(width):
    rows = np.random.default_rng(0).normal(size=(4, width)).astype(np.float32)
    k, i = np.arange(width)[:, None], np.arange(width)
    basis = np.sqrt(2 / width) * np.cos(np.pi * k * (2 * i + 1) / (2 * width))
    basis[0] *= np.sqrt(0.5)
    np.testing.assert_allclose(views._cosine_transform(rows), rows @ basis.T, atol=1e-6)


def test_of_wide_features_some_columns_tell_about_all():
    rows = np.random.default_rng(0).normal(size=(50, 1100)).astype(np.float32)
    rows[:, 7:] *= 0.01  # one end of the columns has it all
    for half in halves(rows, np.random.default_rng(0), unit=True):
        assert half.shape == (50, views.WIDEST)
        products = (half @ half.T)[np.triu_indices(50, 1)]
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        assert np.corrcoef(products, (unit @ unit.T)[np.triu_indices(50, 1)])[0, 1] > 0.95


def test_a_view_ranks_as_the_method_does():
    seen = views._view(ROWS, 30, Runner(1))
    after = kinrank.CAS(omega=0).rerank(ROWS[:30], ROWS[30:], k=100)
    np.testing.assert_array_equal(seen.after, after.indices)
    d2 = ((ROWS[:30, None] - ROWS[None, 30:]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(seen.before, np.argsort(d2, axis=1)[:, :100])
    for row in range(30):
        assert set(np.flatnonzero(seen.near[row])) == set(
            after.indices[row][after.distances[row] < NEAR]
        )
        agreed = set(seen.before[row, :20]) & set(seen.after[row, :20])
        assert set(np.flatnonzero(seen.agreed[row])) == agreed


def test_a_small_collection_is_ranked_as_a_whole():
    sample, n_asked = draw(ROWS, 60, np.random.default_rng(0), Runner(1))
    assert sorted(sample.tolist()) == list(range(len(ROWS)))
    assert n_asked == 60
    assert (sample[:60] < 60).all()
    _, without = draw(ROWS, 0, np.random.default_rng(0), Runner(1))
    assert without == len(ROWS) // 4


def test_regions_hold_the_nearest_of_the_rows_that_are_asked_for(monkeypatch):
    monkeypatch.setattr(views, "MOST_ROWS", 100)
    monkeypatch.setattr(views, "REGION_SIZE", 25)
    monkeypatch.setattr(views, "REGIONS", 5)
    d2 = ((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=2)
    sample, n_asked = draw(ROWS, 0, np.random.default_rng(0), Runner(1))
    kept = set(sample.tolist())
    assert len(kept) == len(sample) <= 5 * 25
    assert 0 < n_asked <= ASKED
    asked = sample[:n_asked]
    assert np.mean([len(kept & set(np.argsort(d2[row])[:5].tolist())) for row in asked]) > 4


def test_groups_are_evidence_and_rows_alone_are_not():
    random = np.random.default_rng(0)
    grouped = cross_examine(ROWS, 60, random, unit=False)
    assert grouped.better > 0.2
    assert grouped.gained > 0.02
    assert 6 < np.median(grouped.sizes) < 30
    rows = random.normal(size=(300, 24)).astype(np.float32)
    alone = cross_examine(rows, 60, random, unit=False)
    assert alone.gained < 0.3 * grouped.gained


SEEN = Look(
    rows=300,
    columns=24,
    common=0.1,
    hubness=0.5,
    together={},
    mutual={1: 0.3, 3: 0.3},
    near_dimension=9.0,
    wide_dimension=9.0,
)


def said(**changes):
    known = {"better": 0.5, "gained": 0.05, "before": 0.4, "agreed": 0.03, "agreed_error": 0.01}
    return judge(SEEN, Evidence(**(known | changes), sizes=np.array([1, 4, 5, 9])))


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, "will help", "50% more rows get better"),
        (
            {"better": 0.1, "gained": 0.001, "agreed": 0.0},
            "will not help",
            "as good before re-ranking",
        ),
        ({"gained": 0.001, "agreed": 0.05}, "will help", "50% more rows get better"),
        ({"better": -0.3, "gained": -0.05, "agreed": -0.01}, "unsure", "too little to tell"),
        ({"better": -0.9, "gained": -0.05, "agreed": -0.03}, "will not help", "90% more rows get"),
        ({"better": 0.1, "agreed": -0.1}, "will not help", "moves down"),
        ({"better": 0.1, "gained": 0.001, "before": 0.05, "agreed": 0.0}, "unsure", "too noisy"),
        ({"better": -0.9, "before": 0.05, "agreed": -0.03}, "unsure", "too noisy"),
        ({"better": 0.9, "before": 0.05, "agreed": 0.03}, "will help", "more rows get"),
        ({"better": 0.1, "gained": 0.01, "agreed": 0.03}, "unsure", "too little to tell"),
    ],
)
def test_the_verdict(changes, verdict, words):
    found = said(**changes)
    assert found.verdict == verdict
    assert words in found.reason
    assert found.singletons == 0.25
    assert found.cluster_sizes[1] == 4


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"mutual": {1: 0.6, 3: 0.8, 10: 0.3}}, "close groups"),
        ({"together": {10: 0.5}}, "in common"),
    ],
)
def test_groups_in_the_lists_are_enough(lists, words):
    known = {"better": 0.0, "gained": 0.0, "before": 0.4, "agreed": 0.0, "agreed_error": 0.01}
    found = judge(replace(SEEN, **lists), Evidence(**known, sizes=np.array([3])))
    assert found.verdict == "will help"
    assert words in found.reason


def test_nobody_confirms_couples():
    couples = replace(SEEN, mutual={1: 0.9, 3: 0.3})
    known = {"better": 0.5, "gained": 0.1, "before": 0.4, "agreed": 0.1, "agreed_error": 0.01}
    found = judge(couples, Evidence(**known, sizes=np.array([2])))
    assert found.verdict == "unsure"
    assert "couples" in found.reason


def test_more_evidence_is_more_gain():
    known = {"better": 0.5, "before": 0.4, "agreed_error": 0.01, "sizes": np.array([3])}
    little, much = (
        expected_gain(SEEN, Evidence(gained=gain, agreed=gain, **known)) for gain in (0.01, 0.1)
    )
    assert 0 < little < much < 1
    alike = replace(SEEN, together={10: 0.8})
    assert expected_gain(alike, Evidence(gained=0.1, agreed=0.1, **known)) < much


def test_nothing_is_right_for_anybody():
    rows = np.zeros((80, 4), np.float32)
    found = cross_examine(rows, 20, np.random.default_rng(0), unit=False)
    assert np.isfinite([found.better, found.gained, found.agreed, found.agreed_error]).all()
