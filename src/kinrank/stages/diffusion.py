"""Bidirectional similarity diffusion (BSD), on the pattern of the clusters.

F solves (I - aS) F + F (I - aS) = 2 (1 - a) E with a = 1 / (1 + mu), S the normalised graph of
affinities W, and E the regulariser. With E = I, or I + S, F is a
function of S alone, so that row i is a polynomial of S applied to the i-th unit vector; with any
other E it is a sum of T_p(S) E T_q(S). Either way a row needs only its own surroundings.

A pattern is ``SparseRows``, of which the places count, C[i] in row i: the entries of F that are
wanted. ``graph`` has S and W; ``run`` computes blocks of rows on threads, or in files.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from kinrank.kernels import diffuse as kernels
from kinrank.kernels.diffuse_lanes import LANES, power_groups
from kinrank.kernels.overlay import NO_GROUPS, free_workspace, plain_rows
from kinrank.kernels.records import DiffusionTerms
from kinrank.parallel import Out, Runner
from kinrank.stages import dense
from kinrank.stages.distances import Distances
from kinrank.stages.graph import Graph, affinity
from kinrank.stages.parameters import StageParameters
from kinrank.stages.sparse import added, take, transposed, unit_rows
from kinrank.types import Csr, Floats, Ints, Longs, SparseRows

MAX_DEGREE = 400
# Times the root of ``tol``: the weight up to which a row is left out. Sums of powers make up for
# most of what is left out (``kernels.diffuse``), the other polynomials do not.
_FLOOR_OF_POWERS = 0.055
_FLOOR = 0.03

Coefficients: TypeAlias = npt.NDArray[np.float64]
_NONE: Coefficients = np.empty(0)


def similarity_on_clusters(
    graph: Graph,
    clusters: SparseRows,
    distances: Distances,
    parameters: StageParameters,
    run: Runner,
    *,
    rows: Ints | None = None,
    regularizer: str | SparseRows | None = None,
) -> SparseRows:
    """F on the clusters, rows of L1 norm 1; of all rows, or of ``rows``.

    clusters : C of all rows; distances : for "original", which takes the affinity itself for F
    regularizer : E where it is a matrix; None for that of the parameters
    """
    pattern = clusters if rows is None else take(clusters, rows)
    if parameters.similarity == "original":
        if rows is None:
            rows = np.arange(len(pattern), dtype=np.int32)
        scaled_squared = distances.on_pattern(rows, pattern.indptr, pattern.indices, run)
        # Squared distances over the row's largest: there is nothing left to divide by.
        weights = affinity(scaled_squared, np.ones_like(scaled_squared), parameters.sigma)
        return unit_rows(pattern.with_data(weights), run)
    return unit_rows(diffuse(graph, pattern, parameters, run, rows, regularizer), run)


def diffuse(
    graph: Graph,
    pattern: SparseRows,
    parameters: StageParameters,
    run: Runner,
    rows: Ints | None = None,
    regularizer: str | SparseRows | None = None,
) -> SparseRows:
    """F on a pattern, by the solver of the parameters.

    rows : the graph row that each pattern row belongs to; None if they are all rows
    """
    if parameters.similarity == "bidirectional" and parameters.solver in ("dense", "cg"):
        e = parameters.regularizer if regularizer is None else regularizer
        if parameters.solver == "dense":
            return dense.closed_form(graph, pattern, parameters.alpha, e, rows)
        return dense.conjugate_gradients(graph, pattern, parameters.alpha, e, parameters.tol, rows)
    return apply(graph, pattern, polynomial_of(parameters, regularizer), run, rows)


def polynomial_of(
    parameters: StageParameters, regularizer: str | SparseRows | None = None
) -> Polynomial:
    """The diffusion as a polynomial of S; regularizer : E, if it is not that of the parameters."""
    alpha = parameters.alpha
    e = parameters.regularizer if regularizer is None else regularizer
    if parameters.similarity == "smoothed":
        return tensor_product(alpha, parameters.tol)
    if parameters.solver == "iterate":
        return iterated(alpha, e, parameters.steps, parameters.start, parameters.tol)
    return converged(alpha, e, parameters.tol)


class Polynomial(NamedTuple):
    """F as a function of S, and of E where that is a matrix: a sum of all parts that are not empty.

    powers, binomial : (T + 1,) sum_t powers[t] S^t + sum_t binomial[t] S^t W S^(T-t)
    series : sum_t series[t] T_t(S), T_t the Chebyshev polynomials
    plane, regularizer : sum_pq plane[p, q] T_p(S) E T_q(S), E the regularizer
    decay : what part of the weight is left after a step along the edges of S
    tol : about what may be missing from an entry of F
    """

    decay: float
    tol: float
    powers: Coefficients = _NONE
    binomial: Coefficients = _NONE
    series: Coefficients = _NONE
    plane: Coefficients = _NONE
    regularizer: SparseRows | None = None

    def terms(self) -> DiffusionTerms:
        """The coefficients as kernels take them, with the floor of rows that are left out.

        What goes from one end to the other over a row weighs the product of how much reaches the
        row from each, hence the root of ``tol``.
        """
        has_powers_alone = len(self.series) == 0 and self.regularizer is None
        factor = _FLOOR_OF_POWERS if has_powers_alone else _FLOOR
        return DiffusionTerms(
            powers=self.powers,
            binomial=self.binomial,
            series=self.series,
            decay=self.decay,
            floor=factor * float(np.sqrt(self.tol)),
        )


def converged(alpha: float, regularizer: str | SparseRows, tol: float) -> Polynomial:
    """F that solves the equation; regularizer : E, "identity", "graph" (I + S) or a matrix."""
    if not isinstance(regularizer, str):
        terms = len(_series(lambda x: (1 - alpha) / (1 - alpha * x), tol))
        plane = _fit_plane(terms, alpha, lambda mean: (1 - alpha) / (1 - mean))
        return Polynomial(alpha, tol, plane=plane, regularizer=regularizer)
    graph_part = 1 if regularizer == "graph" else 0
    series = _series(lambda x: (1 + graph_part * x) * (1 - alpha) / (1 - alpha * x), tol)
    return Polynomial(alpha, tol, series=series)


def tensor_product(alpha: float, tol: float) -> Polynomial:
    """The tensor-product diffusion A = a S A S + (1 - a) I of RDP (SSM), converged."""
    series = _series(lambda x: (1 - alpha) / (1 - alpha * x * x), tol)
    # Weights fall by the root of a per step, so that far rows count for more than in BSD.
    return Polynomial(float(np.sqrt(alpha)), tol / 100, series=series)


def iterated(
    alpha: float, regularizer: str | SparseRows, steps: int, start: str, tol: float
) -> Polynomial:
    """``steps`` times F <- a/2 (F S + S F) + (1 - a) E from F0, as a polynomial.

    alpha : a; regularizer : E, "identity", "graph" (I + S) or a matrix
    start : "graph" (F0 = W), "regularizer" (F0 = E) or "zero"
    """
    powers = np.zeros(steps + 1)
    powers[:steps] = (1 - alpha) * alpha ** np.arange(steps)
    from_start = Polynomial(alpha, tol)
    if start == "graph":  # what is left of W in the end
        binomial = np.array([comb(steps, t) * (alpha / 2) ** steps for t in range(steps + 1)])
        from_start = Polynomial(alpha, tol, powers=0 * binomial, binomial=binomial)
    elif start == "regularizer":
        powers[steps] = alpha**steps
    if not isinstance(regularizer, str):
        start_weight = 1 if start == "regularizer" else 0

        def sum_of_steps(mean: Coefficients) -> Coefficients:
            """The sum of all steps at eigenvalues x and y of S; mean : alpha (x + y) / 2."""
            total = (1 - alpha) * np.sum([mean**t for t in range(steps)], axis=0)
            return np.asarray(total + start_weight * mean**steps)

        plane = _fit_plane(steps + 1, alpha, sum_of_steps)
        return from_start._replace(plane=plane, regularizer=regularizer)
    if start == "graph" and regularizer == "identity":
        return from_start._replace(powers=powers)
    if regularizer == "graph":
        powers = np.append(powers, 0) + np.append(0, powers)
    series: Coefficients = np.asarray(chebyshev.poly2cheb(powers), np.float64)
    return from_start._replace(series=series)


def apply(
    graph: Graph,
    pattern: SparseRows,
    polynomial: Polynomial,
    run: Runner,
    rows: Ints | None = None,
) -> SparseRows:
    """F on ``pattern``, the entries that are asked for, from its polynomial in S.

    rows : (len(pattern),) int32, the row of the graph that each row of the pattern belongs to; None
        where the pattern has all rows
    Returns ``pattern`` with the values of F, float32.
    """
    s = graph.s
    terms = polynomial.terms()
    wanted = np.arange(len(pattern), dtype=np.int32) if rows is None else rows
    parts = []
    if len(polynomial.series):
        parts.append(_values_on(pattern, _chebyshev_rows, (wanted, s.csr, terms), run))
    if polynomial.regularizer is not None:
        e = polynomial.regularizer
        # E may lead where S does not: the ball follows both.
        largest = np.bincount(e.owners, e.values).max()
        on_both = _sum_on_both(s, e, 0, run)
        followed = _sum_on_both(s, e, 1 / max(largest, 1e-30), run).values
        args = (wanted, on_both.csr, followed, e.csr, polynomial.plane, terms)
        parts.append(_values_on(pattern, _bilinear_rows, args, run))
    if len(polynomial.binomial) or not parts:
        # S and W share a symmetric pattern, so the transposed values are in the same places.
        transposed_w = transposed(graph.w, run).values
        power_args = (wanted, s.csr, transposed_w, terms)
        if rows is None:
            whole = whole_groups(run, len(wanted))
            parts.append(_values_on(pattern, _power_groups, power_args, whole))
        else:
            parts.append(_values_on(pattern, _power_rows, power_args, run))
    return pattern.with_data(parts[0] if len(parts) == 1 else parts[0] + parts[1])


def whole_groups(run: Runner, n: int) -> Runner:
    """The runner with blocks of a multiple of LANES rows, unless a size is set.

    ``power_groups`` computes so many rows side by side; of a group that a block's end cuts, the
    ball would be found twice.

    n : how many rows are computed
    """
    if run.block_size or not n:
        return run
    low, high = run.blocks(n)[0]
    return run.cut(-(-(high - low) // LANES) * LANES)


def surroundings(graph: Graph, rows: Ints, alpha: float, tol: float, run: Runner) -> SparseRows:
    """Which columns of F exceed ``tol``, for each of ``rows``: the members of the row's ball.

    alpha : a. Nothing is known of the other ends, so the floor is tol itself, not its root.
    """
    args = (rows, graph.s.csr, alpha, 0.2 * tol)
    return run.rows("diffusion", _ball_rows, args, len(rows), len(graph.s))


def _series(function: Callable[[Coefficients], Any], tol: float) -> Coefficients:
    """Chebyshev coefficients of a function on [-1, 1], up to the last that exceeds tol / 100.

    At most MAX_DEGREE + 1 of them, however large the last is.
    """
    degree = 16
    while True:
        series = np.asarray(chebyshev.chebinterpolate(function, degree))
        small = np.abs(series) <= tol / 100
        # Of an even function every other coefficient is 0, so two are looked at.
        if small[-2:].all() or degree >= MAX_DEGREE:
            last = np.flatnonzero(~small)
            return series[: last[-1] + 1 if len(last) else 1]
        degree = min(2 * degree, MAX_DEGREE)


def _fit_plane(
    terms: int, alpha: float, function: Callable[[Coefficients], Coefficients]
) -> Coefficients:
    """Chebyshev coefficients, (terms, terms), in x and y of ``function`` of alpha (x + y) / 2."""
    nodes = chebyshev.chebpts1(terms)
    values = function(alpha * (nodes[:, None] + nodes[None, :]) / 2)
    scale = np.full(terms, 2.0 / terms)
    scale[0] = 1.0 / terms
    inverse = scale[:, None] * chebyshev.chebvander(nodes, terms - 1).T
    return np.asarray(inverse @ values @ inverse.T)


def _values_on(
    pattern: SparseRows, kernel: Callable[..., None], args: tuple[Any, ...], run: Runner
) -> Floats:
    """What a kernel computes at the places of a pattern, (nnz,) float32.

    args : what the kernel takes between the block and the pattern
    """
    args = (*args, pattern.indptr, pattern.indices)
    out = Out(np.float32, indptr=pattern.indptr)
    values: Floats = run.fill("diffusion", kernel, args, len(pattern), out)
    return values


# What a runner calls for each block, [low, high) of ``rows``: the kernel of the same name, with a
# workspace, and S without an overlay. ``out_ptr, out_ids`` are the columns that are asked for, and
# ``out`` gets their values.


def _chebyshev_rows(
    low: int,
    high: int,
    rows: Ints,
    s: Csr,
    terms: DiffusionTerms,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    """``kernels.chebyshev_rows`` of rows[low:high]: what ``run`` calls for each block."""
    with free_workspace(len(s.ptr) - 1) as workspace:
        kernels.chebyshev_rows(
            low, high, rows, NO_GROUPS, plain_rows(*s), terms, out_ptr, out_ids, out, workspace
        )


def _power_rows(
    low: int,
    high: int,
    rows: Ints,
    s: Csr,
    transposed_w: Floats,
    terms: DiffusionTerms,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    """``kernels.power_rows`` of rows[low:high]: what ``run`` calls for each block."""
    with free_workspace(len(s.ptr) - 1) as workspace:
        kernels.power_rows(
            low,
            high,
            rows,
            NO_GROUPS,
            plain_rows(*s),
            transposed_w,
            transposed_w[:0],
            terms,
            out_ptr,
            out_ids,
            out,
            workspace,
        )


def _power_groups(
    low: int,
    high: int,
    rows: Ints,
    s: Csr,
    transposed_w: Floats,
    terms: DiffusionTerms,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    """``kernels.power_groups`` of rows[low:high]: what ``run`` calls for each block."""
    with free_workspace(len(s.ptr) - 1) as workspace:
        power_groups(
            low, high, rows, plain_rows(*s), transposed_w, terms, out_ptr, out_ids, out, workspace
        )


def _bilinear_rows(
    low: int,
    high: int,
    rows: Ints,
    s: Csr,
    followed: Floats,
    e: Csr,
    plane: Coefficients,
    terms: DiffusionTerms,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    """``kernels.bilinear_rows`` of rows[low:high]: what ``run`` calls for each block."""
    with free_workspace(len(s.ptr) - 1) as workspace:
        kernels.bilinear_rows(
            low,
            high,
            rows,
            plain_rows(*s),
            plain_rows(s.ptr, s.ids, followed),
            plain_rows(*e),
            plane,
            terms,
            out_ptr,
            out_ids,
            out,
            workspace,
        )


def _ball_rows(low: int, high: int, rows: Ints, s: Csr, decay: float, floor: float) -> Any:
    with free_workspace(len(s.ptr) - 1) as workspace:
        return kernels.ball_rows(low, high, rows, plain_rows(*s), decay, floor, workspace)


def _sum_on_both(s: SparseRows, e: SparseRows, weight: float, run: Runner) -> SparseRows:
    """S + weight E, on the pattern of both."""
    scaled = e.with_data((weight * e.values).astype(np.float32))
    return added(s, scaled, run)
