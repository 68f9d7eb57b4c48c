"""Enhancement by the neighbours' rows, and propagation over the whole graph."""

from __future__ import annotations

import numpy as np

from kinrank.graph.layout import Layout
from kinrank.graph.matrix import transposed
from kinrank.kernels.lists import enhancing_rows
from kinrank.parallel import Out, Runner
from kinrank.stages.product import product
from kinrank.types import Ints, SparseRows


def enhance(
    f: SparseRows, xi: SparseRows, lists: Ints, k: int, kappa: float, run: Runner
) -> SparseRows:
    """(kappa mean of the rows of xi[i] + mean of the rows of N(i, k)) / (kappa + 1).

    f : of all rows; xi, lists : of all or of some, whose rows are the answer
    """
    n = len(xi)
    ptr = xi.indptr + k * np.arange(n + 1)
    args = (lists, k, float(kappa), xi.indptr, xi.indices, ptr)
    outs = (Out(np.int32, indptr=ptr), Out(np.float32, indptr=ptr))
    ids, weights = run.fill("enhancement", enhancing_rows, args, n, *outs)
    return product("enhancement", SparseRows(ptr, ids, weights, len(f)), f, run)


def propagate(
    f: SparseRows, keep: int, scheme: str, run: Runner, layout: Layout | None = None
) -> SparseRows:
    """P from F, cut to its ``keep`` largest entries per row, and one more step; L1 norm 1.

    scheme : "transpose" is P = F^T F and F' = P F; "square" is P = F F and F' = P P
    """
    if scheme == "transpose":
        p = product("propagation", transposed(f, run), f, run, keep, layout)
        return product("propagation", p, f, run)
    p = product("propagation", f, f, run, keep, layout)
    return product("propagation", p, p, run)
