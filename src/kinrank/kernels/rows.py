"""Sparse rows: transposing, adding, looking up."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel


@helper
def enlarge(array, used, needed):
    """A longer copy of ``array`` that has room for ``needed`` entries."""
    longer = np.empty(max(2 * array.shape[0], needed), array.dtype)
    for at in range(used):
        longer[at] = array[at]
    return longer


@inner
def begin_sums(columns, stamp, count, seen, total, touched):
    """Note the columns that ``seen`` does not mark yet in ``touched``, and begin their sums with 0.

    Without a branch, which could not be foreseen: what is written behind the last of ``touched``,
    which has room for one more than there are columns, counts only if the column is new.
    Returns how many are noted now.
    """
    known = count
    for t in range(columns.shape[0]):
        column = np.uint32(columns[t])
        touched[np.uint64(count)] = columns[t]
        count += seen[column] != stamp
        seen[column] = stamp
    for t in range(known, count):
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
    """Where the wanted columns begin when all are put one behind the other; rows from ``first``."""
    starts = np.zeros(wanted.shape[0] + 1, np.int64)
    for e in range(ptr[first], ptr[ptr.shape[0] - 1]):
        starts[ids[e] + 1] += wanted[ids[e]]
    for c in range(wanted.shape[0]):
        starts[c + 1] += starts[c]
    return starts


@kernel
def fill_columns(low, high, first, ptr, ids, values, wanted, starts, rows, column):
    """The wanted of the columns [low, high): rows from ``first`` on, and their values."""
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
    """The columns [low, high) of a pattern."""
    fill = starts[low:high].copy()
    for row in range(ptr.shape[0] - 1):
        for e in range(ptr[row], ptr[row + 1]):
            c = ids[e]
            if low <= c < high:
                rows[fill[c - low]] = row
                fill[c - low] += 1


@kernel
def merge_rows(low, high, a_ptr, a_ids, a_values, b_ptr, b_ids, b_values, a_scale, b_scale):
    """Rows [low, high) of the sum of two scaled matrices with sorted rows.

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
    """Look up the entries of another matrix at the places of a pattern; 0 where it has none."""
    for row in range(low, high):
        for e in range(indptr[row], indptr[row + 1]):
            out[e] = 0
            for a in range(a_ptr[row], a_ptr[row + 1]):
                if a_ids[a] == indices[e]:
                    out[e] = a_values[a]
                    break


@kernel
def gather_rows(places, names, ptr, ids, values, rows_ptr, rows_ids, rows_values):
    """Sparse rows one after another: those at ``places``, or of ``rows`` by name where that is -1.

    Returns pointers, indices, data.
    """
    out_ptr = np.zeros(names.shape[0] + 1, np.int64)
    for row in range(names.shape[0]):
        at = places[row]
        name = names[row]
        size = ptr[at + 1] - ptr[at] if at >= 0 else rows_ptr[name + 1] - rows_ptr[name]
        out_ptr[row + 1] = out_ptr[row] + size
    out_ids = np.empty(out_ptr[-1], np.int32)
    out = np.empty(out_ptr[-1], np.float32)
    for row in range(names.shape[0]):
        at = places[row]
        name = names[row]
        to = out_ptr[row]
        for t in range(out_ptr[row + 1] - to):
            if at >= 0:
                out_ids[to + t] = ids[ptr[at] + t]
                out[to + t] = values[ptr[at] + t]
            else:
                e = rows_ptr[name] + t
                out_ids[to + t] = rows_ids[e]
                out[to + t] = rows_values[e]
    return out_ptr, out_ids, out
