"""The kernels of groups against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive_groups
from kinrank.kernels.merging import best_antichain, merge_links


def some_links(seed, n=40, d=6):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n, d)) + 3 * random.normal(size=(5, d))[random.integers(0, 5, n)]
    centres = (centres / np.linalg.norm(centres, axis=1, keepdims=True)).astype(np.float32)
    similarities = np.where(random.random((n, n)) < 0.3, random.random((n, n)), 0)
    similarities = np.triu(similarities, 1)
    similarities += similarities.T
    apart = np.triu(random.random((n, n)) < 0.02, 1)
    return similarities, apart | apart.T, centres


def sparse(similarities, apart):
    stored = (similarities > 0) | apart
    ptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype(np.int64)
    rows, columns = np.nonzero(stored)
    return ptr, columns.astype(np.int32), similarities[rows, columns], apart[rows, columns]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("constrained", [False, True])
def test_merges_are_those_of_the_twin(seed, constrained):
    similarities, apart, centres = some_links(seed)
    n = len(centres)
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, n).astype(float) if constrained else np.ones(n)
    anchors = np.where(random.random(n) < 0.2, random.integers(0, 3, n), -1)
    if not constrained:
        apart[:] = False
        anchors[:] = -1
    centres = (centres * sizes[:, None]).astype(np.float32)
    expected = naive_groups.merge(similarities, apart, sizes, centres, anchors, 4.0)
    got = merge_links(*sparse(similarities, apart), sizes, centres.copy(), anchors.copy(), 4.0)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_antichain_has_the_greatest_sum(seed):
    similarities, apart, centres = some_links(seed, n=30)
    apart[:] = False
    n = len(centres)
    anchors = np.full(n, -1)
    children, _ = merge_links(
        *sparse(similarities, apart), np.ones(n), centres.copy(), anchors, 60.0
    )
    values = np.random.default_rng(seed).random(n + len(children))
    values[n:] *= 3
    chosen, above = best_antichain(values, children, n)
    assert values[chosen].sum() == pytest.approx(naive_groups.best_sum(values, children, n))
    assert set(above.tolist()) == set(np.flatnonzero(chosen).tolist())


def test_rows_without_links_are_not_merged():
    empty = np.zeros((3, 3))
    arrays = sparse(empty, empty.astype(bool))
    directions = np.ones((3, 2), np.float32)
    children, links = merge_links(*arrays, np.ones(3), directions, np.full(3, -1), 60.0)
    assert children.shape == (0, 2)
    assert len(links) == 0
