"""SuperGlobal against its formula, and its two ways to find similar members."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
from row_data import unit


def by_formula(query, gallery, m, k1, beta):
    """The scores of the first m rows, in float64, by row number."""
    first = np.argsort(-(gallery @ query), kind="stable")[:m]
    own = gallery[first]
    similarity = own @ own.T
    refined = np.empty_like(own)
    for at in range(m):
        near = np.argsort(-np.where(np.arange(m) == at, -np.inf, similarity[at]), kind="stable")
        near = near[: min(k1, m - 1)]
        weights = beta * similarity[at, near]
        refined[at] = (own[at] + weights @ own[near]) / (1 + weights.sum())
    direct = refined @ query
    best = np.argsort(-direct, kind="stable")[: k1 + 1]
    scores = (direct + refined @ refined[best].max(axis=0)) / 2
    return dict(zip(first.tolist(), scores.tolist(), strict=True))


def grouped(rng, n, d=16):
    rows = rng.normal(size=(n, d)) + 2 * rng.normal(size=(5, d))[rng.integers(0, 5, n)]
    return unit(rows).astype(np.float32)


@pytest.mark.parametrize(("m", "k1"), [(30, 4), (7, 6), (2, 1), (120, 9)])
def test_scores_are_those_of_the_formula(m, k1):
    rng = np.random.default_rng(m)
    queries, gallery = grouped(rng, 20), grouped(rng, 120)
    method = kinrank.SG(m=m, k1=k1)
    for many in (method.rerank(queries, gallery, m), method.rerank(queries[:1], gallery, m)):
        for query, ids, distances in zip(queries, many.indices, many.distances, strict=False):
            slow = by_formula(query.astype(float), gallery.astype(float), m, k1, method.beta)
            np.testing.assert_allclose(-distances, [slow[i] for i in ids.tolist()], atol=1e-6)


@pytest.mark.parametrize("vectors", ["float32", "float16"])
def test_neither_way_to_find_members_changes_a_bit(vectors):
    rng = np.random.default_rng(0)
    gallery = grouped(rng, 150)
    gallery[40:60] = gallery[:20]  # duplicates tie
    queries, method = grouped(rng, 30), kinrank.SG(m=40, k1=5)
    together = method.rerank(queries, gallery, 60, run=kinrank.Run(vectors=vectors))
    for row, query in enumerate(queries):
        alone = method.rerank(query[None], gallery, 60, run=kinrank.Run(vectors=vectors))
        np.testing.assert_array_equal(alone.indices[0], together.indices[row])
        np.testing.assert_array_equal(alone.distances[0], together.distances[row])
