"""Enhancement by the neighbours' rows, and propagation over the whole graph."""

from __future__ import annotations

import numpy as np

from kinrank.graph.build import transposed
from kinrank.kernels.rows import product_rows
from kinrank.parallel import Runner
from kinrank.types import Ints, SparseRows


def enhance(
    f: SparseRows, xi: SparseRows, lists: Ints, k: int, kappa: float, run: Runner
) -> SparseRows:
    """(kappa mean of the rows of xi[i] + mean of the rows of N(i, k)) / (kappa + 1)."""
    n = len(f)
    sizes = xi.lengths
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(sizes + k, out=ptr[1:])
    ids, weights = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
    listed = ptr[:-1, None] + np.arange(k)
    ids[listed], weights[listed] = lists[:, :k], 1 / k
    owner = np.repeat(np.arange(n), sizes)
    favoured = ptr[owner] + k + np.arange(xi.nnz) - xi.indptr[owner]
    ids[favoured], weights[favoured] = xi.indices, kappa / sizes[owner]
    return _product(SparseRows(ptr, ids, weights, n), f, 0, "enhancement", run)


def propagate(f: SparseRows, keep: int, scheme: str, run: Runner) -> SparseRows:
    """P from F, cut to its ``keep`` largest entries per row, and one more step; L1 norm 1.

    scheme : "transpose" is P = F^T F and F' = P F; "square" is P = F F and F' = P P
    """
    if scheme == "transpose":
        p = _product(transposed(f), f, keep, "propagation", run)
        return _product(p, f, 0, "propagation", run)
    p = _product(f, f, keep, "propagation", run)
    return _product(p, p, 0, "propagation", run)


def _product(a: SparseRows, b: SparseRows, keep: int, name: str, run: Runner) -> SparseRows:
    args = (a.indptr, a.indices, a.values, b.indptr, b.indices, b.values, b.n_columns, keep)
    return run.rows(name, lambda low, high: product_rows(low, high, *args), len(a), b.n_columns)
