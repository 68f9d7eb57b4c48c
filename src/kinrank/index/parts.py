"""Sparse rows of which some are exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.index.lists import Change, Mask
from kinrank.kernels import change as kernels
from kinrank.kernels.query import gather_rows
from kinrank.types import Floats, Ints, Longs, SparseRows


def take(rows: SparseRows, wanted: Ints) -> SparseRows:
    """Some of the rows."""
    return _as(rows, *gather_rows(wanted, wanted, *rows.csr, *rows.csr))


def put(rows: SparseRows, where: Ints, part: SparseRows) -> SparseRows:
    """The rows with some of them, ascending, exchanged."""
    return _as(rows, *kernels.put_rows(*rows.csr, where, *part.csr))


def moved_rows(rows: SparseRows, change: Change) -> tuple[SparseRows, Mask]:
    """The rows under their new numbers, new ones empty; and which lost an entry."""
    n, kept = len(change.names), change.n_kept
    if kept == len(rows):  # none goes: new rows come behind
        ptr = np.concatenate([rows.indptr, np.full(n - kept, rows.indptr[-1])])
        return SparseRows(ptr, rows.indices, rows.data, n), np.zeros(n, np.bool_)
    lengths, ids, data, lost = kernels.moved_rows(*rows.csr, change.moved, origin_of(change))
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return SparseRows(ptr, ids, None if rows.data is None else data, n), lost


def differs(a: SparseRows, b: SparseRows, limit: float) -> Mask:
    """Which rows differ by more than ``limit`` in some entry."""
    found: Mask = kernels.differing_rows(*a.csr, *b.csr, a.n_columns, np.float32(limit))
    return found


def reached(mask: Mask, rows: SparseRows | npt.NDArray[Any]) -> Mask:
    """Which rows hold a column that is marked; rows : sparse, or (n, k) column numbers."""
    if isinstance(rows, SparseRows):
        found: Mask = kernels.reached_rows(mask, rows.indptr, rows.indices)
    else:
        found = mask[rows].any(axis=1)
    return found


def origin_of(change: Change) -> Ints:
    """(n,) which row each was; -1 for a new one."""
    origin = np.full(len(change.names), -1, np.int32)
    origin[: change.n_kept] = np.flatnonzero(change.kept)
    return origin


def _as(rows: SparseRows, ptr: Longs, ids: Ints, data: Floats) -> SparseRows:
    return SparseRows(ptr, ids, None if rows.data is None else data, rows.n_columns)
