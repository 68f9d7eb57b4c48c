"""Bidirectional similarity diffusion (BSD), on the pattern of the clusters.

F solves (I - aS) F + F (I - aS) = 2 (1 - a) E with a = 1 / (1 + mu). With E = I, or I + S, F is a
function of S alone, so that row i is a polynomial of S applied to the i-th unit vector; with any
other E it is a sum of T_p(S) E T_q(S). Either way a row needs only its own surroundings.
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
from kinrank.kernels.overlay import NO_GROUPS, lent_space, plain_rows
from kinrank.kernels.records import DiffusionTerms
from kinrank.parallel import Out, Runner
from kinrank.stages import dense
from kinrank.stages.distances import Distances
from kinrank.stages.graph import Graph, affinity
from kinrank.stages.parameters import StageParameters
from kinrank.stages.sparse import added, take, transposed, unit_rows
from kinrank.types import Floats, Ints, Longs, SparseRows

MAX_TERMS = 400

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

    clusters : C of all rows; distances : for "original", which takes the affinity itself
    regularizer : E where it is a matrix; None for that of the parameters
    """
    pattern = clusters if rows is None else take(clusters, rows)
    if parameters.similarity == "original":
        if rows is None:
            rows = np.arange(len(pattern), dtype=np.int32)
        d2 = distances.at(rows, pattern.indptr, pattern.indices, run)
        weights = affinity(d2, np.ones_like(d2), parameters.sigma)  # d2 is scaled already
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
    """F as a function of S, and of E where that is a matrix; a sum of all parts that are not empty.

    powers, binomial : (T + 1,) sum_t powers[t] S^t + sum_t binomial[t] S^t W S^(T-t)
    series : sum_t series[t] T_t(S), Chebyshev polynomials
    plane, regularizer : sum_pq plane[p, q] T_p(S) E T_q(S)
    decay : how much of the weight is left after a step; tol : what may be missing
    """

    decay: float
    tol: float
    powers: Coefficients = _NONE
    binomial: Coefficients = _NONE
    series: Coefficients = _NONE
    plane: Coefficients = _NONE
    regularizer: SparseRows | None = None


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
    """``steps`` times F <- a/2 (F S + S F) + (1 - a) E from F0.

    start : "graph" (F0 = W), "regularizer" (F0 = E) or "zero"
    """
    powers = np.zeros(steps + 1)
    powers[:steps] = (1 - alpha) * alpha ** np.arange(steps)
    begun = Polynomial(alpha, tol)
    if start == "graph":  # what is left of W in the end
        binomial = np.array([comb(steps, t) * (alpha / 2) ** steps for t in range(steps + 1)])
        begun = Polynomial(alpha, tol, powers=0 * binomial, binomial=binomial)
    elif start == "regularizer":
        powers[steps] = alpha**steps
    if not isinstance(regularizer, str):
        last = 1 if start == "regularizer" else 0

        def summed(mean: Coefficients) -> Coefficients:
            total = (1 - alpha) * np.sum([mean**t for t in range(steps)], axis=0)
            return np.asarray(total + last * mean**steps)

        plane = _fit_plane(steps + 1, alpha, summed)
        return begun._replace(plane=plane, regularizer=regularizer)
    if start == "graph" and regularizer == "identity":
        return begun._replace(powers=powers)
    if regularizer == "graph":
        powers = np.append(powers, 0) + np.append(0, powers)
    series: Coefficients = np.asarray(chebyshev.poly2cheb(powers), np.float64)
    return begun._replace(series=series)


def apply(
    graph: Graph,
    pattern: SparseRows,
    polynomial: Polynomial,
    run: Runner,
    rows: Ints | None = None,
) -> SparseRows:
    """F on ``pattern``; with ``rows``, only of those rows (one per pattern row)."""
    s = graph.s
    floor = graph.floor(polynomial.tol)
    wanted = np.arange(len(pattern), dtype=np.int32) if rows is None else rows
    parts = []
    if len(polynomial.series):
        args: tuple[Any, ...] = (wanted, *s.csr, polynomial.series, polynomial.decay, floor)
        parts.append(_values_on(pattern, _chebyshev_rows, args, run))
    if polynomial.regularizer is not None:
        middle = polynomial.regularizer
        # The middle matrix may lead where S does not: the ball follows both.
        largest = np.bincount(middle.owners, middle.values).max()
        both = _sum_on_both(s, middle, 0, run)
        reach = _sum_on_both(s, middle, 1 / max(largest, 1e-30), run).values
        args = (
            wanted,
            *both.csr,
            reach,
            *middle.csr,
            polynomial.plane,
            polynomial.decay,
            floor,
        )
        parts.append(_values_on(pattern, _bilinear_rows, args, run))
    if len(polynomial.binomial) or not parts:
        # S and W share a symmetric pattern, so the transposed values are in the same places.
        start = transposed(graph.w, run).values
        args = (
            wanted,
            *s.csr,
            start,
            polynomial.powers,
            polynomial.binomial,
            polynomial.decay,
            floor,
        )
        if rows is None:
            whole = whole_groups(run, len(wanted))
            parts.append(_values_on(pattern, _power_groups, args, whole))
        else:
            parts.append(_values_on(pattern, _power_rows, args, run))
    return pattern.with_data(parts[0] if len(parts) == 1 else parts[0] + parts[1])


