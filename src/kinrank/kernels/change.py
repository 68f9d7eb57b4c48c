"""Rows that come and go: what they change in the lists of the others and in sparse rows.

Lists have the K nearest of each row, itself first: (n, K) int32, with squared distances. A sparse
matrix is ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]]. Products are inner
products xy, rounded; |x|^2 + |y|^2 - 2 xy is the squared distance but for that.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.topk import squared_distance


@inner
def insert(row, squared, new, lists, list_squared, order):
    """Put a new row into a row's list, ordered by (distance, ``order``), if it is near enough.

    row, new : both rows; squared : their squared distance
    lists, list_squared : (n, K), changed; order : (n,) the rank of each row, by which ties go
    Returns whether it is in the list now.
    """
    k = lists.shape[1]
    slot = k
    while slot > 1:
        last = list_squared[row, slot - 1]
        if last < squared or (last == squared and order[lists[row, slot - 1]] < order[new]):
            break
        slot -= 1
    if slot == k:
        return False
    for t in range(k - 1, slot, -1):
        lists[row, t] = lists[row, t - 1]
        list_squared[row, t] = list_squared[row, t - 1]
    lists[row, slot] = new
    list_squared[row, slot] = squared
    return True


@kernel
def admit_rows(
    low, high, start, first, products, vectors, norms, slack, order, lists, list_squared, farthest
):
    """Offer m new rows to the lists of rows [low, high), and note where one is the farthest.

    products : (rows, m) float32, inner products of the rows start, start + 1, ... with the new rows
        first, first + 1, ...
    vectors, norms : (n, d) and (n,), of all rows, norms |x|^2
    slack : how far |x|^2 + |y|^2 - 2 xy may be off by rounding, as a part of |x|^2 + |y|^2
    order : (n,) the rank of each row, by which ties go
    lists, list_squared : (n, K) the lists of all rows and their squared distances, changed
    farthest : (n,) the largest squared distance of each row to any other, changed
    Returns for each new row the largest squared distance by products, float32, and the row that is
    so far from it, int32; both (m,).
    """
    m = products.shape[1]
    k = lists.shape[1]
    largest = np.full(m, np.float32(-1))
    largest_ids = np.zeros(m, np.int32)
    two = np.float32(2)
    for row in range(low, high):
        product = products[row - start]
        for t in range(m):
            new = first + t
            rounded = norms[row] + norms[new] - two * product[t]
            margin = slack * (norms[row] + norms[new])
            if rounded > largest[t]:
                largest[t] = rounded
                largest_ids[t] = row
            if rounded - margin <= list_squared[row, k - 1]:
                squared = squared_distance(vectors[row], vectors[new])
                insert(row, squared, new, lists, list_squared, order)
            if rounded + margin > farthest[row]:
                farthest[row] = max(farthest[row], squared_distance(vectors[row], vectors[new]))
    return largest, largest_ids


@filling
def mark_lost_farthest(low, high, start, products, norms, removed, slack, farthest, out):
    """Mark rows [low, high) whose farthest row may be one of those that are removed.

    All rows are counted as before the removal.
    products : (rows, len(removed)) float32, inner products of the rows start, start + 1, ... with
        the removed rows
    norms : (n,) |x|^2 of all rows; removed : the removed rows
    slack : how far |x|^2 + |y|^2 - 2 xy may be off by rounding, as a part of |x|^2 + |y|^2
    farthest : (n,) the largest squared distance of each row to any other
    out : (n,) bool, set to True for marked rows; others are left as they are: pass zeros
    """
    two = np.float32(2)
    for row in range(low, high):
        for t in range(removed.shape[0]):
            other = removed[t]
            rounded = norms[row] + norms[other] - two * products[row - start, t]
            if rounded + slack * (norms[row] + norms[other]) >= farthest[row]:
                out[row] = True


@inner
def row_begin(ptr, row):
    """Where the entries of a row begin; row -1 is empty."""
    return ptr[row] if row >= 0 else ptr[0]


@inner
def row_end(ptr, row):
    """Where the entries of a row end; row -1 is empty."""
    return ptr[row + 1] if row >= 0 else ptr[0]


@kernel
def moved_rows(ptr, ids, values, columns, origin):
    """A sparse matrix whose rows and columns are moved, and some removed.

    ptr, ids, values : the matrix before
    origin : (n,) row i was row origin[i] before, -1 for a new one, which is empty
    columns : (columns before,) where each column is now; -1 for a removed one,
        whose entries are left out
    Returns the length of each row, (n,) int64, columns, values, and which rows lost an entry, (n,)
    bool.
    """
    n = origin.shape[0]
    size = np.int64(0)
    lengths = np.zeros(n, np.int64)
    lost = np.zeros(n, np.bool_)
    out_ids = np.empty(ids.shape[0], np.int32)
    out = np.empty(ids.shape[0], np.float32)
    for i in range(n):
        begin = size
        for e in range(row_begin(ptr, origin[i]), row_end(ptr, origin[i])):
            column = columns[ids[e]]
            if column >= 0:
                out_ids[size] = column
                out[size] = values[e]
                size += 1
            else:
                lost[i] = True
        lengths[i] = size - begin
    return lengths, out_ids[:size].copy(), out[:size].copy(), lost


@kernel
def put_rows(ptr, ids, values, replaced, new_ptr, new_ids, new_values):
    """A sparse matrix whose rows ``replaced``, ascending, are exchanged for new ones.

    ptr, ids, values : the matrix
    new_ptr, new_ids, new_values : the new rows, one for each of ``replaced``
    Returns pointers, columns, values.
    """
    n = ptr.shape[0] - 1
    capacity = ids.shape[0] + new_ids.shape[0]
    for row in replaced:
        capacity -= ptr[row + 1] - ptr[row]
    out_ptr = np.empty(n + 1, np.int64)
    out_ids = np.empty(capacity, np.int32)
    out = np.empty(capacity, np.float32)
    row = np.int64(0)
    out_end = np.int64(0)
    for t in range(replaced.shape[0] + 1):
        stop = np.int64(replaced[t]) if t < replaced.shape[0] else np.int64(n)
        offset = out_end - ptr[row]
        for i in range(row, stop):
            out_ptr[i] = ptr[i] + offset
        for e in range(ptr[row], ptr[stop]):
            out_ids[e + offset] = ids[e]
            out[e + offset] = values[e]
        out_end = ptr[stop] + offset
        out_ptr[stop] = out_end
        if t < replaced.shape[0]:
            for e in range(new_ptr[t], new_ptr[t + 1]):
                out_ids[out_end] = new_ids[e]
                out[out_end] = new_values[e]
                out_end += 1
        row = stop + 1
    return out_ptr, out_ids, out


@kernel
def column_lengths(ptr, ids, moved, origin, exchanged, new_ptr):
    """Where the columns of ``exchange_rows`` begin, (columns + 1,) int64; arguments as there.

    ptr, ids : the columns before, column c with the rows ids[ptr[c]:ptr[c + 1]]
    new_ptr : where the columns of the exchanged rows begin
    """
    out = np.zeros(origin.shape[0] + 1, np.int64)
    for c in range(origin.shape[0]):
        size = new_ptr[c + 1] - new_ptr[c]
        for e in range(row_begin(ptr, origin[c]), row_end(ptr, origin[c])):
            row = moved[ids[e]]
            size += row >= 0 and not exchanged[row]
        out[c + 1] = out[c] + size
    return out


@filling
def exchange_rows(
    low, high, old, moved, origin, exchanged, new, out_ptr, out_rows, out_values, out_entropies
):
    """Columns [low, high) of F' of which some rows are exchanged, rows ascending.

    old : the columns before, ``records.Columns``
    moved : (rows before,) where each row is now, -1 for those that are removed
    origin : (columns,) which column each one was before, -1 for a new one
    exchanged : (rows,) bool, which of the rows as they are now are exchanged
    new : the exchanged rows by columns, as ``old``
    out_ptr : of ``column_lengths``
    out_rows, out_values, out_entropies : of each entry its row, int32, its value x, and x log2 x,
        float32; those of columns [low, high) are written
    """
    ptr = old.ptr
    rows = old.rows
    values = old.values
    entropies = old.entropies
    new_ptr = new.ptr
    new_rows = new.rows
    new_values = new.values
    new_entropies = new.entropies
    for c in range(low, high):
        e = row_begin(ptr, origin[c])
        end = row_end(ptr, origin[c])
        new_e = new_ptr[c]
        for slot in range(out_ptr[c], out_ptr[c + 1]):
            while e < end and (moved[rows[e]] < 0 or exchanged[moved[rows[e]]]):
                e += 1
            if e < end and (new_e == new_ptr[c + 1] or moved[rows[e]] < new_rows[new_e]):
                out_rows[slot] = moved[rows[e]]
                out_values[slot] = values[e]
                out_entropies[slot] = entropies[e]
                e += 1
            else:
                out_rows[slot] = new_rows[new_e]
                out_values[slot] = new_values[new_e]
                out_entropies[slot] = new_entropies[new_e]
                new_e += 1


@kernel
def reached_rows(mask, ptr, ids):
    """Which sparse rows hold a column that ``mask`` marks; (rows,) bool."""
    out = np.zeros(ptr.shape[0] - 1, np.bool_)
    for row in range(out.shape[0]):
        for e in range(ptr[row], ptr[row + 1]):
            if mask[ids[e]]:
                out[row] = True
                break
    return out


@kernel
def differing_rows(a_ptr, a_ids, a, b_ptr, b_ids, b, n_columns, limit):
    """Which rows of two sparse matrices differ by more than ``limit`` in some entry; (rows,) bool.

    a_ptr, a_ids, a, b_ptr, b_ids, b : the matrices, with ``n_columns`` columns
    """
    total = np.zeros(n_columns, np.float32)
    out = np.zeros(a_ptr.shape[0] - 1, np.bool_)
    for row in range(out.shape[0]):
        for e in range(a_ptr[row], a_ptr[row + 1]):
            total[a_ids[e]] += a[e]
        for e in range(b_ptr[row], b_ptr[row + 1]):
            total[b_ids[e]] -= b[e]
        for e in range(a_ptr[row], a_ptr[row + 1]):
            out[row] |= abs(total[a_ids[e]]) > limit
            total[a_ids[e]] = 0
        for e in range(b_ptr[row], b_ptr[row + 1]):
            out[row] |= abs(total[b_ids[e]]) > limit
            total[b_ids[e]] = 0
    return out
