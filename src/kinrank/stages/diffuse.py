"""Bidirectional similarity diffusion (BSD), on the pattern of the clusters.

F solves (I - aS) F + F (I - aS) = 2 (1 - a) E with a = 1 / (1 + mu). With E = I, or I + S, F is a
function of S alone, so that row i is a polynomial of S applied to the i-th unit vector; with any
other E it is a sum of T_p(S) E T_q(S). Either way a row needs only its own surroundings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from kinrank.graph.build import Graph
from kinrank.graph.matrix import added, transposed
from kinrank.kernels import diffuse as kernels
from kinrank.kernels.overlay import NO_GROUPS, new_space, plain_rows
from kinrank.parallel import Array, Out, Runner
from kinrank.types import Floats, Ints, Longs, SparseRows

MAX_TERMS = 400

Coefficients: TypeAlias = npt.NDArray[np.float64]
_NONE: Coefficients = np.empty(0)


def solve(
    graph: Graph, pattern: SparseRows, alpha: float, regularizer: str | SparseRows, tol: float,
    run: Runner, rows: Ints | None = None,
) -> SparseRows:  # fmt: skip
    """The converged F on ``pattern``; with ``rows``, only of those rows (one per pattern row)."""
    if isinstance(regularizer, SparseRows):
        terms = len(_series(lambda x: (1 - alpha) / (1 - alpha * x), tol))
        nodes = chebyshev.chebpts1(terms)
        plane = (1 - alpha) / (1 - alpha * (nodes[:, None] + nodes[None, :]) / 2)
        return _bilinear(graph, pattern, regularizer, _fit_plane(plane), alpha, tol, run, rows)
    return apply(graph, pattern, converged(alpha, regularizer, tol), run, rows)


def smoothed(
    graph: Graph, pattern: SparseRows, alpha: float, tol: float, run: Runner
) -> SparseRows:
    """The tensor-product diffusion A = a S A S + (1 - a) I of RDP (SSM), converged."""
    return apply(graph, pattern, tensor_product(alpha, tol), run)


def iterate(
    graph: Graph, pattern: SparseRows, alpha: float, regularizer: str | SparseRows, steps: int,
    start: str, tol: float, run: Runner,
) -> SparseRows:  # fmt: skip
    """``steps`` times F <- a/2 (F S + S F) + (1 - a) E from F0, on ``pattern``.

    start : "graph" (F0 = W), "regularizer" (F0 = E) or "zero"
    """
    if isinstance(regularizer, str):
        return apply(graph, pattern, iterated(alpha, regularizer, steps, start, tol), run)
    nodes = chebyshev.chebpts1(steps + 1)
    mean = alpha * (nodes[:, None] + nodes[None, :]) / 2
    plane = (1 - alpha) * np.sum([mean**s for s in range(steps)], axis=0)
    if start == "regularizer":
        plane = plane + mean**steps
    total = _bilinear(graph, pattern, regularizer, _fit_plane(plane), alpha, tol, run, None)
    if start != "graph":
        return total
    begun = _walk(graph, pattern, _begun(alpha, steps, tol), run, None)
    return pattern.with_data(total.values + begun.values)


@dataclass(frozen=True, eq=False)
class Polynomial:
    """F as a function of S: sum_t powers[t] S^t + sum_t binomial[t] S^t W S^(T-t) + a series.

    powers, binomial : (T + 1,), or empty; series : Chebyshev coefficients, or empty
    decay : how much of a walk's weight is left after a step; tol : what may be missing
    """

    powers: Coefficients
    binomial: Coefficients
    series: Coefficients
    decay: float
    tol: float


def converged(alpha: float, regularizer: str, tol: float) -> Polynomial:
    """The F of ``solve``."""
    factor = _regularizer_factor(regularizer)
    series = _series(lambda x: factor(x) * (1 - alpha) / (1 - alpha * x), tol)
    return Polynomial(_NONE, _NONE, series, alpha, tol)


def tensor_product(alpha: float, tol: float) -> Polynomial:
    """The F of ``smoothed``."""
    series = _series(lambda x: (1 - alpha) / (1 - alpha * x * x), tol)
    # Weights fall by the root of a per step, so that long walks count for more than in BSD.
    return Polynomial(_NONE, _NONE, series, float(np.sqrt(alpha)), tol / 100)


def iterated(alpha: float, regularizer: str, steps: int, start: str, tol: float) -> Polynomial:
    """The F of ``iterate``."""
    powers = np.zeros(steps + 1)
    powers[:steps] = (1 - alpha) * alpha ** np.arange(steps)
    begun = _begun(alpha, steps, tol) if start == "graph" else None
    if begun is not None and regularizer == "identity":
        return replace(begun, powers=powers)
    if start == "regularizer":
        powers[steps] = alpha**steps
    if regularizer == "graph":
        powers = np.append(powers, 0) + np.append(0, powers)
    series: Coefficients = np.asarray(chebyshev.poly2cheb(powers), np.float64)
    return replace(begun or Polynomial(_NONE, _NONE, _NONE, alpha, tol), series=series)


def _begun(alpha: float, steps: int, tol: float) -> Polynomial:
    """What is left after ``steps`` of a start from W."""
    binomial = np.array([comb(steps, t) * (alpha / 2) ** steps for t in range(steps + 1)])
    return Polynomial(0 * binomial, binomial, _NONE, alpha, tol)


def apply(
    graph: Graph, pattern: SparseRows, polynomial: Polynomial, run: Runner,
    rows: Ints | None = None,
) -> SparseRows:  # fmt: skip
    """F on ``pattern``; with ``rows``, only of those rows (one per pattern row)."""
    if len(polynomial.series) == 0:
        return _walk(graph, pattern, polynomial, run, rows)
    total = _polynomial(graph, pattern, polynomial, run, rows)
    if len(polynomial.binomial) == 0:
        return total
    begun = _walk(graph, pattern, polynomial, run, rows)
    return pattern.with_data(total.values + begun.values)


def surroundings(graph: Graph, rows: Ints, alpha: float, tol: float, run: Runner) -> SparseRows:
    """The members of the ball of each of ``rows``: where F exceeds ``tol``.

    Nothing is known of the other ends, so the floor is tol itself, not its root.
    """
    args = (rows, *graph.s.csr, alpha, graph.floor((10 * tol) ** 2))
    return run.rows("diffusion", _ball_rows, args, len(rows), len(graph.s))


def _regularizer_factor(name: str) -> Callable[[Coefficients], Coefficients]:
    return (lambda x: 1 + x) if name == "graph" else np.ones_like


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


def _fit_plane(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Chebyshev coefficients in two variables from values at the Chebyshev points of both."""
    terms = len(values)
    basis = chebyshev.chebvander(chebyshev.chebpts1(terms), terms - 1)
    scale = np.full(terms, 2.0 / terms)
    scale[0] = 1.0 / terms
    inverse = scale[:, None] * basis.T
    return np.asarray(inverse @ values @ inverse.T)


