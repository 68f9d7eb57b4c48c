"""An index over lists of any length: rows with few neighbours, or with none."""

import numpy as np
import pytest

import kinrank
from engine_data import dense
from index_data import IDS, QUERIES, ROWS, SQUARED
from kinrank import CAS, Index
from row_store import RowStore

N, K, FAR = len(ROWS), 14, float(SQUARED.max())
METHOD = CAS(k1=10, k2=4, omega=0)  # lists do not tell the distance to most rows
OPTIONS = [
    {},
    {"variant": "paper"},
    {"clusters": "knn"},
    {"smoothing": "aqe", "clusters": "reciprocal"},
    {"similarity": "original", "fusion": "euclidean"},
    {"propagation": "transpose"},
]
LENGTHS = {
    "full": np.full(N, K - 1),
    "any": np.random.default_rng(0).integers(0, K, N),
    "some alone": np.where(np.arange(N) % 4 == 0, 0, K - 1),
    "one each": np.ones(N, int),
    "hardly any": np.where(np.arange(N) == 7, 1, 0),
}


def known(lengths):
    """Squared distances and lists, -1 behind the end."""
    order = np.argsort(SQUARED, axis=1, kind="stable")[:, 1:K]
    order[np.arange(K - 1) >= lengths[:, None]] = -1
    return np.where(order >= 0, np.take_along_axis(SQUARED, order, axis=1), np.inf), order


def built(method, lengths, **given):
    given = given or {"vectors": ROWS}
    return Index.from_neighbors(
        method, *known(lengths), ids=IDS, squared=True, farthest=FAR, **given
    )


def with_query(method, query, lengths):
    """The closed set: the query is row 0 and enters lists.

    From full ones the last goes; those that are not full take it if it lists the row itself.
    """
    d = ((query.astype(np.float64) - ROWS) ** 2).sum(1)
    values, lists = known(lengths)
    own = np.argsort(d, kind="stable")[: K - 1]
    rows = [(d[own], own + 1)]
    for i in range(N):
        near = [*zip(values[i], lists[i] + 1, strict=True)]
        near += [(d[i], 0)] if lengths[i] == K - 1 or i in own else []
        near = sorted(pair for pair in near if np.isfinite(pair[0]))[: K - 1]
        near += [(np.inf, -1)] * (K - 1 - len(near))
        rows.append(tuple(np.array(part) for part in zip(*near, strict=True)))
    distances, indices = (np.stack(part) for part in zip(*rows, strict=True))
    far = np.full(N + 1, FAR)
    far[0] = max(FAR, d[own[-1]])
    return method.rerank_neighbors(
        distances, indices.astype(int), n_queries=1, squared=True, farthest=far
    )


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_are_near_those_with_the_query_in_the_lists(options, lengths, tmp_path):
    method = METHOD.replace(**options)
    index = built(method, lengths)
    assert index.method == method.resolved(max(lengths.max() + 1, 2))
    found = index.search(QUERIES[:6], k=None)
    assert ((found.distances >= 0) & (found.distances <= 1)).all()
    if lengths.max() == K - 1:  # shorter lists make the sizes of the closed set others
        exact = [dense(with_query(method, query, lengths), N)[0] for query in QUERIES[:6]]
        assert np.abs(dense(found, N) - np.stack(exact)).mean() < 0.02
    alone = index.search(QUERIES[3:4], k=9, threads=1)
    np.testing.assert_array_equal(alone.distances[0], found.distances[3, :9])
    why = index.explain(QUERIES[3], alone.ids[0, 2])
    assert why.distance == pytest.approx(alone.distances[0, 2], abs=2e-5)
    index.save(tmp_path / "an.index")
    again = kinrank.open(tmp_path / "an.index").search(QUERIES[:6], k=None)
    np.testing.assert_array_equal(again.distances, found.distances)
    assert np.isfinite(index.calibrate(sample=20).false_matches).all()


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_over_a_store(lengths):
    a = built(METHOD, lengths, store=RowStore(ROWS, IDS)).search(QUERIES, k=10)
    b = built(METHOD, lengths).search(QUERIES, k=10)
    np.testing.assert_allclose(a.distances, b.distances, atol=1e-5)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_a_change_searches_short_lists_again(lengths):
    index = built(METHOD, lengths)
    index.add(QUERIES[:3], ids=["a", "b", "c"])
    index.remove(["r5"])
    assert len(index) == N + 2
    if lengths.max() == K - 1:
        rows = np.concatenate([np.delete(ROWS, 5, axis=0), QUERIES[:3]])
        fresh = METHOD.fit(rows).search(QUERIES, k=10)
        found = index.search(QUERIES, k=10)
        shared = [
            len(np.intersect1d(*pair)) for pair in zip(found.indices, fresh.indices, strict=True)
        ]
        assert np.mean(shared) > 9
    assert np.isfinite(index.search(QUERIES, k=None).distances).all()


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_a_row_that_is_in_no_list_is_removed():
    """No other row has to be made again."""
    lists, near = np.array([[1], [0], [-1]]), np.array([[2.0], [2.0], [np.inf]])
    index = Index.from_neighbors(CAS(keep=None), near, lists, vectors=np.eye(3), farthest=2)
    index.remove([2])
    assert index.ids.tolist() == [0, 1]
    assert index.search(np.eye(3)[:1], k=2).ids.tolist() == [[0, 1]]


@pytest.mark.parametrize("left", [13, 12, 8, 2])
@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_fewer_rows_stay_than_lists_are_long(left):
    order = np.argsort(SQUARED[:16, :16], axis=1, kind="stable")
    near = np.take_along_axis(SQUARED[:16, :16], order, axis=1)
    method = CAS(k1=3, k2=3, graph_k=2)
    index = Index.from_neighbors(method, near, order, vectors=ROWS[:16], squared=True)
    index.remove(np.arange(left, 16))
    found, expected = (each.search(QUERIES, k=9) for each in (index, method.fit(ROWS[:left])))
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.distances, expected.distances, atol=1e-6)
