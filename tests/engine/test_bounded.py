"""Ranking by bounds on d' has the bits of ranking by all sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_data import clustered, digits
from kinrank import CAS
from kinrank.kernels import bounded
from kinrank.stages import divergence as stage


def both(monkeypatch, queries, gallery, k, **options):
    """The rankings without bounds and with them."""
    rankings = []
    for long in (np.inf, 0):
        monkeypatch.setattr(stage, "_LONG", long)
        rankings.append(CAS(**options).rerank(queries, gallery, k))
    return rankings


def assert_same(one, other):
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.distances, other.distances)


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("options", [{}, {"k1": 60, "k2": 6}, {"variant": "paper"}])
def test_digits(monkeypatch, k, options):
    queries, gallery, *_ = digits()
    assert_same(*both(monkeypatch, queries[:60], gallery, k, **options))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(20, 90), st.integers(1, 40), st.floats(0.1, 3))
def test_clusters_with_copies(seed, n, k, spread):
    rows = np.round(clustered(n, seed=seed, spread=spread), 1)
    rows[n // 2 : n // 2 + 3] = rows[-1]
    with pytest.MonkeyPatch.context() as patch:
        assert_same(*both(patch, rows[:7], rows[7:], min(k, n - 8), k1=8, k2=3))


def test_levels_hold_the_mass_that_they_say():
    rng = np.random.default_rng(0)
    values = rng.dirichlet(np.full(300, 0.05), 4).astype(np.float32).ravel()
    ptr, ids = np.arange(0, 1201, 300), np.tile(np.arange(300, dtype=np.int32), 4)
    marks, rests = np.empty(1200, np.int32), np.empty((4, bounded.LEVELS - 1), np.float32)
    bounded.level_rows(0, 4, ptr, ids, values.view(np.int32), values, marks, rests)
    np.testing.assert_array_equal(marks // bounded.LEVELS, ids)
    for row in range(4):
        own = slice(ptr[row], ptr[row + 1])
        for level, share in enumerate(bounded.SHARES):
            above = values[own][marks[own] % bounded.LEVELS > level]
            assert above.sum() <= share
            np.testing.assert_allclose(rests[row, level], above.sum(), atol=1e-6)
            kept = values[own][marks[own] % bounded.LEVELS <= level]
            assert kept.min() >= above.max(initial=0)
