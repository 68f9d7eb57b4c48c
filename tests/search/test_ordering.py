"""Orders of values: digits that are counted, and keys that are sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinrank.kernels.order import rank_rows
from kinrank.ordering import ascending, move_rows


@pytest.mark.parametrize("n", [0, 1, 50, 1024, 1025, 5000])
@pytest.mark.parametrize("kind", ["normal", "ties", "zeros", "far"])
def test_order_is_that_of_a_stable_sort(n, kind):
    rng = np.random.default_rng(n)
    values = {
        "normal": rng.normal(size=n),
        "ties": rng.integers(-3, 3, n),
        "zeros": np.where(rng.random(n) < 0.5, -0.0, 0.0),
        "far": np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n) * 1e-40),
    }[kind].astype(np.float32)
    stable = np.argsort(values, kind="stable")
    np.testing.assert_array_equal(ascending(values), stable)
    for k in (1, n // 5, n // 2):
        np.testing.assert_array_equal(ascending(values, k), stable[:k])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 40))
def test_rows_are_moved_in_place(seed, n):
    rng = np.random.default_rng(seed)
    rows, order = rng.random((n, 3)), rng.permutation(n).astype(np.int32)
    moved = rows[order]
    move_rows(rows, order)
    np.testing.assert_array_equal(rows, moved)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.booleans())
def test_whole_rows_are_ranked_as_a_stable_sort_ranks_them(seed, n, root):
    rng = np.random.default_rng(seed)
    squared = rng.integers(0, 6, (3, n)).astype(np.float32)  # ties
    modified = (rng.integers(0, 3, (3, n)) / 2).astype(np.float32)
    farthest = np.array([0, squared[1].max(), 4], np.float32)
    names, omega = rng.permutation(n).astype(np.int32), np.float32(0.3)
    scale = np.where(farthest > 0, farthest, np.float32(np.inf))[:, None]
    d = np.minimum(squared / scale, np.float32(1))
    d = np.sqrt(d) if root else d
    by_name = np.empty_like(modified)
    by_name[:, names] = modified
    fused = (np.float32(1) - omega) * by_name + omega * d
    k, rows = rng.integers(1, n + 1), np.array([4, 0, 2], np.int32)
    ids, values = np.full((5, k), -7, np.int32), np.full((5, k), -7, np.float32)
    rank_rows(rows, squared, farthest, modified, omega, root, names, ids, values)
    for at, row in enumerate(rows):
        order = np.argsort(fused[at], kind="stable")[:k]
        np.testing.assert_array_equal(ids[row], order)
        np.testing.assert_array_equal(values[row], fused[at][order])
    assert (ids[[1, 3]] == -7).all()
    assert (values[[1, 3]] == -7).all()
