"""Solutions of many right sides at once, against dense float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinrank.methods.diffusion.solve import by_conjugate_gradients, converged, solutions
from kinrank.parallel import ALONE
from kinrank.stages.layout import Layout
from kinrank.stages.sparse import normalized
from kinrank.types import SparseRows


def some_graph(n, density, seed):
    """A normalised graph, with rows that have no edge."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1) * rng.uniform(0.1, 1, (n, n))
    rows, columns = np.nonzero(upper + upper.T)
    weights = (upper + upper.T)[rows, columns].astype(np.float32)
    return normalized(SparseRows.of_entries(rows, columns, weights, n), ALONE)


def starts(n_queries, n, seed):
    """A few places for each query, not all of one weight."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([np.sort(rng.permutation(n)[:3]) for _ in range(n_queries)])
    weights = rng.uniform(0.01, 10, len(ids)).astype(np.float32)
    return SparseRows(np.arange(0, len(ids) + 1, 3), ids.astype(np.int32), weights, n)


@given(
    n=st.integers(3, 60),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    alpha=st.sampled_from([0.1, 0.9, 0.99]),
    seed=st.integers(0, 99),
)
def test_the_residual_is_below_the_tolerance(n, density, alpha, seed):
    s, y = some_graph(n, density, seed), starts(5, n, seed)
    layout = Layout.of(np.random.default_rng(seed).permutation(n).astype(np.int32))
    found = solutions(converged(layout.matrix(s), alpha, 1000, 1e-5, layout, ALONE), y, 0, 5)
    residual = found @ (np.eye(n) - alpha * s.toarray().astype(np.float64)) - y.toarray()
    # Solutions are float32 and up to 1 / (1 - alpha) as long as the right side: plain conjugate
    # gradients, too, leave about three roundings of them.
    rounding = 4 * np.finfo(np.float32).eps * np.linalg.norm(found, axis=1)
    goal = 1e-5 * np.linalg.norm(y.toarray(), axis=1) + rounding
    assert (np.linalg.norm(residual, axis=1) <= goal).all()


@pytest.mark.parametrize("first", [0, 40])
def test_a_solution_does_not_depend_on_its_company(first):
    s, y = some_graph(300, 0.03, 1), starts(70, 300, 2)
    for solver in (
        converged(s, 0.99, 1000, 1e-6, Layout.identity(300), ALONE),
        by_conjugate_gradients(s, 0.99, 20, 1e-6, Layout.identity(300)),
    ):
        together = solutions(solver, y, 0, 70, first)
        alone = np.concatenate([solutions(solver, y, i, i + 1, first) for i in range(70)])
        assert (together == alone).all()
