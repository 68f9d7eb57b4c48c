"""Sparse matrices: transposed, made symmetric, normalised."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels import lists, rows
from kinrank.kernels.lanes import multiply_one
from kinrank.kernels.rows import gather_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.types import Ints, SparseRows

Doubles: TypeAlias = npt.NDArray[np.float64]


def take(a: SparseRows, wanted: Ints) -> SparseRows:
    """The wanted rows of A, in that order."""
    ptr, ids, data = gather_rows(wanted, wanted, *a.csr, *a.csr)
    return SparseRows(ptr, ids, None if a.data is None else data, a.n_columns)


def placed(a: SparseRows, rows: Ints) -> SparseRows:
    """A square matrix that has the rows of A at ``rows``, ascending, and no others."""
    lengths = np.zeros(a.n_columns, np.int64)
    lengths[rows] = a.lengths
    return SparseRows(np.concatenate([[0], np.cumsum(lengths)]), a.indices, a.data, a.n_columns)


def transposed(a: SparseRows, run: Runner = ALONE) -> SparseRows:
    """A^T."""
    wanted = np.ones(a.n_columns, np.bool_)
    if a.data is not None:
        return columns(a, 0, wanted, run)
    starts = rows.column_starts(0, a.indptr, a.indices, wanted)
    args = (a.indptr, a.indices, starts)
    out = Out(np.int32, indptr=starts)
    ids = _by_thread(run, a.n_columns).fill("graph", rows.fill_pattern, args, a.n_columns, out)
    return SparseRows(starts, ids, None, len(a))


def columns(a: SparseRows, first: int, wanted: npt.NDArray[np.bool_], run: Runner) -> SparseRows:
    """The wanted columns of A as rows, from its row ``first`` on; the others are empty."""
    own = (a.indptr, a.indices)
    starts = rows.column_starts(first, *own, wanted)
    args = (first, *own, a.values, wanted, starts)
    outs = (Out(np.int32, indptr=starts), Out(np.float32, indptr=starts))
    n = a.n_columns
    ids, data = _by_thread(run, n).fill("graph", rows.fill_columns, args, n, *outs)
    return SparseRows(starts, ids, data, len(a))


def _by_thread(run: Runner, n: int) -> Runner:
    """Every block goes through all entries: one for each thread."""
    return run.cut(-(-n // run.threads))


def half_sum(a: SparseRows, run: Runner = ALONE) -> SparseRows:
    """(A + A^T) / 2; rows of A ascending."""
    return added(a, transposed(a, run), run, 0.5)


def added(a: SparseRows, b: SparseRows, run: Runner, scale: float = 1.0) -> SparseRows:
    """scale (A + B); rows of both ascending."""
    args = (*a.csr, *b.csr, np.float32(scale), np.float32(scale))
    return run.rows("graph", rows.merge_rows, args, len(a), a.n_columns)


def sorted_rows(a: SparseRows, run: Runner) -> SparseRows:
    """The same with the columns of each row ascending."""
    outs = (Out(np.int32, indptr=a.indptr), Out(np.float32, indptr=a.indptr))
    args = (a.indptr, a.indices, a.values)
    ids, data = run.fill("graph", lists.sorted_rows, args, len(a), *outs)
    return SparseRows(a.indptr, ids, data, a.n_columns)


def times(a: SparseRows, x: Doubles) -> Doubles:
    """A x, in float64."""
    out = np.empty(len(a))
    multiply_one(*a.csr, x, out)
    return out


def row_sums(a: SparseRows, run: Runner) -> Doubles:
    """The sum of each row."""
    args, out = (a.indptr, a.values), Out(np.float64)
    sums: Doubles = run.fill("graph", lists.row_sums, args, len(a), out)
    return sums


def normalized(w: SparseRows, run: Runner) -> SparseRows:
    """D^-1/2 W D^-1/2, D the row sums; a row without weight stays empty of it."""
    degree = row_sums(w, run)
    root = np.zeros(len(w))
    np.divide(1.0, np.sqrt(degree), out=root, where=degree > 0)
    args = (w.indptr, w.indices, w.values, root)
    out = Out(np.float32, indptr=w.indptr)
    return w.with_data(run.fill("graph", lists.scaled_rows, args, len(w), out))
