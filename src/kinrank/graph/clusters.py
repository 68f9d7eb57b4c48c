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


def reciprocal(lists: Ints, k: int, run: Runner, rows: Ints | None = None) -> SparseRows:
    """R(i, k) = {j in N(i, k) with i in N(j, k)}; of all rows, or of those asked for."""
    n = len(lists)
    if rows is not None:
        args = (rows, lists, k)
        return run.rows("clusters", lambda a, b: kernels.reciprocal_some(a, b, *args), len(rows), n)
    return run.rows("clusters", lambda a, b: kernels.reciprocal_rows(a, b, lists, k), n, n)


def expanded(lists: Ints, k: int, half: int, run: Runner) -> SparseRows:
    """R*(i, k): R(i, k) joined with each R(c, half), c in R(i, k), that lies mostly inside it.

    Mostly is more than two thirds of R(c, half), measured on R(i, k) before any joining.
    """
    return expand(reciprocal(lists, k, run), reciprocal(lists, half, run), run)


def expand(full: SparseRows, half: SparseRows, run: Runner) -> SparseRows:
    """R* from R(i, k), of all rows or of some, and R(i, half) of all."""
    args = (full.indptr, full.indices, half.indptr, half.indices)
    return run.rows(
        "clusters", lambda a, b: kernels.expanded_rows(a, b, *args), len(full), len(half)
    )
