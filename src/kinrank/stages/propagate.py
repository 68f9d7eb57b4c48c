"""Enhancement by the neighbours' rows, and propagation over the whole graph."""

from __future__ import annotations

import numpy as np

from kinrank.graph.build import transposed
from kinrank.graph.layout import Layout
from kinrank.parallel import Runner
from kinrank.stages.product import product
from kinrank.types import Ints, SparseRows


def enhance(
    f: SparseRows, xi: SparseRows, lists: Ints, k: int, kappa: float, run: Runner
) -> SparseRows:
    """(kappa mean of the rows of xi[i] + mean of the rows of N(i, k)) / (kappa + 1).

    f : of all rows; xi, lists : of all or of some, whose rows are the answer
    """
    n = len(xi)
    sizes = xi.lengths
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(sizes + k, out=ptr[1:])
    ids, weights = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
    listed = ptr[:-1, None] + np.arange(k)
    ids[listed], weights[listed] = lists[:, :k], 1 / k
    owner = np.repeat(np.arange(n), sizes)
    favoured = ptr[owner] + k + np.arange(xi.nnz) - xi.indptr[owner]
    ids[favoured], weights[favoured] = xi.indices, kappa / sizes[owner]
    return product("enhancement", SparseRows(ptr, ids, weights, len(f)), f, run)


def propagate(
    f: SparseRows, keep: int, scheme: str, run: Runner, layout: Layout | None = None
) -> SparseRows:
    """P from F, cut to its ``keep`` largest entries per row, and one more step; L1 norm 1.

    scheme : "transpose" is P = F^T F and F' = P F; "square" is P = F F and F' = P P
    """
    if scheme == "transpose":
        p = product("propagation", transposed(f), f, run, keep, layout)
        return product("propagation", p, f, run)
    p = product("propagation", f, f, run, keep, layout)
    return product("propagation", p, p, run)
