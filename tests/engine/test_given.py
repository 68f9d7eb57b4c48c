"""Neighbours and distances that users bring."""

import numpy as np
import pytest

import naive
from engine_data import clustered, dense
from kinrank import CAS, InvalidInputError

X = clustered(120, seed=4)
D = np.sqrt(((X[:, None] - X[None]).astype(np.float64) ** 2).sum(-1))
METHOD = CAS(k1=8, k2=3)
SHORT = [
    {}, {"variant": "paper"}, {"clusters": "knn"}, {"clusters": "reciprocal"}, {"smoothing": "aqe"},
    {"geodesic": True, "geodesic_k": 9}, {"similarity": "original"}, {"propagation": "transpose"},
    {"divergence": "similarity"}, {"symmetric": False}, {"fusion": "diffusion"},
]  # fmt: skip


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


def ragged(lengths):
    """The first ``lengths`` of each row's neighbours, itself not counted: lists and distances."""
    order = np.argsort(D, axis=1, kind="stable")[:, 1 : max(lengths) + 1]
    distances = np.take_along_axis(D, order, axis=1)
    order[np.arange(order.shape[1]) >= np.asarray(lengths)[:, None]] = -1
    return order, distances


def of_lists(order, distances, far):
    """What the twin takes: D2 that is 1 where nothing is listed, and lists with the row itself."""
    n = len(order)
    d2 = np.ones((n, n))
    for i in range(n):
        listed = order[i] >= 0
        d2[i, order[i, listed]] = distances[i, listed] ** 2 / far**2
        d2[i, i] = 0
    return d2, np.column_stack([np.arange(n), order])


LENGTHS = {
    "one row alone": [0 if i == 40 else 14 for i in range(120)],
    "a query alone": [0 if i == 3 else 14 for i in range(120)],
    "any lengths": np.random.default_rng(1).integers(0, 15, 120).tolist(),
    "few have any": [14 if i % 10 == 0 else 0 for i in range(120)],
    "one each": [1] * 120,
    "nobody has any": [0] * 119 + [1],
}


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("options", SHORT, ids=str)
def test_lists_of_any_length_are_as_the_twin_says(options, lengths):
    order, distances = ragged(lengths)
    method, far = METHOD.replace(**options), float(D.max())
    d2, rank = of_lists(order, distances, far)
    method = method.replace(keep=method.keep)
    while True:  # entries of P that tie where it is cut are left to rounding: cut elsewhere
        fitted = method.resolved(max(max(lengths) + 1, 2))
        expected, stages = naive.cas(d2, 10, fitted, rank=rank)
        if naive.cut_margin(stages["F_tilde"], fitted.keep, fitted.propagation) >= naive.UNDECIDED:
            break
        method = method.replace(keep=method.keep + 1)
    found = method.rerank_neighbors(distances, order, n_queries=10, farthest=far)
    np.testing.assert_allclose(dense(found, 110), expected, rtol=1e-4, atol=2e-6)
    first = method.rerank_neighbors(distances, order, n_queries=10, farthest=far, k=7)
    np.testing.assert_array_equal(first.indices, found.indices[:, :7])


def test_one_short_list_shortens_no_other():
    full = METHOD.rerank_neighbors(*ragged([30] * 120)[::-1], n_queries=10, farthest=20.0)
    order, distances = ragged([0 if i == 119 else 30 for i in range(120)])
    found = METHOD.rerank_neighbors(distances, order, n_queries=10, farthest=20.0)
    apart = ~np.isin(order[:, :15], 119).any(axis=1)[:10]
    assert apart.sum() > 3
    near = found.indices[apart, :5] == full.indices[apart, :5]
    assert near.mean() > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distances": D[:, :50]}, "`distances` must be \\(n, n\\) when no `indices`"),
        ({"distances": -D}, "`distances` has a value that is negative"),
        ({"distances": D + np.nan}, "negative or NaN"),
        ({"n_queries": 0}, "`n_queries` must be an integer between 1 and 119"),
        ({"n_queries": 120}, "`n_queries` must be an integer between 1 and 119"),
        ({"farthest": 2.0}, "needs no `farthest`"),
        ({"indices": np.zeros((120, 120), int)}, "`farthest` must be given with `indices`"),
        ({"indices": np.full((120, 120), 120), "farthest": 2}, "row numbers below 120"),
        ({"indices": np.zeros((5, 5), int), "farthest": 2}, "of the shape of `distances`"),
        ({"indices": np.zeros((120, 120)), "farthest": 2}, "`indices` must be integers"),
    ],
)
def test_bad_neighbours(change, message):
    with pytest.raises(InvalidInputError, match=message):
        METHOD.rerank_neighbors(**{"distances": D, "n_queries": 10, **change})
