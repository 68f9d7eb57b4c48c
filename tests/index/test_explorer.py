"""One query under any parameters, over a snapshot of an index."""

import numpy as np
import pytest

import kinrank
from index_data import QUERIES, ROWS
from kinrank import CAS


@pytest.fixture(scope="module")
def index():
    return CAS(k1=10, k2=4).fit(ROWS)


def test_rows_and_vectors_are_ranked_as_by_the_index(index):
    explorer = index.explorer()
    found = explorer.rank(explorer.row_query(7))
    expected = index.neighbors(7, None)
    np.testing.assert_array_equal(found.order, expected.indices[0])
    np.testing.assert_array_equal(found.distances, expected.distances[0])
    found = explorer.rank(explorer.vector_query(QUERIES[:1]))
    expected = index.search(QUERIES[:1], None)
    np.testing.assert_array_equal(found.order, expected.indices[0])
    np.testing.assert_array_equal(found.distances, expected.distances[0])
    assert (found.whole, found.scope) == (True, "all rows")


def test_other_parameters_are_those_of_an_index_with_them(index):
    explorer = index.explorer()
    method = explorer.method.replace(k1=15, mu=1.0, tol=1e-12)
    found = explorer.rank_by(explorer.row_query(7), method, whole=True)
    expected = method.fit(ROWS).neighbors(7, None)
    np.testing.assert_allclose(found.distances, expected.distances[0], atol=1e-6)
    geodesic = method.replace(geodesic=True)
    assert explorer.rank_by(explorer.vector_query(QUERIES[:1]), geodesic, whole=True) is None


@pytest.mark.parametrize("smoothing", ["nss", "aqe"])
def test_the_cluster_is_that_of_the_explanation(smoothing):
    explorer = CAS(k1=10, k2=4, smoothing=smoothing).fit(ROWS).explorer()
    query = explorer.vector_query(QUERIES[:1])
    members = explorer.cluster(query).members
    expected = explorer.explain(query, 3).members
    got = {explorer.ids[m.position].item() if m.position >= 0 else None: m for m in members}
    assert {key: m.smoothed for key, m in got.items()} == {m.id: m.smoothed for m in expected}
    assert {key: m.confident for key, m in got.items()} == {m.id: m.confident for m in expected}
    edges = explorer.cluster(explorer.row_query(3)).edges
    assert edges
    assert all(weight > 0 for _, _, weight in edges)


def test_the_plain_distance_and_its_average_precision(index):
    explorer = index.explorer()
    found = explorer.plain(explorer.row_query(5))
    d2 = ((ROWS - ROWS[5]) ** 2).sum(axis=1)
    assert (np.diff(d2[found.order]) >= -1e-4).all()
    assert 5 not in found.order
    relevant = np.zeros(len(ROWS), bool)
    assert found.average_precision(relevant) is None
    relevant[found.order[[0, 3]]] = True
    assert found.average_precision(relevant) == pytest.approx((1 + 2 / 4) / 2)


def test_it_stays_as_the_index_was():
    index = CAS(k1=6, k2=3).fit(ROWS[:60])
    before = index.explorer()
    assert index.explorer() is before
    order = before.rank(before.row_query(2)).order
    index.remove([59])
    assert index.explorer() is not before
    assert len(index.explorer().ids) == 59
    np.testing.assert_array_equal(before.rank(before.row_query(2)).order, order)
    with pytest.raises(kinrank.UnknownIdError):
        before.position(60)
