"""Sparse rows after a change of the gallery: what it leaves alone is kept, the rest is put anew.

Rows that stay keep their order and move up; new rows come behind them. So a row has an old number,
its place in the state before the change, and a new one, its place after it. The rows of a stage of
CAS are brought up to date in three steps:

    moved = MovedRows.of(old_rows, change)       under new numbers, new rows empty
    rows = moved.rows_to_compute(dirty)          those whose inputs changed, and incomplete ones
    patched = moved.put(rows, computed)          with these rows, and which of them really differ
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.index.state import EncodingColumns
from kinrank.kernels import change as kernels
from kinrank.kernels.divergence import row_norms
from kinrank.kernels.measures import entropies
from kinrank.kernels.records import Columns
from kinrank.parallel import Out, Runner
from kinrank.stages.layout import Layout
from kinrank.stages.sparse import take, transposed
from kinrank.types import Floats, Ints, Longs, SparseRows

Mask: TypeAlias = npt.NDArray[np.bool_]

# Entries of a stage that differ by no more leave every distance as it is, to five digits and more.
_NEGLIGIBLE = 1e-7


@dataclass(frozen=True, eq=False)
class Change:
    """Which rows go and which come.

    kept : (n_old,) whether an old row stays
    order : (n_new,) int32, the index of each row after the change, by which ties go
        (``index.state``)
    vectors : (n_new, d) float32, of all rows after the change
    """

    kept: Mask
    order: Ints
    vectors: Floats

    @cached_property
    def position(self) -> Ints:
        """(n_new,) int32, the inverse of ``order``: the new number of the row of each index."""
        return Layout.of(self.order).position

    @cached_property
    def n_kept(self) -> int:
        """How many rows stay; they are the first of the new ones."""
        return int(self.kept.sum())

    @cached_property
    def new_numbers(self) -> Ints:
        """(n_old,) int32, the new number of each old row; -1 if it goes."""
        return np.where(self.kept, np.cumsum(self.kept) - 1, -1).astype(np.int32)

    @cached_property
    def old_numbers(self) -> Ints:
        """(n_new,) int32, the old number of each new row; -1 if it comes."""
        numbers = np.full(len(self.order), -1, np.int32)
        numbers[: self.n_kept] = np.flatnonzero(self.kept)
        return numbers

    @cached_property
    def removed(self) -> Ints:
        """The old numbers of the rows that go, ascending."""
        return np.flatnonzero(~self.kept).astype(np.int32)

    def renumbered(self, rows: Ints) -> Ints:
        """An array of old numbers as new ones; -1 stays, and stands for rows that go."""
        return np.where(rows >= 0, self.new_numbers[rows], np.int32(-1))


class PatchedRows(NamedTuple):
    """The rows of a stage after a change; is_changed : (n_new,) which are not what they were."""

    rows: SparseRows
    is_changed: Mask


class MovedRows(NamedTuple):
    """The rows of a stage under their new numbers, before any is computed again.

    rows : new rows are empty, and entries in columns that went are missing
    is_incomplete : (n_new,) which rows are new, or lost an entry with a column that went
    """

    rows: SparseRows
    is_incomplete: Mask

    @classmethod
    def of(cls, old_rows: SparseRows, change: Change) -> MovedRows:
        """From the rows before the change, (n_old, n_old)."""
        rows, lost_entry = moved_rows(old_rows, change)
        is_incomplete = lost_entry.copy()
        is_incomplete[change.n_kept :] = True
        return cls(rows, is_incomplete)

    def rows_to_compute(self, is_dirty: Mask) -> Ints:
        """Rows whose inputs changed (``is_dirty``), and incomplete ones; ascending."""
        return np.flatnonzero(is_dirty | self.is_incomplete).astype(np.int32)

    def put(self, rows: Ints, computed: SparseRows) -> PatchedRows:
        """With rows that were computed; those that came out as they were do not count as changed.

        rows : their numbers, ascending; computed : these rows, (len(rows), n_new)
        """
        is_changed = np.zeros(len(self.rows), np.bool_)
        if len(rows) == 0:
            return PatchedRows(self.rows, is_changed)
        is_changed[rows] = self.is_incomplete[rows] | differing_rows(
            take(self.rows, rows), computed
        )
        return PatchedRows(with_rows(self.rows, rows, computed), is_changed)


def with_rows(matrix: SparseRows, rows: Ints, replacements: SparseRows) -> SparseRows:
    """The matrix with the rows ``rows``, ascending, replaced by those of ``replacements``."""
    ptr, ids, data = kernels.put_rows(*matrix.csr, rows, *replacements.csr)
    return SparseRows(ptr, ids, None if matrix.data is None else data, matrix.n_columns)


def moved_rows(matrix: SparseRows, change: Change) -> tuple[SparseRows, Mask]:
    """A square matrix under new numbers, (n_new, n_new), new rows empty.

    Returns it, and (n_new,) which rows lost an entry with a column that went.
    """
    n = len(change.order)
    n_kept = change.n_kept
    if n_kept == len(matrix):  # none goes: new rows come behind
        ptr = np.concatenate([matrix.indptr, np.full(n - n_kept, matrix.indptr[-1])])
        return SparseRows(ptr, matrix.indices, matrix.data, n), np.zeros(n, np.bool_)
    lengths, ids, data, lost_entry = kernels.moved_rows(
        *matrix.csr, change.new_numbers, change.old_numbers
    )
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return SparseRows(ptr, ids, None if matrix.data is None else data, n), lost_entry


def differing_rows(a: SparseRows, b: SparseRows, tolerance: float = _NEGLIGIBLE) -> Mask:
    """Which rows of two matrices of one shape differ by more than ``tolerance`` in some entry."""
    differs: Mask = kernels.differing_rows(*a.csr, *b.csr, a.n_columns, np.float32(tolerance))
    return differs


def rows_that_hold(is_marked: Mask, rows: SparseRows | npt.NDArray[Any]) -> Mask:
    """Which rows have an entry in a marked column.

    is_marked : (n_columns,)
    rows : a sparse matrix, or lists of column numbers (n, k), of which -1 is the last column
    """
    if not isinstance(rows, SparseRows):
        return np.asarray(is_marked[rows].any(axis=1))
    holds: Mask = kernels.reached_rows(is_marked, rows.indptr, rows.indices)
    return holds


def rows_that_lost_an_entry(columns: SparseRows, change: Change) -> Mask:
    """(n_new,) which rows had an entry in a column that goes; columns : the matrix by columns."""
    rows = change.new_numbers[take(columns, change.removed).indices]
    lost_entry = np.zeros(len(change.order), np.bool_)
    lost_entry[rows[rows >= 0]] = True
    return lost_entry


def encoding_with_rows(
    old: EncodingColumns, change: Change, rows: Ints, computed: SparseRows, run: Runner
) -> EncodingColumns:
    """The encodings F' after a change, which are kept by columns.

    old : before the change
    rows : new numbers of the rows that were computed, ascending, with all
        ``rows_that_lost_an_entry`` among them
    computed : these rows of F', (len(rows), n_new)
    """
    n = len(change.order)
    is_computed = np.zeros(n, np.bool_)
    is_computed[rows] = True
    by_column = transposed(computed, run)
    by_column = SparseRows(by_column.indptr, rows[by_column.indices], by_column.data, n)
    renumbering = (change.new_numbers, change.old_numbers, is_computed)
    ptr: Longs = kernels.column_lengths(*old.columns.csr[:2], *renumbering, by_column.indptr)
    before = Columns(*old.columns.csr, old.entropies)
    after = Columns(*by_column.csr, entropies(by_column.values))
    ids, values, entropies_of_values = run.fill(
        "propagation",
        kernels.exchange_rows,
        (before, *renumbering, after, ptr),
        n,
        Out(np.int32, indptr=ptr),
        Out(np.float32, indptr=ptr),
        Out(np.float32, indptr=ptr),
    )
    norms = np.zeros(n)
    norms[: change.n_kept] = old.norms[change.kept]
    norms[rows] = row_norms(computed.indptr, computed.values)
    return EncodingColumns(SparseRows(ptr, ids, values, n), entropies_of_values, norms)
