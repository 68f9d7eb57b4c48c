"""Enhancement: every row of F becomes a mean of its neighbours' rows."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.lists import enhancing_rows
from kinrank.parallel import Out, Runner
from kinrank.stages.sparse import product
from kinrank.types import Ints, SparseRows


def enhance(
    f: SparseRows, confident: SparseRows, lists: Ints, k: int, kappa: float, run: Runner
) -> SparseRows:
    """(kappa mean of the rows of xi[i] + mean of the rows of N(i, k)) / (kappa + 1).

    f : smoothed F of all rows
    confident, lists : xi and the lists of nearest rows, (n, K), of all rows or of some, whose rows
        are returned; N(i, k) are the first k of a list, the row itself counted
    kappa : the weight of xi; run : computes blocks of rows on threads, or in files
    """
    n = len(confident)
    indptr = confident.indptr + k * np.arange(n + 1)
    ids, weights = run.fill(
        "enhancement",
        enhancing_rows,
        (lists, k, float(kappa), confident.indptr, confident.indices, indptr),
        n,
        Out(np.int32, indptr=indptr),
        Out(np.float32, indptr=indptr),
    )
    means = SparseRows(indptr, ids, weights, len(f))
    return product("enhancement", means, f, run)
