"""Neighbours and distances that users bring."""

import numpy as np
import pytest

from engine_data import clustered
from kinrank import CAS, InvalidInputError, KinrankWarning

X = clustered(120, seed=4)
D = np.sqrt(((X[:, None] - X[None]).astype(np.float64) ** 2).sum(-1))
METHOD = CAS(k1=8, k2=3)


@pytest.mark.parametrize("options", [{}, {"geodesic": True}, {"variant": "paper"}, {"omega": 0.0}])
@pytest.mark.parametrize("k", [None, 9])
def test_a_matrix_is_as_good_as_vectors(options, k):
    method = METHOD.replace(**options)
    expected = method.rerank(X[:10], X[10:], k)
    for distances, squared in ((D, False), (D * D, True)):
        found = method.rerank_neighbors(distances, n_queries=10, k=k, squared=squared)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.distances, expected.distances, atol=1e-5)


@pytest.mark.parametrize("with_self", [True, False])
def test_lists_are_as_good_where_they_reach(with_self):
    order = np.argsort(D, axis=1)[:, 0 if with_self else 1 : 61]
    shuffled = np.random.default_rng(0).permuted(order, axis=1)
    distances = np.take_along_axis(D, shuffled, axis=1)
    found = METHOD.rerank_neighbors(distances, shuffled, n_queries=10, k=5, farthest=D.max(axis=1))
    expected = METHOD.rerank(X[:10], X[10:], 5)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.distances, expected.distances, atol=1e-5)


def test_short_lists_rank_the_whole_gallery():
    order = np.argsort(D, axis=1)[:, :12]
    distances = np.take_along_axis(D, order, axis=1)
    order[3, 8:] = -1
    with pytest.warns(KinrankWarning, match="listed neighbours"):
        found = METHOD.rerank_neighbors(distances, order, n_queries=10, farthest=float(D.max()))
    assert (np.sort(found.indices, axis=1) == np.arange(110)).all()
    assert np.isfinite(found.distances).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distances": D[:, :50]}, "`distances` must be \\(n, n\\) when no `indices`"),
        ({"distances": -D}, "`distances` must not be negative"),
        ({"distances": D + np.nan}, "`distances` must not be negative or NaN"),
        ({"n_queries": 0}, "`n_queries` must be an integer between 1 and 119"),
        ({"n_queries": 120}, "`n_queries` must be an integer between 1 and 119"),
        ({"farthest": 2.0}, "`farthest` must be left out"),
        ({"indices": np.zeros((120, 120), int)}, "`farthest` must be given with `indices`"),
        ({"indices": np.full((120, 120), 120), "farthest": 2}, "row numbers below 120"),
        ({"indices": np.zeros((5, 5), int), "farthest": 2}, "of the shape of `distances`"),
        ({"indices": np.zeros((120, 120)), "farthest": 2}, "`indices` must be integers"),
    ],
)
def test_bad_neighbours(change, message):
    with pytest.raises(InvalidInputError, match=message):
        METHOD.rerank_neighbors(**{"distances": D, "n_queries": 10, **change})
