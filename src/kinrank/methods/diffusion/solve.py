"""What diffusion on a graph shares: right sides, solutions for a few at a time, their ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from kinrank.kernels import lanes as kernels
from kinrank.kernels.lanes import LANES
from kinrank.kernels.relaxed import half_rows, relaxed_gradients
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.find import search_others
from kinrank.search.stored import Stored
from kinrank.stages.graph import mutual_graph, similarity_power
from kinrank.stages.layout import Layout
from kinrank.stages.sparse import times
from kinrank.stages.spectrum import extreme_value
from kinrank.types import Floats, Ints, Neighbors, SparseRows

# Of a row while a block of right sides is solved: five vectors in lanes, and the answers.
LANE_BYTES = 6 * 4 * LANES
_RELAX = 1.25  # how far sweeps overshoot; 1 and 1.5 take two or three steps more of 35

Function = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Solver:
    """A matrix applied to LANES vectors at once.

    apply : x in place, (n, LANES); work, (4, n, LANES)
    layout : where the matrix has its rows
    """

    apply: Callable[[Floats, Floats], None]
    layout: Layout


def solutions(solver: Solver, start: SparseRows, low: int, high: int, first: int = 0) -> Floats:
    """For the right sides in rows [low, high) of ``start``, from column ``first`` on."""
    n = start.n_columns
    position = solver.layout.position
    out = np.empty((high - low, n - first), np.float32)
    work = np.empty((4, n, LANES), np.float32)
    for begin in range(low, high, LANES):
        end = min(begin + LANES, high)
        x = np.zeros((n, LANES), np.float32)
        entries = slice(start.indptr[begin], start.indptr[end])
        lane = np.repeat(np.arange(end - begin), start.lengths[begin:end])
        x[position[start.indices[entries]], lane] = start.values[entries]
        solver.apply(x, work)
        out[begin - low : end - low] = x[position[first:], : end - begin].T
    return out


def by_conjugate_gradients(
    s: SparseRows, alpha: float, steps: int, tol: float, layout: Layout
) -> Solver:
    """(I - alpha S)^-1 applied in place, by at most ``steps`` of conjugate gradients."""
    return Solver(
        lambda x, work: kernels.conjugate_gradients(
            *s.csr, np.float32(alpha), x, steps, tol, work[0], work[1], work[2]
        ),
        layout,
    )


def converged(
    s: SparseRows, alpha: float, steps: int, tol: float, layout: Layout, run: Runner
) -> Solver:
    """(I - alpha S)^-1 applied in place, until the residual is below ``tol`` times the right side.

    A few roundings of the solution, which is float32, may be more than that. The residual is
    (I + L) / relax times that of the preconditioned system with relax times the right side, and no
    row of L is longer than one of alpha relax S, whose norm is at most alpha relax.
    """
    args = (*s.csr, np.float32(_RELAX * alpha))
    n = len(s)
    lower = run.rows("graph", half_rows, (*args, False), n, n).csr
    upper = run.rows("graph", half_rows, (*args, True), n, n).csr
    two_minus_d = np.float32(2 - _RELAX)
    goal = tol / (1 + _RELAX * alpha)

    def apply(x: Floats, work: Floats) -> None:
        x *= np.float32(_RELAX)
        relaxed_gradients(
            lower, upper, two_minus_d, goal, x, steps, work[0], work[1], work[2], work[3]
        )

    return Solver(apply, layout)


def by_series(
    s: SparseRows, function: Function, low: float, degree: int, tol: float, layout: Layout
) -> Solver:
    """A polynomial of S applied in place, by its Chebyshev terms on [low, 1] above ``tol``.

    low : no eigenvalue of S is below it; degree : of the polynomial
    """
    centre = (1 + low) / 2
    radius = (1 - low) / 2
    nodes = chebyshev.chebpts1(degree + 1)
    series = chebyshev.chebfit(nodes, function(centre + radius * nodes), degree)
    kept = np.flatnonzero(np.abs(series) > tol)
    coefficients = np.zeros(max(kept[-1] + 1 if len(kept) else 1, 2), np.float32)
    coefficients[: len(series)] = series[: len(coefficients)]
    return Solver(
        lambda x, work: kernels.chebyshev(
            *s.csr,
            coefficients,
            np.float32(centre),
            np.float32(radius),
            x,
            work[0],
            work[1],
            work[2],
        ),
        layout,
    )


def least_eigenvalue(s: SparseRows) -> float:
    """A bound from below on the eigenvalues of a normalised symmetric matrix, with some to spare.

    Fewer Chebyshev terms are needed on a shorter interval.
    """
    start = times(s, np.ones(len(s)))
    if len(s) < 64 or not start.any():
        return -1.0
    estimate = extreme_value(lambda x: times(s, x), start, "SA", tol=1e-2)
    return max(estimate - 0.05, -1.0)


def unit_starts(n_queries: int, n: int) -> SparseRows:
    """Row i is the i-th unit vector."""
    ptr = np.arange(n_queries + 1, dtype=np.int64)
    ids = np.arange(n_queries, dtype=np.int32)
    return SparseRows(ptr, ids, None, n)


def laid_out(neighbors: Neighbors, run: Runner) -> tuple[Neighbors, Layout]:
    """The lists with rows near their neighbours, and where each row is now."""
    layout = Layout.near(neighbors.indices, neighbors.k, 0)
    return layout.neighbors(neighbors, run), layout


def gallery_graph(
    gallery: Stored, k: int, gamma: float, execution: Execution
) -> tuple[SparseRows, Layout]:
    """The normalised mutual graph of unit vectors, rows near their neighbours."""
    run = execution.runner
    lists, layout = laid_out(execution.searcher(gallery).neighbors(k), run)
    return mutual_graph(lists, k, gamma, run), layout


def query_starts(
    queries: Stored,
    gallery: Stored,
    kq: int,
    gamma: float,
    execution: Execution,
    own_rows: Ints | None = None,
) -> SparseRows:
    """y = max(s, 0)^gamma at the kq nearest gallery rows of each query.

    own_rows : as of ``InductiveMethod.search_prepared``
    """
    nearest = search_others(execution.searcher(gallery), queries, kq, len(gallery), own_rows)
    order = np.argsort(nearest.indices, axis=1)
    ids = np.take_along_axis(nearest.indices, order, axis=1).ravel()
    values = np.take_along_axis(similarity_power(nearest.distances, gamma), order, axis=1).ravel()
    ptr = np.arange(0, len(ids) + 1, kq, dtype=np.int64)
    return SparseRows(ptr, ids, values, len(gallery))
