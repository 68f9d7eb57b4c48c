"""Sparse rows: transposing, adding, looking up.

A sparse matrix is three arrays ``ptr, ids, values`` (CSR): row i has the columns
ids[ptr[i]:ptr[i + 1]], int32, and the float32 values in the same places. A pattern has no values.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``helper`` and
``inner`` by kernels (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel


@helper
def enlarge(array, used, needed):
    """A longer copy of an array that is too short, (size,) of any type.

    used : how many entries are copied; needed : how many it must have room for; it gets at least
        twice its length
    """
    longer = np.empty(max(2 * array.shape[0], needed), array.dtype)
    for t in range(used):
        longer[t] = array[t]
    return longer


@inner
def begin_sums(columns, stamp, count, seen, total, touched):
    """Note columns that are not yet among those of a sum of sparse rows, and set their sums to 0.

    columns : (size,) int32, of the row that is added next
    seen : (n,) int32, equal to ``stamp`` for the columns that are noted
    touched : (n + 1,) int32, these columns; ``count`` of them before, more after
    total : (n,) float64, the sum by column
    Without a branch, which could not be foreseen: what is written behind the last of ``touched``
    counts only if the column is new.
    Returns the new ``count``.
    """
    old_count = count
    for t in range(columns.shape[0]):
        column = np.uint32(columns[t])
        touched[np.uint64(count)] = columns[t]
        count += seen[column] != stamp
        seen[column] = stamp
    for t in range(old_count, count):
        total[touched[t]] = 0.0
    return count


@inner
def sort_ids(ids, low, high):
    """Sort ids[low:high] in place, ascending (shell sort: rows are short)."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for t in range(low + gap, high):
            key = ids[t]
            slot = t
            while slot >= low + gap and ids[slot - gap] > key:
                ids[slot] = ids[slot - gap]
                slot -= gap
            ids[slot] = key
        gap //= 3


@kernel
def column_starts(first, ptr, ids, wanted):
    """Where each column begins when a matrix is stored by columns.

    first : only rows from this one on count
    ptr, ids : the pattern of the matrix; wanted : (n_columns,) bool, other columns are left empty
    Returns (n_columns + 1,) int64.
    """
    starts = np.zeros(wanted.shape[0] + 1, np.int64)
    for e in range(ptr[first], ptr[ptr.shape[0] - 1]):
        starts[ids[e] + 1] += wanted[ids[e]]
    for c in range(wanted.shape[0]):
        starts[c + 1] += starts[c]
    return starts


@kernel
def fill_columns(low, high, first, ptr, ids, values, wanted, starts, out_rows, out_values):
    """Columns [low, high) of a matrix: the rows from ``first`` on that hold each, and their values.

    ptr, ids, values : the matrix by rows; wanted : (n_columns,) bool, which columns are filled
    starts : of ``column_starts``; column c is written to [starts[c], starts[c + 1])
    out_rows, out_values : (nnz,) int32 and float32, the output, rows ascending
    """
    next_slot = starts[low:high].copy()
    for row in range(first, ptr.shape[0] - 1):
        for e in range(ptr[row], ptr[row + 1]):
            c = ids[e]
            if low <= c < high and wanted[c]:
                slot = next_slot[c - low]
                next_slot[c - low] += 1
                out_rows[slot] = row
                out_values[slot] = values[e]


@kernel
def fill_pattern(low, high, ptr, ids, starts, out_rows):
    """Columns [low, high) of a pattern, which has no values: the rows that hold each, ascending.

    ptr, ids : the pattern by rows; starts : of ``column_starts`` for all columns and rows
    out_rows : (nnz,) int32, the output
    """
    next_slot = starts[low:high].copy()
    for row in range(ptr.shape[0] - 1):
        for e in range(ptr[row], ptr[row + 1]):
            c = ids[e]
            if low <= c < high:
                out_rows[next_slot[c - low]] = row
                next_slot[c - low] += 1


@kernel
def merge_rows(low, high, a_ptr, a_ids, a_values, b_ptr, b_ids, b_values, a_scale, b_scale):
    """Rows [low, high) of a_scale A + b_scale B, matrices whose rows ascend by column.

    a_ptr, a_ids, a_values, b_ptr, b_ids, b_values : A and B; a_scale, b_scale : float32
    Returns the length of each row, and the columns and values of all of them.
    """
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty(a_ptr[high] - a_ptr[low] + b_ptr[high] - b_ptr[low], np.int32)
    values = np.empty(ids.shape[0], np.float32)
    size = 0
    for row in range(low, high):
        a = a_ptr[row]
        b = b_ptr[row]
        row_begin = size
        a_end = a_ptr[row + 1]
        b_end = b_ptr[row + 1]
        while a < a_end or b < b_end:
            take_a = a < a_end and (b == b_end or a_ids[a] <= b_ids[b])
            take_b = b < b_end and (a == a_end or b_ids[b] <= a_ids[a])
            value = np.float32(0)
            if take_a:
                ids[size] = a_ids[a]
                value += a_scale * a_values[a]
                a += 1
            if take_b:
                ids[size] = b_ids[b]
                value += b_scale * b_values[b]
                b += 1
            values[size] = value
            size += 1
        lengths[row - low] = size - row_begin
    return lengths, ids[:size].copy(), values[:size].copy()


@filling
def values_at(low, high, indptr, indices, a_ptr, a_ids, a_values, out):
    """The values of a matrix A on a pattern, for rows [low, high); 0 where A has no entry.

    indptr, indices : the pattern; a_ptr, a_ids, a_values : A
    out : (nnz of the pattern,) float32, the output
    """
    for row in range(low, high):
        for e in range(indptr[row], indptr[row + 1]):
            out[e] = 0
            for a in range(a_ptr[row], a_ptr[row + 1]):
                if a_ids[a] == indices[e]:
                    out[e] = a_values[a]
                    break


@kernel
def gather_rows(over_rows, rows, over_ptr, over_ids, over_values, ptr, ids, values):
    """Sparse rows, each from one of two matrices, written one after the other.

    over_rows, rows : (m,) output row i is row over_rows[i] of the first matrix (an overlay), or row
        rows[i] of the second one where over_rows[i] is -1
    over_ptr, over_ids, over_values : the first matrix; ptr, ids, values : the second
    Returns ptr, ids, values of the m rows.
    """
    out_ptr = np.zeros(rows.shape[0] + 1, np.int64)
    for t in range(rows.shape[0]):
        over = over_rows[t]
        row = rows[t]
        size = over_ptr[over + 1] - over_ptr[over] if over >= 0 else ptr[row + 1] - ptr[row]
        out_ptr[t + 1] = out_ptr[t] + size
    out_ids = np.empty(out_ptr[-1], np.int32)
    out = np.empty(out_ptr[-1], np.float32)
    for t in range(rows.shape[0]):
        over = over_rows[t]
        begin = out_ptr[t]
        for e in range(out_ptr[t + 1] - begin):
            if over >= 0:
                out_ids[begin + e] = over_ids[over_ptr[over] + e]
                out[begin + e] = over_values[over_ptr[over] + e]
            else:
                out_ids[begin + e] = ids[ptr[rows[t]] + e]
                out[begin + e] = values[ptr[rows[t]] + e]
    return out_ptr, out_ids, out