def whole_groups(run: Runner, n: int) -> Runner:
    """The runner with blocks that end where groups of ``power_groups`` do, unless a size is set."""
    if run.block_size or not n:
        return run
    low, high = run.blocks(n)[0]
    return run.cut(-(-(high - low) // LANES) * LANES)


def surroundings(graph: Graph, rows: Ints, alpha: float, tol: float, run: Runner) -> SparseRows:
    """The members of the ball of each of ``rows``: where F exceeds ``tol``.

    Nothing is known of the other ends, so the floor is tol itself, not its root.
    """
    args = (rows, *graph.s.csr, alpha, graph.floor((10 * tol) ** 2))
    return run.rows("diffusion", _ball_rows, args, len(rows), len(graph.s))


def _series(function: Callable[[Coefficients], Any], tol: float) -> Coefficients:
    """Chebyshev coefficients of a function on [-1, 1], as many as exceed ``tol``."""
    degree = 16
    while True:
        series = np.asarray(chebyshev.chebinterpolate(function, degree))
        small = np.abs(series) <= tol / 100
        if small[-2:].all() or degree >= MAX_TERMS:
            last = np.flatnonzero(~small)
            return series[: last[-1] + 1 if len(last) else 1]
        degree = min(2 * degree, MAX_TERMS)


def _fit_plane(
    terms: int, alpha: float, function: Callable[[Coefficients], Coefficients]
) -> Coefficients:
    """Chebyshev coefficients in two variables x, y of a function of alpha (x + y) / 2."""
    nodes = chebyshev.chebpts1(terms)
    values = function(alpha * (nodes[:, None] + nodes[None, :]) / 2)
    scale = np.full(terms, 2.0 / terms)
    scale[0] = 1.0 / terms
    inverse = scale[:, None] * chebyshev.chebvander(nodes, terms - 1).T
    return np.asarray(inverse @ values @ inverse.T)


def _values_on(
    pattern: SparseRows, kernel: Callable[..., None], args: tuple[Any, ...], run: Runner
) -> Floats:
    """What a kernel computes at the places of a pattern."""
    args = (*args, pattern.indptr, pattern.indices)
    out = Out(np.float32, indptr=pattern.indptr)
    values: Floats = run.fill("diffusion", kernel, args, len(pattern), out)
    return values


def _chebyshev_rows(
    low: int,
    high: int,
    rows: Ints,
    ptr: Longs,
    ids: Ints,
    s: Floats,
    series: Coefficients,
    decay: float,
    floor: Floats,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    terms = DiffusionTerms(_NONE, _NONE, series, decay, floor)
    graph = plain_rows(ptr, ids, s)
    with lent_space(len(ptr) - 1) as space:
        kernels.chebyshev_rows(
            low, high, rows, NO_GROUPS, graph, terms, out_ptr, out_ids, out, space
        )


def _power_rows(
    low: int,
    high: int,
    rows: Ints,
    ptr: Longs,
    ids: Ints,
    s: Floats,
    start: Floats,
    powers: Coefficients,
    binomial: Coefficients,
    decay: float,
    floor: Floats,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    terms = DiffusionTerms(powers, binomial, _NONE, decay, floor)
    graph = plain_rows(ptr, ids, s)
    with lent_space(len(ptr) - 1) as space:
        kernels.power_rows(
            low,
            high,
            rows,
            NO_GROUPS,
            graph,
            start,
            start[:0],
            terms,
            out_ptr,
            out_ids,
            out,
            space,
        )


def _power_groups(
    low: int,
    high: int,
    rows: Ints,
    ptr: Longs,
    ids: Ints,
    s: Floats,
    start: Floats,
    powers: Coefficients,
    binomial: Coefficients,
    decay: float,
    floor: Floats,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    terms = DiffusionTerms(powers, binomial, _NONE, decay, floor)
    graph = plain_rows(ptr, ids, s)
    with lent_space(len(ptr) - 1) as space:
        power_groups(low, high, rows, graph, start, terms, out_ptr, out_ids, out, space)


def _bilinear_rows(
    low: int,
    high: int,
    rows: Ints,
    ptr: Longs,
    ids: Ints,
    s: Floats,
    reach: Floats,
    middle_ptr: Longs,
    middle_ids: Ints,
    middle: Floats,
    plane: Coefficients,
    decay: float,
    floor: Floats,
    out_ptr: Longs,
    out_ids: Ints,
    out: Floats,
) -> None:
    terms = DiffusionTerms(_NONE, _NONE, _NONE, decay, floor)
    graph = plain_rows(ptr, ids, s)
    followed = plain_rows(ptr, ids, reach)
    regularizer = plain_rows(middle_ptr, middle_ids, middle)
    with lent_space(len(ptr) - 1) as space:
        kernels.bilinear_rows(
            low,
            high,
            rows,
            graph,
            followed,
            regularizer,
            plane,
            terms,
            out_ptr,
            out_ids,
            out,
            space,
        )


def _ball_rows(
    low: int,
    high: int,
    rows: Ints,
    ptr: Longs,
    ids: Ints,
    s: Floats,
    decay: float,
    floor: Floats,
) -> Any:
    graph = plain_rows(ptr, ids, s)
    with lent_space(len(ptr) - 1) as space:
        return kernels.ball_rows(low, high, rows, graph, decay, floor, space)


def _sum_on_both(s: SparseRows, other: SparseRows, weight: float, run: Runner) -> SparseRows:
    """S + weight * other, on the pattern of both."""
    scaled = other.with_data((weight * other.values).astype(np.float32))
    return added(s, scaled, run)
