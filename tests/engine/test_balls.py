"""The diffusion runs in a ball around each row: what that leaves of F, and of the order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinrank import CAS
from kinrank.kernels import diffuse
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors
from kinrank.stages import clusters, diffusion
from kinrank.stages.graph import affinity_graph

RUN = Runner(2)
ALPHA = 1 / 1.23
STEPS = 10


def scattered(n, d=32, seed=0):
    """Unit rows most of which belong to nobody: the graph of their neighbours leads everywhere."""
    rng = np.random.default_rng(seed)
    sizes = np.where(rng.random(n) < 0.3, rng.integers(2, 6, n), 1)
    owner = np.repeat(np.arange(n), sizes)[:n]
    rows = rng.standard_normal((n, d))[owner] + 0.8 * rng.standard_normal((n, d))
    rows = rng.permutation(rows) * (1.0 + np.arange(d)) ** -0.5
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def wide():
    """A graph without clusters, where F is wanted, and F there by dense steps in float64."""
    neighbors = exact_neighbors(scattered(2000), 13, RUN)
    confident = clusters.reciprocal(neighbors.indices, 5, RUN)
    graph = affinity_graph(neighbors, 4, 0.3, 2.0, confident, symmetric=True, run=RUN)
    pattern = clusters.reciprocal(neighbors.indices, 13, RUN)
    s = graph.s.to_scipy().astype(np.float64)
    f = graph.w.to_scipy().astype(np.float64).toarray()
    for _ in range(STEPS):
        left = s @ f
        f = ALPHA / 2 * (left + left.T)
        f[np.diag_indices_from(f)] += 1 - ALPHA
    return graph, pattern, f[pattern.owners, pattern.indices]


def diffused(graph, pattern, tol, rows=None):
    polynomial = diffusion.iterated(ALPHA, "identity", STEPS, "graph", tol)
    return diffusion.apply(graph, pattern, polynomial, RUN, rows).values


@pytest.mark.parametrize("tol", [3e-7, 1e-5, 3e-4])
def test_what_is_missing_is_of_the_order_of_tol(wide, tol):
    """Of rows side by side less, as they share a ball; alone, all but one in a thousand entries."""
    graph, pattern, expected = wide
    side_by_side = np.abs(diffused(graph, pattern, tol) - expected)
    assert side_by_side.max() < tol
    every_row = np.arange(len(pattern), dtype=np.int32)
    alone = np.abs(diffused(graph, pattern, tol, every_row) - expected)
    assert np.quantile(alone, 0.999) < 10 * tol
    assert alone.max() < 20 * tol


def test_a_ball_leaves_rows_out(wide):
    graph, pattern, _ = wide
    terms = diffusion.iterated(ALPHA, "identity", STEPS, "graph", 3e-4).terms()
    rows = np.arange(50, dtype=np.int32)
    ball = diffusion.surroundings(graph, rows, ALPHA, terms.floor / 0.2, RUN)
    assert ball.lengths.max() < len(pattern) / 4


def test_steps_out_of_the_ball_and_back_are_made_up_for(wide):
    """Without them all that is missing has one sign; with them far less is missing."""
    graph, pattern, expected = wide
    made_up_for = expected - diffused(graph, pattern, 3e-4)
    rows = np.arange(len(pattern), dtype=np.int32)
    terms = diffusion.iterated(ALPHA, "identity", STEPS, "graph", 3e-4).terms()
    missing = expected - plain_balls(graph, pattern, terms, rows[:4])
    known = ~np.isnan(missing)
    assert (missing[known] > -1e-6).all()
    assert np.abs(made_up_for[known]).mean() < missing[known].mean() / 2


def plain_balls(graph, pattern, terms, rows):
    """F of ``rows`` in dense balls as large as the kernel's, with nothing made up for; else NaN."""
    s = graph.s.toarray().astype(np.float64)
    w = graph.w.toarray().astype(np.float64)
    out = np.full(pattern.nnz, np.nan)
    for row in rows:
        entries = slice(pattern.indptr[row], pattern.indptr[row + 1])
        members = pattern.indices[entries]
        mass = np.zeros(len(s))
        mass[members] = diffuse.SEED_MASS
        mass[row] = 1
        reached = mass.copy()
        for _ in range(STEPS // 2):
            mass = ALPHA * s @ mass
            reached += mass
        ball = np.flatnonzero(reached > terms.floor)
        inside = s[np.ix_(ball, ball)]
        f = w[np.ix_(ball, ball)]
        for _ in range(STEPS):
            f = ALPHA / 2 * (inside @ f + f @ inside) + (1 - ALPHA) * np.eye(len(ball))
        place = np.searchsorted(ball, members)
        out[entries] = f[np.searchsorted(ball, row), place]
    return out


@pytest.mark.parametrize(("k1", "k2"), [(20, 5), (60, 6)])
def test_the_order_is_that_of_a_strict_tolerance(k1, k2):
    rows = scattered(2500, seed=1)
    method = CAS(k1=k1, k2=k2)
    usual = method.rerank(rows[:250], rows[250:], k=100)
    strict = method.replace(tol=1e-12).rerank(rows[:250], rows[250:], k=100)
    # Two rows that change places count two.
    assert (usual.indices != strict.indices).sum() <= 4
    assert np.abs(usual.distances - strict.distances).max() < 1e-3


@given(st.integers(0, 2**31), st.integers(40, 300), st.integers(1, 4))
@settings(max_examples=15)
def test_the_order_is_that_of_a_strict_tolerance_for_any_rows(seed, n, d):
    """Whole numbers, with copies and ties; rows that are as near as rounding may change places."""
    rows = np.random.default_rng(seed).integers(0, 12, (n, d)).astype(np.float32)
    method = CAS(k1=8, k2=4, keep=n)
    usual = method.rerank(rows[:10], rows[10:])
    strict = method.replace(tol=1e-12).rerank(rows[:10], rows[10:])
    np.testing.assert_allclose(usual.distances, strict.distances, atol=2e-6)
