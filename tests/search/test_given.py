"""Searchers that users bring: the same bits as the exact search where they find the same rows."""

import numpy as np
import pytest

import kinrank
from engine_data import clustered
from kinrank import Neighbors
from row_data import unit
from row_store import RowStore

ROWS = clustered(500, d=8, clusters=20, seed=3, spread=0.3)
QUERIES = clustered(30, d=8, clusters=20, seed=3, spread=0.33)


class Recording(RowStore):
    """A store that remembers what it was asked for."""

    asked = 0

    def search(self, queries, k):
        self.asked += len(queries)
        return super().search(queries, k)


def assert_same_bits(ranking, expected):
    np.testing.assert_array_equal(ranking.indices, expected.indices)
    assert ranking.distances.tobytes() == expected.distances.tobytes()


@pytest.mark.parametrize("method", ["cas", "kreciprocal", "ecn", "gnn", "rdp"])
def test_joint_methods(method):
    store = Recording(unit(ROWS))
    params = {"metric": "cosine"}
    ranking = kinrank.rerank(QUERIES, ROWS, method, 20, run=kinrank.Run(search=store), **params)
    assert store.asked
    expected = kinrank.rerank(QUERIES, ROWS, method, 20, **params)
    np.testing.assert_array_equal(ranking.indices, expected.indices)
    np.testing.assert_allclose(ranking.distances, expected.distances, atol=2e-3)


@pytest.mark.parametrize("method", ["aqe", "alphaqe", "dfs", "egt"])
@pytest.mark.parametrize("gallery", [ROWS, None])
def test_inductive_methods(method, gallery):
    store = Recording(unit(ROWS))
    queries = QUERIES if gallery is not None else ROWS
    run = kinrank.Run(search=store)
    assert_same_bits(
        kinrank.rerank(queries, gallery, method, 20, run=run),
        kinrank.rerank(queries, gallery, method, 20),
    )
    assert store.asked


def test_fitted_methods():
    store = Recording(unit(ROWS))
    run = kinrank.Run(search=store)
    fitted = kinrank.AQE(dba=True).fit(ROWS, run=run)
    exact = kinrank.AQE(dba=True).fit(ROWS)
    assert_same_bits(fitted.search(QUERIES, 20, run=run), exact.search(QUERIES, 20))
    assert store.asked == len(ROWS) + len(QUERIES)


@pytest.mark.parametrize("moved", [0.0, 1e4])
@pytest.mark.parametrize("vectors", ["float32", "float16"])
def test_rows_that_are_moved_are_asked_for_as_they_are(moved, vectors):
    rows = (ROWS + moved).astype(np.float32)
    queries = (QUERIES + moved).astype(np.float32)
    params = {"k1": 10, "k2": 4, "omega": 0.0}
    exact = kinrank.Run(vectors=vectors)
    given = kinrank.Run(vectors=vectors, search=RowStore(rows.astype(np.float64)))
    ranking = kinrank.rerank(queries, rows, k=10, run=given, **params)
    expected = kinrank.rerank(queries, rows, k=10, run=exact, **params)
    same = [len(set(a) & set(b)) for a, b in zip(ranking.indices, expected.indices, strict=True)]
    assert np.mean(same) > 9.8


def test_an_index():
    store = Recording(ROWS.astype(np.float64))
    method = kinrank.CAS(k1=10, k2=4)
    index = method.fit(ROWS, run=kinrank.Run(search=store))
    assert store.asked == len(ROWS)
    exact = method.fit(ROWS)
    state, expected = index.engine.state, exact.engine.state
    np.testing.assert_array_equal(state.neighbors.indices, expected.neighbors.indices)
    assert state.neighbors.distances.tobytes() == expected.neighbors.distances.tobytes()
    ranking = index.search(QUERIES, 20)
    np.testing.assert_array_equal(ranking.indices, exact.search(QUERIES, 20).indices)
    index.add(QUERIES)
    assert len(index) == len(ROWS) + len(QUERIES)


def test_copies_of_a_row():
    rows = np.repeat(ROWS[:60], 5, axis=0)
    ranking = kinrank.rerank(rows[:10], rows, k=12, k1=10, k2=4,
                             run=kinrank.Run(search=RowStore(rows.astype(np.float64))))  # fmt: skip
    expected = kinrank.rerank(rows[:10], rows, k=12, k1=10, k2=4)
    np.testing.assert_allclose(ranking.distances, expected.distances, atol=1e-3)


@pytest.mark.parametrize(
    ("spoiled", "said"),
    [
        (lambda ids, d: Neighbors(ids[:, :3], d[:, :3]), "`search` must find .* found 3"),
        (lambda ids, d: Neighbors(ids + 1, d), "0 to 499; RowStore returned 500"),
        (lambda ids, d: Neighbors(ids.astype(str), d), "gallery rows by their numbers"),
        (lambda ids, d: Neighbors(np.zeros_like(ids), d), "listed one twice"),
        (lambda ids, d: (ids, d), "must return kinrank.Neighbors"),
    ],
)
def test_what_cannot_be_used_is_refused(spoiled, said):
    store = RowStore(ROWS)
    store.spoil_search = spoiled
    with pytest.raises(kinrank.InvalidInputError, match=said):
        kinrank.rerank(QUERIES, ROWS, k=5, run=kinrank.Run(search=store))


@pytest.mark.parametrize("field", [{"memory_budget": "1GB"}, {"work": "x"}, {"cluster": "local"}])
def test_files_and_machines_search_by_themselves(field):
    with pytest.raises(kinrank.InvalidInputError, match="needs search='exact' or 'approximate'"):
        kinrank.Run(search=RowStore(ROWS), **field)


def test_what_is_no_searcher():
    for odd in ("quick", 3, [1]):
        with pytest.raises(kinrank.KinrankError, match="`search` must be"):
            kinrank.Run(search=odd)
