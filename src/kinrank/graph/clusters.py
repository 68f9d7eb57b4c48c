"""Local clusters: which rows a row may share similarity with."""

from __future__ import annotations

import numpy as np

from kinrank.kernels import reciprocal as kernels
from kinrank.parallel import Runner
from kinrank.types import Ints, SparseRows


def nearest(lists: Ints, k: int) -> SparseRows:
    """N(i, k) as a pattern; lists : (n, K), the row itself first."""
    n = len(lists)
    ids = np.sort(lists[:, :k], axis=1)
    return SparseRows(np.arange(0, n * k + 1, k, dtype=np.int64), ids.ravel(), None, n)


def reciprocal(lists: Ints, k: int, run: Runner) -> SparseRows:
    """R(i, k) = {j in N(i, k) with i in N(j, k)}."""
    n = len(lists)
    return run.rows("clusters", lambda a, b: kernels.reciprocal_rows(a, b, lists, k), n, n)


def expanded(lists: Ints, k: int, half: int, run: Runner) -> SparseRows:
    """R*(i, k): R(i, k) joined with each R(c, half), c in R(i, k), that lies mostly inside it.

    Mostly is more than two thirds of R(c, half), measured on R(i, k) before any joining.
    """
    full, part = reciprocal(lists, k, run), reciprocal(lists, half, run)
    args = (full.indptr, full.indices, part.indptr, part.indices)
    n = len(lists)
    return run.rows("clusters", lambda a, b: kernels.expanded_rows(a, b, *args), n, n)
