"""What a filter must give: the whole ranking with rows that are not allowed struck out by hand."""

import numpy as np


def struck(whole, allowed, k=None):
    """The first ``k`` of a whole ranking that ``allowed``, (n,) or (n_queries, n), lets through."""
    n_queries, n = len(whole), np.shape(allowed)[-1]
    allowed = np.broadcast_to(allowed, (n_queries, n))
    k = n if k is None else k
    indices = np.full((n_queries, k), -1, np.int32)
    distances = np.full((n_queries, k), np.inf, np.float32)
    for query in range(n_queries):
        kept = [
            (row, d)
            for row, d in zip(whole.indices[query], whole.distances[query], strict=True)
            if row >= 0 and allowed[query, row]
        ][:k]
        for at, (row, d) in enumerate(kept):
            indices[query, at], distances[query, at] = row, d
    return indices, distances


def assert_struck(got, whole, allowed, k=None):
    """The same rows at the same distances, to the bit."""
    indices, distances = struck(whole, allowed, got.k if k is None else k)
    np.testing.assert_array_equal(got.indices, indices)
    np.testing.assert_array_equal(got.distances, distances)


def rows(n, seed):
    """Rows around the same centres for any seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(9, 16)) * 1.5
    return (centres[rng.integers(0, 9, n)] + rng.normal(size=(n, 16))).astype(np.float32)