def _all_rows(pattern: SparseRows, rows: Ints | None) -> Ints:
    return np.arange(len(pattern), dtype=np.int32) if rows is None else rows


def _polynomial(
    graph: Graph, pattern: SparseRows, polynomial: Polynomial, run: Runner, rows: Ints | None
) -> SparseRows:
    own = (polynomial.series, polynomial.decay, graph.floor(polynomial.tol))
    args = (_all_rows(pattern, rows), *graph.s.csr, *own)
    return _on(pattern, _polynomial_rows, args, run)


def _walk(
    graph: Graph, pattern: SparseRows, polynomial: Polynomial, run: Runner, rows: Ints | None
) -> SparseRows:
    # Both share a symmetric pattern, so the transposed values are in the same places.
    start = transposed(graph.w, run).values
    own = (polynomial.powers, polynomial.binomial, polynomial.decay, graph.floor(polynomial.tol))
    args = (_all_rows(pattern, rows), *graph.s.csr, start, *own)
    return _on(pattern, _walk_rows, args, run)


def _bilinear(
    graph: Graph, pattern: SparseRows, middle: SparseRows, plane: npt.NDArray[np.float64],
    alpha: float, tol: float, run: Runner, rows: Ints | None,
) -> SparseRows:  # fmt: skip
    # The middle matrix may lead where S does not: the ball follows both.
    s = _spread(graph.s, middle, 0, run)
    largest = np.bincount(middle.owners, middle.values).max()
    reach = _spread(graph.s, middle, 1 / max(largest, 1e-30), run).values
    own = (*s.csr, reach, *middle.csr, plane, alpha, graph.floor(tol))
    return _on(pattern, _bilinear_rows, (_all_rows(pattern, rows), *own), run)


def _on(
    pattern: SparseRows, kernel: Callable[..., Any], args: tuple[Any, ...], run: Runner
) -> SparseRows:
    """What a kernel finds at the places of a pattern."""
    places, out = (pattern.indptr, pattern.indices), Out(np.float32, indptr=pattern.indptr)
    return pattern.with_data(run.fill("diffusion", kernel, (*args, *places), len(pattern), out))


def _polynomial_rows(
    low: int, high: int, rows: Ints, ptr: Longs, ids: Ints, s: Floats, series: Coefficients,
    decay: float, floor: Floats, *places: Array,
) -> None:  # fmt: skip
    walk, space = (_NONE, _NONE, series, decay, floor), new_space(len(ptr) - 1)
    own = (rows, NO_GROUPS, plain_rows(ptr, ids, s))
    kernels.polynomial_rows(low, high, *own, walk, *places, space)


def _walk_rows(
    low: int, high: int, rows: Ints, ptr: Longs, ids: Ints, s: Floats, start: Floats,
    powers: Coefficients, binomial: Coefficients, decay: float, floor: Floats, *places: Array,
) -> None:  # fmt: skip
    walk, space = (powers, binomial, _NONE, decay, floor), new_space(len(ptr) - 1)
    own = (rows, NO_GROUPS, plain_rows(ptr, ids, s), (start, start[:0]))
    kernels.walk_rows(low, high, *own, walk, *places, space)


def _bilinear_rows(
    low: int, high: int, rows: Ints, ptr: Longs, ids: Ints, s: Floats, reach: Floats,
    m_ptr: Longs, m_ids: Ints, m: Floats, plane: Coefficients, decay: float, floor: Floats,
    *places: Array,
) -> None:  # fmt: skip
    walk, space = (_NONE, _NONE, _NONE, decay, floor), new_space(len(ptr) - 1)
    followed, middle = plain_rows(ptr, ids, reach), plain_rows(m_ptr, m_ids, m)
    own = (rows, plain_rows(ptr, ids, s), followed, middle, plane, walk)
    kernels.bilinear_rows(low, high, *own, *places, space)


def _ball_rows(
    low: int, high: int, rows: Ints, ptr: Longs, ids: Ints, s: Floats, decay: float, floor: Floats
) -> Any:
    space = new_space(len(ptr) - 1)
    return kernels.ball_rows(low, high, rows, plain_rows(ptr, ids, s), decay, floor, space)


def _spread(s: SparseRows, other: SparseRows, weight: float, run: Runner) -> SparseRows:
    """S + weight * other, on the pattern of both."""
    return added(s, other.with_data((weight * other.values).astype(np.float32)), run)
