"""Bidirectional similarity diffusion (BSD), on the pattern of the clusters.

F solves (I - aS) F + F (I - aS) = 2 (1 - a) E with a = 1 / (1 + mu). With E = I, or I + S, F is a
function of S alone, so that row i is a polynomial of S applied to the i-th unit vector; with any
other E it is a sum of T_p(S) E T_q(S). Either way a row needs only its own surroundings.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from kinrank.graph.build import Graph, transposed
from kinrank.kernels import diffuse as kernels
from kinrank.kernels.rows import merge_rows
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, SparseRows

MAX_TERMS = 400

Coefficients = npt.NDArray[np.float64]


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
    factor = _regularizer_factor(regularizer)
    series = _series(lambda x: factor(x) * (1 - alpha) / (1 - alpha * x), tol)
    return _polynomial(graph, pattern, series, alpha, tol, run, rows)


def smoothed(
    graph: Graph, pattern: SparseRows, alpha: float, tol: float, run: Runner
) -> SparseRows:
    """The tensor-product diffusion A = a S A S + (1 - a) I of RDP (SSM), converged."""
    series = _series(lambda x: (1 - alpha) / (1 - alpha * x * x), tol)
    # Weights fall by the root of a per step, so that long walks count for more than in BSD.
    return _polynomial(graph, pattern, series, np.sqrt(alpha), tol / 100, run, None)


def iterate(
    graph: Graph, pattern: SparseRows, alpha: float, regularizer: str | SparseRows, steps: int,
    start: str, tol: float, run: Runner,
) -> SparseRows:  # fmt: skip
    """``steps`` times F <- a/2 (F S + S F) + (1 - a) E from F0, on ``pattern``.

    start : "graph" (F0 = W), "regularizer" (F0 = E) or "zero"
    """
    walk = np.zeros(steps + 1)
    if start == "graph":
        walk[:] = [comb(steps, t) * (alpha / 2) ** steps for t in range(steps + 1)]
    if isinstance(regularizer, str):
        powers = np.zeros(steps + 1)
        powers[:steps] = (1 - alpha) * alpha ** np.arange(steps)
        if start == "regularizer":
            powers[steps] = alpha**steps
        if regularizer == "identity" and start == "graph":
            return _walk(graph, pattern, powers, walk, alpha, tol, run)
        if regularizer == "graph":
            powers = np.append(powers, 0) + np.append(0, powers)
        series: Coefficients = np.asarray(chebyshev.poly2cheb(powers), np.float64)
        total = _polynomial(graph, pattern, series, alpha, tol, run, None)
    else:
        nodes = chebyshev.chebpts1(steps + 1)
        mean = alpha * (nodes[:, None] + nodes[None, :]) / 2
        plane = (1 - alpha) * np.sum([mean**s for s in range(steps)], axis=0)
        if start == "regularizer":
            plane = plane + mean**steps
        total = _bilinear(graph, pattern, regularizer, _fit_plane(plane), alpha, tol, run, None)
    if start != "graph":
        return total
    begun = _walk(graph, pattern, 0 * walk, walk, alpha, tol, run)
    return pattern.with_data(total.values + begun.values)


def surroundings(graph: Graph, rows: Ints, alpha: float, tol: float, run: Runner) -> SparseRows:
    """The members of the ball of each of ``rows``: where F exceeds ``tol``.

    Nothing is known of the other ends, so the floor is tol itself, not its root.
    """
    args = (rows, *_csr(graph.s), alpha, graph.floor((10 * tol) ** 2))
    return run.rows(
        "diffusion", lambda a, b: kernels.ball_rows(a, b, *args), len(rows), len(graph.s)
    )


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


def _csr(a: SparseRows) -> tuple[Any, Any, Floats]:
    return a.indptr, a.indices, a.values


def _all_rows(pattern: SparseRows, rows: Ints | None) -> Ints:
    return np.arange(len(pattern), dtype=np.int32) if rows is None else rows


def _polynomial(
    graph: Graph, pattern: SparseRows, series: Coefficients, decay: float, tol: float,
    run: Runner, rows: Ints | None,
) -> SparseRows:  # fmt: skip
    out = np.empty(pattern.nnz, np.float32)
    args = (_all_rows(pattern, rows), *_csr(graph.s), series, float(decay), graph.floor(tol))
    places = (pattern.indptr, pattern.indices, out)
    run.map("diffusion", lambda a, b: kernels.polynomial_rows(a, b, *args, *places), len(pattern))
    return pattern.with_data(np.maximum(out, 0))


def _walk(
    graph: Graph, pattern: SparseRows, powers: Coefficients, binomial: Coefficients,
    alpha: float, tol: float, run: Runner,
) -> SparseRows:  # fmt: skip
    out = np.empty(pattern.nnz, np.float32)
    # Both share a symmetric pattern, so the transposed values are in the same places.
    start = transposed(graph.w).values
    args = (
        _all_rows(pattern, None),
        *_csr(graph.s),
        start,
        powers,
        binomial,
        alpha,
        graph.floor(tol),
    )
    places = (pattern.indptr, pattern.indices, out)
    run.map("diffusion", lambda a, b: kernels.walk_rows(a, b, *args, *places), len(pattern))
    return pattern.with_data(out)


def _bilinear(
    graph: Graph, pattern: SparseRows, middle: SparseRows, plane: npt.NDArray[np.float64],
    alpha: float, tol: float, run: Runner, rows: Ints | None,
) -> SparseRows:  # fmt: skip
    out = np.empty(pattern.nnz, np.float32)
    # The middle matrix may lead where S does not: the ball follows both.
    s = _spread(graph.s, middle, 0)
    largest = np.bincount(np.repeat(np.arange(len(middle)), middle.lengths), middle.values).max()
    reach = _spread(graph.s, middle, 1 / max(largest, 1e-30)).values
    args = (
        _all_rows(pattern, rows),
        *_csr(s),
        reach,
        *_csr(middle),
        plane,
        alpha,
        graph.floor(tol),
    )
    places = (pattern.indptr, pattern.indices, out)
    run.map("diffusion", lambda a, b: kernels.bilinear_rows(a, b, *args, *places), len(pattern))
    return pattern.with_data(np.maximum(out, 0))


def _spread(s: SparseRows, other: SparseRows, weight: float) -> SparseRows:
    """S + weight * other, on the pattern of both."""
    values = (weight * other.values).astype(np.float32)
    indptr, ids, merged = merge_rows(*_csr(s), other.indptr, other.indices, values)
    return SparseRows(indptr, ids, merged, s.n_columns)
