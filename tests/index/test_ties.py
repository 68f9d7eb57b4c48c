"""Ties are settled by the gallery index: not by storage, changes, or what else is asked."""

import numpy as np
import pytest

import kinrank
from kinrank import CAS
from storm_data import (
    KINDS,
    by_item,
    changed_and_fresh,
    different_rows_tie,
    permuted_order,
    tied_rows,
)

METHODS = [
    CAS(k1=10, k2=4),
    CAS(k1=7, k2=3, variant="paper"),
    CAS(k1=8, k2=3, clusters="knn", smoothing="aqe", metric="euclidean"),
    CAS(k1=9, k2=3, geodesic=True),
    CAS(k1=8, k2=4, propagation="transpose"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS, ids=range(len(METHODS)))
def test_a_storm_of_changes_ends_as_a_fresh_fit(kind, method):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = tied_rows(rng, kind, 200, 16)
        index, fresh = changed_and_fresh(rng, method, rows, 120, 8)
        queries = np.concatenate([tied_rows(rng, kind, 6, 16), rows[:3]])
        difference = by_item(index, queries) - by_item(fresh, queries)
        np.testing.assert_allclose(difference, 0, atol=1e-5)
        one, other = index.search(queries, k=20, base=True), fresh.search(queries, k=20, base=True)
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_allclose(one.distances, other.distances, atol=1e-6)


def test_one_row_is_added_to_many_that_tie():
    rng = np.random.default_rng(0)
    gallery = rng.integers(-1, 2, (500, 16)).astype(np.float32)
    queries = rng.integers(-1, 2, (20, 16)).astype(np.float32)
    method = CAS(k1=10, k2=4)
    index = method.fit(gallery)
    index.add(queries[:1])
    fresh = method.fit(np.concatenate([gallery, queries[:1]]))
    np.testing.assert_array_equal(
        index.search(queries, k=10).indices, fresh.search(queries, k=10).indices
    )


@pytest.mark.parametrize("kind", ["copies", "random"])
@pytest.mark.parametrize("method", METHODS, ids=range(len(METHODS)))
def test_a_permuted_gallery_gives_the_permuted_result(kind, method):
    """Copies keep their order, by which they are settled where something is cut."""
    compared = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = tied_rows(rng, kind, 120, 12)
        queries = tied_rows(rng, "random", 8, 12)
        order = permuted_order(rng, rows)
        index, permuted = method.fit(rows), method.fit(rows[order])
        if not different_rows_tie(index, rows):
            expected = by_item(index, queries)[:, order]
            np.testing.assert_allclose(by_item(permuted, queries), expected, atol=1e-5)
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_queries", [1, 5, 40])
@pytest.mark.parametrize("k", [3, 100])
def test_plain_neighbors_ascend_by_distance_and_index(kind, n_queries, k):
    rng = np.random.default_rng(2)
    rows = tied_rows(rng, kind, 600, 8)
    queries = np.concatenate([rows[:20], tied_rows(rng, kind, 20, 8)])[:n_queries]
    method = CAS(k1=8, k2=3, metric="euclidean")
    found = method.fit(rows).search(queries, k=k, base=True)
    squared = ((queries[:, None] - rows) ** 2).sum(axis=-1, dtype=np.float32)
    expected = np.argsort(squared, axis=1, kind="stable")[:, :k]
    if kind == "ternary":  # distances of whole numbers are exact
        np.testing.assert_array_equal(found.indices, expected)
    tied = np.diff(found.distances, axis=1) == 0
    assert (np.diff(found.indices, axis=1)[tied] > 0).all()


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_approximate_lists_ascend_by_distance_and_index():
    rng = np.random.default_rng(3)
    rows = tied_rows(rng, "ternary", 3000, 8)
    index = CAS(k1=8, k2=3).fit(rows, run=kinrank.Run(search="approximate"))
    found = index.search(rows[:10], k=50, base=True)
    tied = np.diff(found.distances, axis=1) == 0
    assert tied.any()
    assert (np.diff(found.indices, axis=1)[tied] > 0).all()


@pytest.mark.parametrize("context", [0, 40])
def test_plain_distances_depend_on_nothing_else_that_is_asked(context):
    rng = np.random.default_rng(4)
    rows = tied_rows(rng, "random", 400, 16)
    queries = tied_rows(rng, "random", 30, 16)
    gallery = rows[: 400 - context]
    index = CAS(k1=10, k2=4).fit(gallery, context=rows[400 - context :] if context else None)
    every = index.search(queries, k=None, base=True)
    for k in (1, 2, 5, 60):
        first = index.search(queries, k=k, base=True)
        np.testing.assert_array_equal(first.indices, every.indices[:, :k])
        np.testing.assert_array_equal(first.distances, every.distances[:, :k])
        alone = index.search(queries[7:8], k=k, base=True)
        np.testing.assert_array_equal(alone.distances, first.distances[7:8])
    some = index.search(queries, k=4, base=True, exclude=[every.indices[0, 0]])
    np.testing.assert_array_equal(some.distances[0], every.distances[0, 1:5])
    limit = float(every.distances[:, 1].max())
    for k in (2, 9):
        within = index.search(queries, k=k, base=True, threshold=limit)
        assert (within.indices[:, 1] == every.indices[:, 1]).all()
