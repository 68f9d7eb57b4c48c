"""Every store, in its real engine, against the exact search."""

import numpy as np
import pytest

import kinrank
from kinrank.stores import Searcher, Store

K = 20


def exact(made, queries):
    """Squared distances of the queries to all rows, as the store's metric wants them."""
    rows = made.rows.astype(np.float64)
    if made.store.metric != "euclidean":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return ((queries[:, None].astype(np.float64) - rows[None]) ** 2).sum(axis=2)


def positions(made, ids):
    where = {own: at for at, own in enumerate(made.ids.tolist())}
    return np.array([where[own] for own in np.ravel(ids).tolist()]).reshape(np.shape(ids))


def test_it_is_a_store(made):
    assert isinstance(made.store, Store)
    assert isinstance(made.store, Searcher)
    assert len(made.store) == len(made.rows)
    assert made.store.width == made.rows.shape[1]
    ids = made.store.ids()
    assert ids.dtype.kind == made.ids.dtype.kind
    assert set(ids.tolist()) == set(made.ids.tolist())


def test_vectors_come_in_the_order_asked_for(made):
    # An engine that measures cosines may divide by the norm once more, which rounds.
    rounding = 2.0**-22 if made.store.metric == "cosine" else 0
    order = np.random.default_rng(1).permutation(len(made.rows))
    fetched = made.store.fetch(made.ids[order])
    np.testing.assert_allclose(fetched, made.rows[order], rtol=rounding)
    fetched = made.store.fetch(made.ids[[5, 2, 5]].tolist())
    np.testing.assert_allclose(fetched, made.rows[[5, 2, 5]], rtol=rounding)
    assert made.store.fetch(made.ids[:0]).shape == (0, made.store.width)


def test_unknown_ids_are_named(made):
    text = made.ids.dtype.kind == "U"
    known, unknown, other = made.ids[0].item(), "nobody's" if text else -3, 1 if text else "one"
    for asked in ([known, unknown], [other]):
        with pytest.raises(kinrank.UnknownIdError, match="no row with"):
            made.store.fetch(asked)


def test_search_against_the_exact_one(made, data):
    nearest = made.store.search(data.queries, K)
    ids = nearest.indices
    squared = nearest.distances
    assert ids.shape == squared.shape == (len(data.queries), K)
    assert squared.dtype == np.float32
    assert (np.diff(squared, axis=1) >= 0).all()
    rows, truth = positions(made, ids), exact(made, data.queries)
    nearest = np.argsort(truth, axis=1)[:, :K]
    hits = [len(set(own) & set(right)) for own, right in zip(rows, nearest, strict=True)]
    assert np.mean(hits) / K >= made.recall
    if made.recall >= 0.95:  # not where the engine's own distances are those of compressed rows
        own = np.take_along_axis(truth, rows, axis=1)
        np.testing.assert_allclose(squared, own, rtol=1e-4, atol=1e-4)


def test_one_query_is_answered_as_among_others(made, data):
    together = made.store.search(data.queries, 5)
    for row, query in enumerate(data.queries[:4]):
        alone = made.store.search(query[None], 5)
        np.testing.assert_array_equal(alone.indices[0], together.indices[row])
        np.testing.assert_allclose(
            alone.distances[0], together.distances[row], rtol=1e-5, atol=1e-5
        )


def test_more_than_there_are(made, data):
    k = len(made.rows) + 5
    nearest = made.store.search(data.queries[:2], k)
    ids = nearest.indices
    squared = nearest.distances
    assert ids.shape == squared.shape == (2, k)
    known = np.isfinite(squared)
    assert not known[:, -5:].any()
    assert set(ids[~known].tolist()) <= {-1, ""}
    assert len(set(ids[0][known[0]].tolist())) == known[0].sum()


def test_bad_queries_are_refused(made, data):
    with pytest.raises(kinrank.InvalidInputError, match=r"as many columns as the store \(24\)"):
        made.store.search(data.queries[:, :5], 3)
    with pytest.raises(kinrank.InvalidInputError, match="`queries` must be finite"):
        made.store.search(data.queries * np.nan, 3)
    with pytest.raises(kinrank.InvalidInputError, match="`k` must be an integer between 1 and"):
        made.store.search(data.queries, 0)
    with pytest.raises(kinrank.InvalidInputError, match="between 1 and 16777216, got 2147483647"):
        made.store.search(data.queries, 2**31 - 1)


def test_distances_beyond_float32_are_its_largest():
    from kinrank.stores.base import squared_distances

    found = squared_distances("inner", np.full((1, 2), 1e25), np.array([[0.0, np.inf]]))
    assert found.dtype == np.float32
    assert np.isfinite(found[0, 0])
    assert np.isinf(found[0, 1])  # stays none
