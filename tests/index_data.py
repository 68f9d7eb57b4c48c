"""Inputs and comparisons of the index's tests."""

import numpy as np

from engine_data import clustered

ROWS = clustered(460, d=8, clusters=24, seed=1, spread=0.3)
QUERIES = clustered(24, d=8, clusters=24, seed=1, spread=0.33)
IDS = [f"r{n}" for n in range(len(ROWS))]
SQUARED = ((ROWS[:, None].astype(np.float64) - ROWS) ** 2).sum(-1)


def lists(index):
    """The neighbour lists by name, in the order of names."""
    state = index.engine.state
    return state.order[state.neighbors.indices][np.argsort(state.order)]


def assert_same(one, other, queries=QUERIES, k=30):
    """Same lists, distances within 1e-5, and the same order but for ties."""
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(lists(one), lists(other))
    a, b = one.search(queries, k=k), other.search(queries, k=k)
    np.testing.assert_allclose(a.distances, b.distances, atol=1e-5)
    assert np.mean(a.ids == b.ids) > 0.99
