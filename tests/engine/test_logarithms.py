"""Jensen-Shannon terms in vectors have the bits of those that are computed one by one."""

import numba
import numpy as np
import pytest

from engine_data import digits
from kinrank import CAS, Run
from kinrank.kernels import divergence, logarithms, measures
from kinrank.stages import divergence as stage
from kinrank.types import SparseRows

TERMS = logarithms.TERMS
ENTRIES = logarithms.ENTRIES


@numba.njit
def pair_terms(u, v, terms):
    for begin in range(0, u.shape[0], TERMS):
        logarithms.pair_terms(TERMS, begin, u, v, terms)


@numba.njit
def one_by_one(u, v, terms):
    for t in range(u.shape[0]):
        terms[t] = measures.xlog2x(u[t]) + measures.xlog2x(v[t]) - measures.xlog2x(u[t] + v[t])


def sparse_values(shape, rng):
    """Values from 1e-8 to 1, half of them 0."""
    values = 10 ** rng.uniform(-8, 0, shape)
    return np.where(rng.random(shape) < 0.5, values, 0).astype(np.float32)


def test_terms_of_a_pair():
    u, v = sparse_values((2, 4 * TERMS), np.random.default_rng(0))
    terms, expected = np.empty((2, len(u)), np.float32)
    pair_terms(u, v, terms)
    one_by_one(u, v, expected)
    np.testing.assert_array_equal(terms, expected)
    assert (terms[(u == 0) | (v == 0)] == 0).all()


@pytest.mark.parametrize("n_queries", [1, 16, 37])
def test_queries_side_by_side_have_the_bits_of_columns(n_queries):
    rng = np.random.default_rng(n_queries)
    dense = sparse_values((120, 120), rng)
    dense[70] = dense[90] = dense[0]
    dense[80] = 0
    rows = SparseRows.of_entries(*np.nonzero(dense), dense[np.nonzero(dense)], 120)
    compared = stage.Divergence.of(rows, "js")
    lists = np.full((n_queries, 1), -1, np.int32)
    candidates = compared.to_candidates(n_queries, lists, stage.ALONE)
    expected = np.ones((n_queries, 120 - n_queries), np.float32)
    expected[candidates.owners, candidates.indices - n_queries] = candidates.values
    queries = np.arange(n_queries, dtype=np.int32)[::-1]
    np.testing.assert_array_equal(compared.to_all(queries, n_queries), expected[::-1])


def test_whole_rankings_are_the_same_either_way(monkeypatch):
    queries, gallery, *_ = digits()
    monkeypatch.setattr(stage, "_DENSE", 0)
    rankings = []
    for many, threads, block_size in ((np.inf, 1, None), (0, 1, None), (0, 2, 7)):
        monkeypatch.setattr(stage, "_MANY", many)
        run = Run(block_size=block_size)
        method = CAS(k1=60, k2=6)
        rankings.append(method.rerank(queries[:50], gallery, None, threads=threads, run=run))
    for ranking in rankings[1:]:
        np.testing.assert_array_equal(ranking.indices, rankings[0].indices)
        np.testing.assert_array_equal(ranking.distances, rankings[0].distances)


def test_sums_of_rows_side_by_side():
    rng = np.random.default_rng(1)
    u = sparse_values((30, logarithms.WIDTH), rng)
    v = sparse_values(24, rng)
    ids = np.sort(rng.permutation(30)[:24]).astype(np.int32)
    ptr = np.array([0, 24])
    entropies = np.empty_like(v)
    divergence.entropy_rows(0, 1, ptr, v, entropies)
    fu = measures.entropies(u.ravel()).reshape(u.shape)
    sums = np.empty(logarithms.WIDTH)
    lane_sums(ids, v, entropies, u, fu, sums)
    both = np.zeros_like(u)
    both[ids] = v[:, None]
    terms = (
        fu[ids] + entropies[:, None] - measures.entropies((u + both)[ids].ravel()).reshape(24, -1)
    )
    np.testing.assert_allclose(sums, terms.astype(np.float64).sum(0), rtol=1e-12)


@numba.njit
def lane_sums(ids, values, entropies, u, fu, sums):
    logarithms.lane_sums(ENTRIES, ids.shape[0], ids, values, entropies, u, fu, sums)
