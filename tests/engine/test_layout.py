"""Rows are renumbered for the caches; nothing of that may show."""

import numpy as np
import pytest

import kinrank
from kinrank.stages.layout import Layout
from kinrank.types import Neighbors, SparseRows


def lists_of(points, k):
    d2 = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(d2, -1)
    order = np.argsort(d2, axis=1, kind="stable")[:, :k].astype(np.int32)
    return Neighbors(
        order,
        np.maximum(np.take_along_axis(d2, order, 1), 0).astype(np.float32),
        d2.max(axis=1).astype(np.float32),
    )


def test_it_is_a_permutation_with_the_queries_first():
    known = lists_of(np.random.default_rng(0).normal(size=(60, 3)), 8)
    layout = Layout.near(known.indices, 5, 12)
    assert sorted(layout.order[:12]) == list(range(12))
    assert sorted(layout.order) == list(range(60))
    np.testing.assert_array_equal(layout.position[layout.order], np.arange(60))


def test_a_cluster_stays_together():
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(np.arange(6), 15))
    points = 100 * labels[:, None] + rng.normal(size=(90, 2))
    layout = Layout.near(lists_of(points, 10).indices, 10, 0)
    assert np.count_nonzero(np.diff(labels[layout.order])) == 5


@pytest.mark.parametrize("seed", range(5))
def test_any_lists_give_an_order(seed):
    # Lists of anything: hubs, rows that list nobody or only themselves, one row many times.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 200))
    lists = (n * rng.random((n, 7)) ** rng.integers(1, 6)).astype(np.int32)
    lists[rng.random((n, 7)) < 0.3] = -1
    lists[:, 0] = np.arange(n)
    order = Layout.near(lists, int(rng.integers(1, 8)), 0).order
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


def test_the_nearest_rows_are_joined_first():
    # Pairs at 0 and 1, 10 and 11, and so on, in any order: each pair stays together.
    rng = np.random.default_rng(5)
    points = rng.permutation(np.repeat(10.0 * np.arange(40), 2) + np.tile([0, 1], 40))[:, None]
    order = points[Layout.near(lists_of(points, 6).indices, 6, 0).order, 0]
    np.testing.assert_array_equal(order[::2] // 10, order[1::2] // 10)


def test_lists_and_matrices_say_the_same_under_new_numbers():
    rng = np.random.default_rng(2)
    known = lists_of(rng.normal(size=(40, 3)), 7)
    layout = Layout.near(known.indices, 7, 5)
    moved = layout.neighbors(known)
    np.testing.assert_array_equal(layout.order[moved.indices], known.indices[layout.order])
    np.testing.assert_array_equal(moved.indices[:, 0], np.arange(40))
    dense = rng.random((40, 40)) * (rng.random((40, 40)) < 0.2)
    from scipy.sparse import csr_array

    back = layout.matrix(SparseRows.from_scipy(csr_array(dense))).to_scipy().toarray()
    np.testing.assert_allclose(back, dense[np.ix_(layout.order, layout.order)], rtol=1e-6)


@pytest.mark.parametrize("k", [9, None])
@pytest.mark.parametrize("geodesic", [False, True])
def test_equal_results_go_to_the_lower_number(k, geodesic):
    # Every row four times, far apart in number: copies are equally near to everything.
    points = np.tile(np.random.default_rng(3).normal(size=(40, 4)), (4, 1))
    found = kinrank.CAS(k1=8, k2=3, geodesic=geodesic).rerank(points[:10], points[10:], k=k)
    for ids, distances in zip(found.indices, found.distances, strict=True):
        same = np.diff(distances) == 0
        assert np.all(np.diff(ids)[same] > 0)
        assert same.any()
