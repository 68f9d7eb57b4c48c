"""Enhancement by the neighbours' rows."""

from __future__ import annotations

import numpy as np

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
