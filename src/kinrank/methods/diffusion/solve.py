"""Solutions on a graph for many right sides, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.kernels import lanes as kernels
from kinrank.kernels.lanes import LANES
from kinrank.types import Floats, Longs, SparseRows

Solver = Callable[[SparseRows, Floats, Floats], None]


@dataclass(frozen=True, eq=False)
class System:
    """A symmetric matrix whose rows were put in an order that keeps neighbours together.

    Products with it then find more of what they need in the caches.

    s : the matrix in the new order; place : where each row went; solve : what is done to vectors
    """

    s: SparseRows
    place: Longs
    solve: Solver

    @classmethod
    def of(cls, s: SparseRows, solve: Solver) -> System:
        """Choose the order (reverse Cuthill-McKee)."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        matrix = csr_matrix(s.to_scipy())
        order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
        place = np.empty(len(s), np.int64)
        place[order] = np.arange(len(s))
        moved = matrix[order][:, order]
        moved.sort_indices()
        rows = SparseRows(
            moved.indptr.astype(np.int64), moved.indices.astype(np.int32), moved.data, len(s)
        )
        return cls(rows, place, solve)

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
            x[self.place[start.indices[part]], lane] = start.values[part]
            self.solve(self.s, x, work)
            out[begin - low : end - low] = x[self.place[first:], : end - begin].T
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
