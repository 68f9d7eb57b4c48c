"""Huge and tiny values: the same answers, or one clear sentence, and never NaN."""

import numpy as np
import pytest

import kinrank
from engine_data import clustered
from kinrank import CAS, Index, InvalidInputError
from kinrank.compat import re_ranking, re_ranking_features
from kinrank.kernels.query import edges_of
from kinrank.kernels.records import Lists
from kinrank.parallel import Runner
from kinrank.stages.distances import ListDistances, MatrixDistances
from kinrank.types import Neighbors

X = clustered(90, d=6, seed=2).astype(np.float64)
Q, G = X[:6], X[6:]
METHOD = CAS(k1=6, k2=3)
D = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
LISTS = np.argsort(D, axis=1, kind="stable")[:, 1:20]
NEAR = np.take_along_axis(D, LISTS, axis=1)
POWERS = [2.0**-900, 2.0**-100, 2.0**-40, 2.0**40, 2.0**100, 2.0**900]


def same(found, expected):
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("scale", POWERS)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_power_of_two_changes_no_bit(scale, metric):
    """Rows are scaled into [0.5, 1) then; bits are compared with rows of that size."""
    method = METHOD.replace(metric=metric)
    size = 2.0 ** -np.ceil(np.log2(np.abs(X).max()))
    q, g = Q * size, G * size
    same(method.rerank(q * scale, g * scale, k=9), method.rerank(q, g, k=9))
    index, other = method.fit(g * scale), method.fit(g)
    same(index.search(q * scale, k=9), other.search(q, k=9))
    same(index.search(q * scale, k=9, base=True), other.search(q, k=9, base=True))
    for one, by in ((index, scale), (other, 1.0)):
        one.add(q[:2] * by)
        one.update([3, 5], q[2:4] * by)
    same(index.search(q * scale, k=9), other.search(q, k=9))
    assert index.explain(q[0] * scale, 7) == other.explain(q[0], 7)
    same(
        kinrank.rerank_pool(q[0] * scale, g * scale, method, k=5),
        kinrank.rerank_pool(q[0], g, method, k=5),
    )


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("scale", POWERS)
def test_distances_in_any_unit(scale):
    for squared in (False, True):
        d, near, far = (v**2 if squared else v for v in (D, NEAR, D.max(axis=1)))
        options = {"n_queries": 6, "k": 9, "squared": squared}
        by_lists = METHOD.rerank_neighbors(near * scale, LISTS, farthest=far * scale, **options)
        same(by_lists, METHOD.rerank_neighbors(near, LISTS, farthest=far, **options))
        by_matrix = METHOD.rerank_neighbors(d * scale, **options)
        same(by_matrix, METHOD.rerank_neighbors(d, **options))
    blocks = D[:6, 6:], D[:6, :6], D[6:, 6:]
    np.testing.assert_array_equal(
        re_ranking(*(block * scale for block in blocks)), re_ranking(*blocks)
    )


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
@pytest.mark.parametrize("farthest", [None, 30.0])
def test_lists_and_vectors_are_scaled_together(scale, farthest):
    far = None if farthest is None else farthest * scale
    found = Index.from_neighbors(METHOD, NEAR * scale, LISTS, vectors=X * scale, farthest=far)
    expected = Index.from_neighbors(METHOD, NEAR, LISTS, vectors=X, farthest=farthest)
    a, b = found.search(Q * scale, k=9), expected.search(Q, k=9)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.distances, b.distances, atol=1e-6)


@pytest.mark.parametrize("gallery", [1e-30, 1.0, 1e30])
def test_rows_far_beyond_those_of_an_index_are_refused(gallery):
    index = METHOD.fit(G * gallery)
    expected = index.search(Q * gallery)
    for base in (True, False):
        with pytest.raises(InvalidInputError, match="`queries` must hold values of at most"):
            index.search(Q * gallery * 1e20, base=base)
        found = index.search(Q * gallery * 1e13, base=base)
        assert np.isfinite(found.distances).all()
        assert np.isfinite(index.search(Q * gallery * 1e-30, base=base).distances).all()
    for call in (index.add, lambda rows: index.update(np.arange(6), rows)):
        with pytest.raises(InvalidInputError, match="`vectors` must hold values of at most"):
            call(Q * gallery * 1e20)
    with pytest.raises(InvalidInputError, match=r"at most .* in size, .* got .* in row 0"):
        index.explain(Q[0] * gallery * 1e20, 3)
    same(index.search(Q * gallery), expected)


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("name", sorted(set(kinrank.methods()) - {"csa", "gss", "lattqe", "ssr"}))
@pytest.mark.parametrize("scales", [(1e30, 1), (1e-30, 1), (1e300, 1e300), (1e-310, 1e-310)])
def test_no_method_answers_nan(name, scales):
    found = kinrank.rerank(Q * scales[0], G * scales[1], name)
    assert np.isfinite(found.distances).all()
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert (np.sort(found.indices, axis=1) == np.arange(84)).all()


@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 0.02, 1e6])
@pytest.mark.parametrize("mu", [1e-6, 1e6])
@pytest.mark.parametrize("options", [{}, {"variant": "paper"}, {"similarity": "original"}], ids=str)
def test_ends_of_sigma_and_mu(sigma, mu, options):
    method = METHOD.replace(sigma=sigma, mu=mu, **options)
    index = method.fit(G)
    for found in (
        method.rerank(Q, G),
        method.replace(fusion="diffusion").rerank(Q, G),
        index.search(Q, k=None),
    ):
        assert np.isfinite(found.distances).all()
    why = index.explain(Q[0], 5)
    assert np.isfinite([why.distance, why.anchor, *why.stages.values()]).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_features_with_local_distances(scale):
    local = D**2
    expected = re_ranking_features(Q, G, 6, 3, 0.3, local_distmat=local)
    found = re_ranking_features(Q * scale, G * scale, 6, 3, 0.3, local_distmat=local * scale**2)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_distances_far_beyond_the_farthest_count_as_such():
    lists = np.array([[0, 1], [1, 0]], np.int32)
    near = np.array([[0, 3e38], [0, 1e-45]], np.float32)
    known = Neighbors(lists, near, np.array([1e-45, 1e-45], np.float32))
    matrix = np.array([[0, 3e38], [1e-45, 0]], np.float32)
    for source in (ListDistances(known), MatrixDistances(known, matrix)):
        found = source.to_all(np.array([0, 1], np.int32), 0, Runner(1))
        np.testing.assert_array_equal(found, [[0, 1], [1, 0]])


def test_lists_far_beyond_the_vectors_are_refused():
    for options in ({}, {"squared": True}):
        with pytest.raises(InvalidInputError, match="`distances` must have a largest value betw"):
            Index.from_neighbors(METHOD, NEAR, LISTS, vectors=X * 2.0**-1000, **options)


def test_weights_that_fit_no_float_are_no_edges():
    row, near = np.array([[0, 1]], np.int32), np.array([[0, 1]], np.float32)
    lists = Lists(
        np.array([[0], [1]], np.int32), np.zeros((2, 1), np.float32), np.ones(2, np.float32),
        np.array([0, 1]), np.array([2], np.int32), row, near, np.ones(1, np.float32),
    )  # fmt: skip
    for sigma2, count in ((0.5, 1), (1 / 200, 0)):  # exp(-200) is none in float32
        ids, weights = np.empty(2, np.int32), np.empty(2, np.float32)
        assert edges_of(0, lists, row[0, :0], 2, sigma2, 2.0, ids, weights) == count
