"""Sparse rows of which some are exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.index.lists import Change, Mask
from kinrank.index.state import csr
from kinrank.kernels.online_edit import splice
from kinrank.types import Ints, Longs, SparseRows


def take(rows: SparseRows, wanted: Ints) -> SparseRows:
    """Some of the rows."""
    columns = np.arange(rows.n_columns, dtype=np.int32)
    found, _ = _splice(rows, columns, wanted, rows, np.full(len(wanted), -1, np.int32))
    return found


def put(rows: SparseRows, where: Ints, part: SparseRows) -> SparseRows:
    """The rows with some of them exchanged."""
    which = np.full(len(rows), -1, np.int32)
    which[where] = np.arange(len(where), dtype=np.int32)
    columns = np.arange(rows.n_columns, dtype=np.int32)
    found, _ = _splice(rows, columns, np.arange(len(rows), dtype=np.int32), part, which)
    return found


def moved_rows(rows: SparseRows, change: Change) -> tuple[SparseRows, Mask]:
    """The rows under their new numbers, new ones empty; and which lost an entry."""
    n = len(change.names)
    origin = np.full(n, -1, np.int32)
    origin[: change.n_kept] = np.flatnonzero(change.kept)
    found, lost = _splice(rows, change.moved, origin, rows, np.full(n, -1, np.int32))
    return SparseRows(found.indptr, found.indices, found.data, n), lost


def differs(a: SparseRows, b: SparseRows, limit: float) -> Mask:
    """Which rows differ by more than ``limit`` in some entry."""
    difference = abs(a.to_scipy() - b.to_scipy())
    largest = difference.max(axis=1).toarray().ravel()
    found: Mask = largest > limit
    return found


def reached(mask: Mask, rows: SparseRows | npt.NDArray[Any]) -> Mask:
    """Which rows hold a column that is marked; rows : sparse, or (n, k) column numbers."""
    if isinstance(rows, SparseRows):
        count = np.concatenate([[0], np.cumsum(mask[rows.indices])])
        found: Mask = count[rows.indptr[1:]] > count[rows.indptr[:-1]]
    else:
        found = mask[rows].any(axis=1)
    return found


def _splice(
    rows: SparseRows, columns: Ints, origin: Ints, part: SparseRows, which: Ints
) -> tuple[SparseRows, Mask]:
    found = splice(*csr(rows), columns, origin, *csr(part), which)
    lengths: Longs = found[0]
    ptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    data = None if rows.data is None else found[2]
    return SparseRows(ptr, found[1], data, rows.n_columns), found[3]
