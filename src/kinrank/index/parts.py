"""Sparse rows of which some are exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.graph.matrix import transposed
from kinrank.index.lists import Change, Mask
from kinrank.index.state import csr
from kinrank.kernels import online_edit as kernels
from kinrank.kernels.divergence import entropies, row_norms
from kinrank.parallel import Out, Runner
from kinrank.types import Floats, Ints, Longs, SparseRows


def take(rows: SparseRows, wanted: Ints) -> SparseRows:
    """Some of the rows."""
    return _as(rows, *kernels.take_rows(*csr(rows), wanted))


def put(rows: SparseRows, where: Ints, part: SparseRows) -> SparseRows:
    """The rows with some of them, ascending, exchanged."""
    return _as(rows, *kernels.put_rows(*csr(rows), where, *csr(part)))


def moved_rows(rows: SparseRows, change: Change) -> tuple[SparseRows, Mask]:
    """The rows under their new numbers, new ones empty; and which lost an entry."""
    n, kept = len(change.names), change.n_kept
    if kept == len(rows):  # none goes: new rows come behind
        ptr = np.concatenate([rows.indptr, np.full(n - kept, rows.indptr[-1])])
        return SparseRows(ptr, rows.indices, rows.data, n), np.zeros(n, np.bool_)
    lengths, ids, data, lost = kernels.moved_rows(*csr(rows), change.moved, _origin(change))
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return SparseRows(ptr, ids, None if rows.data is None else data, n), lost


def differs(a: SparseRows, b: SparseRows, limit: float) -> Mask:
    """Which rows differ by more than ``limit`` in some entry."""
    found: Mask = kernels.differing_rows(*csr(a), *csr(b), a.n_columns, np.float32(limit))
    return found


def reached(mask: Mask, rows: SparseRows | npt.NDArray[Any]) -> Mask:
    """Which rows hold a column that is marked; rows : sparse, or (n, k) column numbers."""
    if isinstance(rows, SparseRows):
        found: Mask = kernels.reached_rows(mask, rows.indptr, rows.indices)
    else:
        found = mask[rows].any(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Columns:
    """F' by columns, x log2 x of its entries, and the norms of its rows."""

    columns: SparseRows
    entropies: Floats
    norms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, prime: SparseRows, run: Runner) -> Columns:
        """All of them, from F' by rows."""
        columns = transposed(prime, run)
        return cls(columns, entropies(columns.values), row_norms(prime.indptr, prime.values))

    def lost(self, change: Change) -> Mask:
        """Which of the rows after a change had an entry in a column that goes."""
        out = np.zeros(len(change.kept), np.bool_)
        for column in np.flatnonzero(~change.kept):
            out[self.columns.indices[slice(*self.columns.indptr[column : column + 2])]] = True
        new = np.zeros(len(change.names), np.bool_)
        new[: change.n_kept] = out[change.kept]
        return new

    def exchanged(self, change: Change, where: Ints, part: SparseRows, run: Runner) -> Columns:
        """After a change that gives the rows at ``where`` other entries, those of ``part``.

        where : ascending; all that are ``lost`` are among them
        """
        n, which = len(change.names), np.zeros(len(change.names), np.bool_)
        which[where] = True
        new = transposed(part, run)
        new = SparseRows(new.indptr, where[new.indices], new.data, n)
        places = (change.moved, _origin(change), which)
        old, own = csr(self.columns), csr(new)
        ptr: Longs = kernels.column_lengths(*old[:2], *places, new.indptr)
        outs = (Out(np.int32, indptr=ptr), *(Out(np.float32, indptr=ptr) for _ in range(2)))
        args = (*old, self.entropies, *places, *own, entropies(new.values), ptr)
        ids, data, other = run.fill("propagation", kernels.exchange_rows, args, n, *outs)
        norms = np.zeros(n)
        norms[: change.n_kept] = self.norms[change.kept]
        norms[where] = row_norms(part.indptr, part.values)
        return Columns(SparseRows(ptr, ids, data, n), other, norms)


def _origin(change: Change) -> Ints:
    """(n,) which row each was; -1 for a new one."""
    origin = np.full(len(change.names), -1, np.int32)
    origin[: change.n_kept] = np.flatnonzero(change.kept)
    return origin


def _as(rows: SparseRows, ptr: Longs, ids: Ints, data: Floats) -> SparseRows:
    return SparseRows(ptr, ids, None if rows.data is None else data, rows.n_columns)
