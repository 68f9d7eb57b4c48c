"""Local clusters: which rows a row may share similarity with."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.kernels import reciprocal as kernels
from kinrank.kernels.lists import sorted_lists
from kinrank.kernels.overlay import NO_GROUPS, lent_space, plain_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.types import Floats, Ints, Longs, SparseRows


def regular(ids: Ints, data: Floats | None, n_columns: int) -> SparseRows:
    """A matrix whose rows have the same number of entries; ids, data : (n, k).

    Entries of -1, which lists that are too short begin or end with, are left out.
    """
    n, k = ids.shape
    if k and (ids[:, 0].min() < 0 or ids[:, -1].min() < 0):
        filled = ids >= 0
        ptr = np.zeros(n + 1, np.int64)
        np.cumsum(filled.sum(axis=1), out=ptr[1:])
        return SparseRows(ptr, ids[filled], None if data is None else data[filled], n_columns)
    ptr = k * np.arange(n + 1, dtype=np.int64)
    return SparseRows(ptr, ids.reshape(-1), None if data is None else data.reshape(-1), n_columns)


def nearest(lists: Ints, k: int, run: Runner = ALONE) -> SparseRows:
    """N(i, k) as a pattern; lists : (n, K), the row itself first."""
    n = len(lists)
    k = min(k, lists.shape[1])
    ids = run.fill("clusters", sorted_lists, (lists, 0, k), n, Out(np.int32, k))
    return regular(ids, None, n)


def reciprocal(lists: Ints, k: int, run: Runner, rows: Ints | None = None) -> SparseRows:
    """R(i, k) = {j in N(i, k) with i in N(j, k)}; of all rows, or of those asked for."""
    n, k = len(lists), min(k, lists.shape[1])
    rows = np.arange(n, dtype=np.int32) if rows is None else rows
    return run.rows("clusters", _reciprocal_rows, (rows, lists, k), len(rows), n)


def expanded(lists: Ints, k: int, half: int, run: Runner) -> SparseRows:
    """R*(i, k): R(i, k) joined with each R(c, half), c in R(i, k), that lies mostly inside it.

    Mostly is more than two thirds of R(c, half), measured on R(i, k) before any joining.
    """
    return expand(reciprocal(lists, k, run), reciprocal(lists, half, run), run)


def expand(full: SparseRows, half: SparseRows, run: Runner) -> SparseRows:
    """R* from R(i, k), of all rows or of some, and R(i, half) of all."""
    args = (full.indptr, full.indices, half.indptr, half.indices)
    return run.rows("clusters", _expanded_rows, args, len(full), len(half))


def _reciprocal_rows(low: int, high: int, rows: Ints, lists: Ints, k: int) -> Any:
    over = (NO_GROUPS, rows[:0], lists[:0])
    with lent_space(len(lists)) as space:
        ptr, ids = kernels.reciprocal_rows(low, high, rows, NO_GROUPS, lists, *over, k, space)
    return ptr[1:] - ptr[:-1], ids


def _expanded_rows(
    low: int, high: int, ptr: Longs, members: Ints, half_ptr: Longs, half_members: Ints
) -> Any:
    half = plain_rows(half_ptr, half_members, np.empty(0, np.float32))
    with lent_space(len(half_ptr) - 1) as space:
        out_ptr, ids = kernels.expanded_rows(low, high, ptr, members, NO_GROUPS, half, space)
    return out_ptr[1:] - out_ptr[:-1], ids
