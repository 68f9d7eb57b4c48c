"""Sparse matrices (``SparseRows``): transposed, added, multiplied, normalised.

``run`` computes blocks of rows on threads, or in files (``kinrank.parallel.Runner``).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels import lists, rows
from kinrank.kernels.cross import product_sum_rows
from kinrank.kernels.lanes import multiply_one
from kinrank.kernels.overlay import NO_GROUPS, free_workspace, plain_rows
from kinrank.kernels.product import product_rows
from kinrank.kernels.rows import gather_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.stages.layout import Layout
from kinrank.types import Floats, Ints, Longs, SparseRows

Doubles: TypeAlias = npt.NDArray[np.float64]


def take(a: SparseRows, wanted: Ints) -> SparseRows:
    """Rows ``wanted`` of A, in that order; wanted : (m,) int32."""
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
        return columns_as_rows(a, 0, wanted, run)
    starts = rows.column_starts(0, a.indptr, a.indices, wanted)
    args = (a.indptr, a.indices, starts)
    out = Out(np.int32, indptr=starts)
    ids = _by_thread(run, a.n_columns).fill("graph", rows.fill_pattern, args, a.n_columns, out)
    return SparseRows(starts, ids, None, len(a))


def columns_as_rows(
    a: SparseRows, first: int, wanted: npt.NDArray[np.bool_], run: Runner
) -> SparseRows:
    """A by columns: row c of the result holds the values of column c, for the wanted columns.

    first : only rows of A from this one on count; wanted : (n_columns,) bool, the others are empty
    """
    starts = rows.column_starts(first, a.indptr, a.indices, wanted)
    ids, data = _by_thread(run, a.n_columns).fill(
        "graph",
        rows.fill_columns,
        (first, a.indptr, a.indices, a.values, wanted, starts),
        a.n_columns,
        Out(np.int32, indptr=starts),
        Out(np.float32, indptr=starts),
    )
    return SparseRows(starts, ids, data, len(a))


def _by_thread(run: Runner, n: int) -> Runner:
    """The runner with one block of ``n`` for each thread: every block goes through all entries."""
    return run.cut(-(-n // run.n_workers))


def half_sum(a: SparseRows, run: Runner = ALONE) -> SparseRows:
    """(A + A^T) / 2; rows of A ascending."""
    return added(a, transposed(a, run), run, 0.5)


def added(a: SparseRows, b: SparseRows, run: Runner, scale: float = 1.0) -> SparseRows:
    """scale (A + B); rows of both ascending."""
    args = (*a.csr, *b.csr, np.float32(scale), np.float32(scale))
    return run.rows("graph", rows.merge_rows, args, len(a), a.n_columns)


def sorted_rows(a: SparseRows, run: Runner) -> SparseRows:
    """A with the columns of each row ascending."""
    ids, data = run.fill(
        "graph",
        lists.sorted_rows,
        (a.indptr, a.indices, a.values),
        len(a),
        Out(np.int32, indptr=a.indptr),
        Out(np.float32, indptr=a.indptr),
    )
    return SparseRows(a.indptr, ids, data, a.n_columns)


def times(a: SparseRows, x: Doubles) -> Doubles:
    """A x, (len(a),) float64; x : (n_columns,)."""
    out = np.empty(len(a))
    multiply_one(*a.csr, x, out)
    return out


def row_sums(a: SparseRows, run: Runner) -> Doubles:
    """The sum of each row, (len(a),) float64."""
    sums: Doubles = run.fill("graph", lists.row_sums, (a.indptr, a.values), len(a), Out(np.float64))
    return sums


def normalized(w: SparseRows, run: Runner) -> SparseRows:
    """D^-1/2 W D^-1/2, D the row sums, on the pattern of W; rows without weight become 0."""
    degree = row_sums(w, run)
    factors = np.zeros(len(w))
    np.divide(1.0, np.sqrt(degree), out=factors, where=degree > 0)
    args = (w.indptr, w.indices, w.values, factors)
    out = Out(np.float32, indptr=w.indptr)
    return w.with_data(run.fill("graph", lists.scaled_rows, args, len(w), out))


def unit_rows(f: SparseRows, run: Runner = ALONE) -> SparseRows:
    """Rows of L1 norm 1; a row without weight becomes uniform on its pattern."""
    out = Out(np.float32, indptr=f.indptr)
    return f.with_data(run.fill("rows", lists.unit_rows, (f.indptr, f.values), len(f), out))


def product(
    stage: str,
    a: SparseRows,
    b: SparseRows,
    run: Runner,
    keep: int = 0,
    layout: Layout | None = None,
) -> SparseRows:
    """A B with rows of L1 norm 1, each cut to its ``keep`` largest entries (0: all).

    stage : under which progress is reported
    layout : the layout of the columns: ties go to the column with the lower old number; None where
        they are in their old order
    """
    layout = layout or Layout.identity(b.n_columns)
    args = (*a.csr, *b.csr, b.n_columns, min(keep, b.n_columns), layout.order, layout.position)
    return run.rows(stage, _product_rows, args, len(a), b.n_columns)


def product_sum(
    stage: str, pairs: list[tuple[SparseRows, SparseRows]], n: int, run: Runner
) -> SparseRows:
    """The first ``n`` rows of the sum of products A B, not normalised; columns in no order."""
    left = tuple(a.csr for a, _ in pairs)
    right = tuple(b.csr for _, b in pairs)
    n_columns = pairs[0][1].n_columns
    return run.rows(stage, product_sum_rows, (left, right, n_columns), n, n_columns)


def _product_rows(
    low: int,
    high: int,
    a_ptr: Longs,
    a_ids: Ints,
    a: Floats,
    b_ptr: Longs,
    b_ids: Ints,
    b: Floats,
    n: int,
    keep: int,
    order: Ints,
    position: Ints,
) -> tuple[Longs, Ints, Floats]:
    """``product`` of rows [low, high): what ``run`` calls for each block."""
    stored = plain_rows(b_ptr, b_ids, b)
    with free_workspace(n) as space:
        indptr, ids, data = product_rows(
            low, high, a_ptr, a_ids, a, NO_GROUPS, stored, keep, order, position, space
        )
    return np.diff(indptr), ids, data
