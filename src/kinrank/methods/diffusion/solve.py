"""Solutions on a graph for many right sides, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.kernels import lanes as kernels
from kinrank.kernels.lanes import LANES
from kinrank.types import Floats, SparseRows

Solver = Callable[[SparseRows, Floats, Floats], None]


@dataclass(frozen=True, eq=False)
class System:
    """A symmetric matrix, and what is done to vectors with it."""

    s: SparseRows
    solve: Solver

    def solutions(self, start: SparseRows, low: int, high: int, first: int = 0) -> Floats:
        """For the right sides in rows [low, high) of ``start``, from column ``first`` on."""
        n = len(self.s)
        out = np.empty((high - low, n - first), np.float32)
        work = np.empty((3, n, LANES), np.float32)
        for begin in range(low, high, LANES):
            end = min(begin + LANES, high)
            x = np.zeros((n, LANES), np.float32)
            part = slice(start.indptr[begin], start.indptr[end])
            lane = np.repeat(np.arange(end - begin), start.lengths[begin:end])
            x[start.indices[part], lane] = start.values[part]
            self.solve(self.s, x, work)
            out[begin - low : end - low] = x[first:, : end - begin].T
        return out


def by_conjugate_gradients(alpha: float, steps: int, tol: float) -> Solver:
    """(I - alpha S)^-1 applied in place, by at most ``steps`` of conjugate gradients."""

    def solve(s: SparseRows, x: Floats, work: Floats) -> None:
        args = (s.indptr, s.indices, s.values, np.float32(alpha))
        kernels.conjugate_gradients(*args, x, steps, tol, work)

    return solve


def by_series(series: npt.NDArray[np.float64]) -> Solver:
    """The sum of series[t] T_t(S), Chebyshev polynomials, applied in place."""
    coefficients = np.zeros(max(len(series), 2), np.float32)
    coefficients[: len(series)] = series

    def solve(s: SparseRows, x: Floats, work: Floats) -> None:
        kernels.chebyshev(s.indptr, s.indices, s.values, coefficients, x, work)

    return solve


def unit_starts(n_queries: int, n: int) -> SparseRows:
    """Row i is the i-th unit vector."""
    ptr, ids = np.arange(n_queries + 1, dtype=np.int64), np.arange(n_queries, dtype=np.int32)
    return SparseRows(ptr, ids, None, n)
