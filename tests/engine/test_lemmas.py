"""The facts that the paper proves, checked on what the engine computes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from engine_data import clustered
from kinrank import CAS
from kinrank.kernels import guide
from kinrank.kernels.measures import entropies
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors
from kinrank.stages import clusters, dense, diffusion
from kinrank.stages.divergence import Divergence
from kinrank.stages.enhancement import enhance
from kinrank.stages.graph import affinity_graph, spectral_radius
from kinrank.stages.smoothing import smooth_by_similarity
from kinrank.stages.sparse import product, unit_rows
from kinrank.types import SparseRows

RUN = Runner(2)
ALPHA = 1 / 1.23


def made(n=60, k=8, k2=4, seed=1, symmetric=True):
    neighbors = exact_neighbors(clustered(n, seed=seed), k + 1, RUN)
    xi = clusters.reciprocal(neighbors.indices, k2, RUN)
    graph = affinity_graph(neighbors, k2, 0.3, 2.0, xi, symmetric=symmetric, run=RUN)
    return neighbors, xi, graph


def everywhere(n):
    ids = np.tile(np.arange(n, dtype=np.int32), n)
    return SparseRows(np.arange(0, n * n + 1, n, dtype=np.int64), ids, None, n)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
@pytest.mark.parametrize("symmetric", [True, False])
def test_spectral_radius_is_at_most_one(seed, symmetric):
    _, _, graph = made(seed=seed, symmetric=symmetric)
    full = graph.s.toarray()
    np.testing.assert_allclose(full, full.T, atol=1e-7)
    assert spectral_radius(graph.s) <= 1 + 1e-5
    assert np.abs(np.linalg.eigvalsh(full)).max() <= 1 + 1e-5


def solved(graph, pattern, regularizer, tol=1e-9):
    return diffusion.apply(graph, pattern, diffusion.converged(ALPHA, regularizer, tol), RUN)


def test_all_solvers_agree_with_the_closed_form():
    _, _, graph = made(n=24)
    pattern = everywhere(24)
    s = graph.s.toarray()
    for name, e in (("identity", np.eye(24)), ("graph", np.eye(24) + s)):
        expected = naive.bsd_closed_form(s, e, ALPHA)
        np.testing.assert_allclose(naive.bsd_lyapunov(s, e, ALPHA), expected, atol=1e-10)
        iterated = naive.bsd_iterate(s, e, ALPHA, 300, e)
        np.testing.assert_allclose(iterated, expected, atol=1e-8)
        for found in (
            solved(graph, pattern, name),
            diffusion.apply(
                graph, pattern, diffusion.iterated(ALPHA, name, 100, "graph", 1e-9), RUN
            ),
            dense.closed_form(graph, pattern, ALPHA, name),
            dense.conjugate_gradients(graph, pattern, ALPHA, name, 1e-9),
            solved(graph, pattern, SparseRows.from_scipy(_sparse(e))),
        ):
            np.testing.assert_allclose(found.toarray(), expected, atol=2e-6)


def _sparse(matrix):
    from scipy.sparse import csr_array

    return csr_array(matrix)


def test_diffused_similarity_is_symmetric_and_not_negative():
    _, _, graph = made(n=80)
    f = solved(graph, everywhere(80), "identity").toarray()
    np.testing.assert_allclose(f, f.T, atol=1e-6)
    assert (f >= 0).all()
    assert np.linalg.eigvalsh((f + f.T) / 2).min() >= -1e-6


@given(
    f=st.lists(st.floats(0, 1), min_size=2, max_size=12),
    share=st.lists(st.floats(0, 1), min_size=12, max_size=12),
    r=st.floats(0.01, 1),
    beta=st.floats(0, 1),
)
def test_smoothing_satisfies_its_kkt_conditions(f, share, r, beta):
    f = np.array(f, np.float32)
    p = np.array([r * s for s in share[: len(f)]], np.float32)
    out = np.empty_like(f)
    ptr = np.array([0, len(f)], np.int64)
    guide.closed_form(0, 1, ptr, f, p, np.array([r], np.float32), beta, out)
    assert (out >= -1e-6).all()
    assert out.sum() == pytest.approx(f.sum(), rel=1e-4, abs=1e-6)
    # Stationarity with all multipliers of x >= 0 zero: the gradient is the same everywhere.
    p = np.minimum(p.astype(np.float64), r)
    gradient = r * r * out - r * p * f + 2 * beta * (out - f)
    np.testing.assert_allclose(gradient, gradient.mean(), atol=1e-5)


def rows_of(matrix):
    from scipy.sparse import csr_array

    return SparseRows.from_scipy(csr_array(matrix))


def test_smoothing_is_not_negative():
    rng, ptr = np.random.default_rng(0), np.array([0, 9])
    for _ in range(200):
        f = np.where(rng.random(9) < 0.5, rng.random(9), 0).astype(np.float32)
        r, out = rng.random(1).astype(np.float32), np.empty(9, np.float32)
        guide.closed_form(0, 1, ptr, f, np.full(9, r[0]), r, 0.0, out)
        assert out.min() >= 0


@given(st.data())
def test_jensen_shannon(data):
    weights = st.lists(st.floats(0, 1), min_size=6, max_size=6).filter(lambda w: sum(w) > 0.1)
    f = np.array([data.draw(weights) for _ in range(3)])
    f[1] = f[0]
    f = np.vstack([f, [0] * 6])
    f = np.hstack([f, np.zeros((4, 1))])
    f[3, 6] = 1
    f = (f / f.sum(axis=1, keepdims=True)).astype(np.float32)
    divergence = Divergence.of(rows_of(np.pad(f, ((0, 3), (0, 0)), constant_values=1 / 7)), "js")
    near = divergence.to_candidates(1, np.empty((7, 0), np.int32), RUN)
    found = dict(zip(near.indices, near.values, strict=True))
    assert found[1] == pytest.approx(0, abs=1e-6)
    assert found[2] == pytest.approx(naive.js(f[0], f[2]), abs=2e-6)
    assert all(0 <= value <= 1 for value in found.values())
    assert 3 not in found  # no shared column: exactly 1
    assert divergence.background(0, 1) == 1


def test_logarithm_is_off_by_less_than_its_promise():
    x = np.linspace(0, 2, 200001, dtype=np.float32)
    exact = np.where(x > 0, x * np.log2(np.where(x > 0, x, 1), dtype=np.float64), 0)
    np.testing.assert_allclose(entropies(x), exact, atol=2e-7)
    assert entropies(np.zeros(1, np.float32))[0] == 0


def test_every_row_is_a_distribution():
    neighbors, xi, graph = made(n=120, k=12)
    pattern = clusters.expanded(neighbors.indices, 12, 6, RUN)
    f = unit_rows(solved(graph, pattern, "identity", 1e-6))
    hat = smooth_by_similarity(f, xi, 0.001, RUN)
    tilde = enhance(hat, xi, neighbors.indices, 5, 2.0, RUN)
    p = product("propagation", tilde, tilde, RUN, 20)
    for rows in (f, hat, tilde, p, product("propagation", p, p, RUN)):
        np.testing.assert_allclose(rows.to_scipy().sum(axis=1), 1, atol=1e-5)
        assert (rows.values >= 0).all()
    np.testing.assert_array_equal(hat.indices, f.indices)


def test_clusters_hold_their_row_and_the_neighbour_set():
    neighbors = exact_neighbors(clustered(100), 13, RUN)
    near = clusters.nearest(neighbors.indices, 12).toarray() > 0
    mutual = clusters.reciprocal(neighbors.indices, 12, RUN).toarray() > 0
    wide = clusters.expanded(neighbors.indices, 12, 6, RUN).toarray() > 0
    xi = clusters.reciprocal(neighbors.indices, 4, RUN).toarray() > 0
    assert xi.diagonal().all()
    assert (xi <= mutual).all()
    assert (mutual <= near).all()
    assert (mutual <= wide).all()
    np.testing.assert_array_equal(mutual, mutual.T)


@pytest.mark.parametrize("fusion", ["squared", "euclidean"])
def test_omega_one_returns_the_initial_ranking(fusion):
    x = clustered(120, seed=8)
    ranking = CAS(k1=10, k2=3, omega=1.0, fusion=fusion).rerank(x[:10], x[10:])
    d2 = ((x[:10, None] - x[None, 10:]).astype(np.float64) ** 2).sum(-1)
    np.testing.assert_array_equal(ranking.indices, np.argsort(d2, axis=1, kind="stable"))


def test_a_larger_pull_to_the_original_distance_moves_towards_it():
    x = clustered(150, seed=9)
    first = CAS(k1=10, k2=3, omega=1.0).rerank(x[:20], x[20:], k=20).indices
    shared = [
        np.mean([len(set(a) & set(b)) for a, b in zip(first, other, strict=True)])
        for other in (
            CAS(k1=10, k2=3, omega=w).rerank(x[:20], x[20:], k=20).indices for w in (0, 0.9)
        )
    ]
    assert shared[0] < shared[1]
