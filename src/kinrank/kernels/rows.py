"""Sparse rows: transposing, adding, looking up."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel


@helper
def enlarge(array, used, needed):
    """A copy of the first ``used`` entries of an array, with room for ``needed`` or more."""
    longer = np.empty(max(2 * array.shape[0], needed), array.dtype)
    for at in range(used):
        longer[at] = array[at]
    return longer


@inner
def begin_sums(columns, stamp, count, seen, total, touched):
    """Append the columns that ``seen`` does not mark to ``touched``, and begin their sums with 0.

    count : columns that ``touched`` has already; it has room for one more than there are columns
    Without a branch, which could not be foreseen: what is written behind the last of ``touched``
    counts only if the column is new.
    Returns how many columns ``touched`` has.
    """
    before = count
    for t in range(columns.shape[0]):
        column = np.uint32(columns[t])
        touched[np.uint64(count)] = columns[t]
        count += seen[column] != stamp
        seen[column] = stamp
    for t in range(before, count):
        total[touched[t]] = 0.0
    return count


@inner
def sort_ids(ids, low, high):
    """Sort ids[low:high] in place (shell sort: rows are short)."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(low + gap, high):
            key = ids[at]
            back = at
            while back >= low + gap and ids[back - gap] > key:
                ids[back] = ids[back - gap]
                back -= gap
            ids[back] = key
        gap //= 3


@kernel
def column_starts(first, ptr, ids, wanted):
    """Where each column begins when a matrix is stored by columns.

    Only rows from ``first`` on count, and only columns that are ``wanted``; the others are empty.
    """
    starts = np.zeros(wanted.shape[0] + 1, np.int64)
    for e in range(ptr[first], ptr[ptr.shape[0] - 1]):
        starts[ids[e] + 1] += wanted[ids[e]]
    for c in range(wanted.shape[0]):
        starts[c + 1] += starts[c]
    return starts


@kernel
def fill_columns(low, high, first, ptr, ids, values, wanted, starts, rows, column):
    """Columns [low, high) of a matrix: the rows from ``first`` on that hold each, and their values.

    wanted : which columns are filled; starts : of ``column_starts``; rows, column : the output
    """
    fill = starts[low:high].copy()
    for row in range(first, ptr.shape[0] - 1):
        for e in range(ptr[row], ptr[row + 1]):
            c = ids[e]
            if low <= c < high and wanted[c]:
                at = fill[c - low]
                fill[c - low] += 1
                rows[at] = row
                column[at] = values[e]


@kernel
def fill_pattern(low, high, ptr, ids, starts, rows):
    """As ``fill_columns`` for all columns and rows of a pattern, which has no values."""
    fill = starts[low:high].copy()
    for row in range(ptr.shape[0] - 1):
        for e in range(ptr[row], ptr[row + 1]):
            c = ids[e]
            if low <= c < high:
                rows[fill[c - low]] = row
                fill[c - low] += 1


@kernel
def merge_rows(low, high, a_ptr, a_ids, a_values, b_ptr, b_ids, b_values, a_scale, b_scale):
    """Rows [low, high) of a_scale A + b_scale B, matrices with sorted rows.

    Returns lengths, indices, data.
    """
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty(a_ptr[high] - a_ptr[low] + b_ptr[high] - b_ptr[low], np.int32)
    values = np.empty(ids.shape[0], np.float32)
    at = 0
    for row in range(low, high):
        a = a_ptr[row]
        b = b_ptr[row]
        begin = at
        a_end = a_ptr[row + 1]
        b_end = b_ptr[row + 1]
        while a < a_end or b < b_end:
            take_a = a < a_end and (b == b_end or a_ids[a] <= b_ids[b])
            take_b = b < b_end and (a == a_end or b_ids[b] <= a_ids[a])
            value = np.float32(0)
            if take_a:
                ids[at] = a_ids[a]
                value += a_scale * a_values[a]
                a += 1
            if take_b:
                ids[at] = b_ids[b]
                value += b_scale * b_values[b]
                b += 1
            values[at] = value
            at += 1
        lengths[row - low] = at - begin
    return lengths, ids[:at].copy(), values[:at].copy()


@filling
def values_at(low, high, indptr, indices, a_ptr, a_ids, a_values, out):
    """The entries of a matrix A at the places of a pattern; 0 where it has none.

    indptr, indices : the pattern; a_ptr, a_ids, a_values : A; out : a value for each of its places
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
    """Sparse rows one after another: over_rows[i] of a first matrix, or rows[i] of a second.

    over_rows : -1 where the row is that of the second
    over_ptr, over_ids, over_values : the first matrix; ptr, ids, values : the second
    Returns pointers, indices, data.
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
