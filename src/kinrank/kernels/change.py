"""Rows that come and go: what they change in the lists of the others."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.topk import squared_distance


@inner
def insert(row, d, new, lists, list_d, order):
    """Put a new row into a row's list, ordered by (distance, number), if it is near enough.

    d : the squared distance of the new row; order : (n,) the number of each row
    Returns whether it is in the list now.
    """
    k = lists.shape[1]
    at = k
    while at > 1:
        last = list_d[row, at - 1]
        if last < d or (last == d and order[lists[row, at - 1]] < order[new]):
            break
        at -= 1
    if at == k:
        return False
    for t in range(k - 1, at, -1):
        lists[row, t] = lists[row, t - 1]
        list_d[row, t] = list_d[row, t - 1]
    lists[row, at] = new
    list_d[row, at] = d
    return True


@kernel
def admit_rows(
    low, high, start, first, products, vectors, norms, slack, order, lists, list_d, farthest
):
    """Offer new rows to the lists of rows [low, high), and note where one is the farthest.

    products : of the rows start, start + 1, ... with the new rows first, first + 1, ...
    vectors, norms, order : of all rows, |x|^2 and numbers; slack : how far a product may be off,
        over the squared norms
    lists, list_d, farthest : lists, squared distances and the largest of these, which are changed
    Returns for each new row the largest squared distance by products, and whose it is.
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
            value = norms[row] + norms[new] - two * product[t]
            margin = slack * (norms[row] + norms[new])
            if value > largest[t]:
                largest[t] = value
                largest_ids[t] = row
            if value - margin <= list_d[row, k - 1]:
                d = squared_distance(vectors[row], vectors[new])
                insert(row, d, new, lists, list_d, order)
            if value + margin > farthest[row]:
                farthest[row] = max(farthest[row], squared_distance(vectors[row], vectors[new]))
    return largest, largest_ids


@filling
def lose_farthest(low, high, start, products, norms, removed, slack, farthest, out):
    """Mark rows [low, high) whose farthest row may be one of those that are removed.

    products : of the rows start, start + 1, ... with the removed rows; norms, slack : as in
    ``admit_rows``; out : (n,) the marks
    """
    two = np.float32(2)
    for row in range(low, high):
        for t in range(removed.shape[0]):
            other = removed[t]
            value = norms[row] + norms[other] - two * products[row - start, t]
            if value + slack * (norms[row] + norms[other]) >= farthest[row]:
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
    """Rows under new numbers: row i was row origin[i], -1 for a new one, which is empty.

    columns : new numbers of the columns; entries of removed columns (-1) are left out
    Returns lengths, indices, data and which rows lost an entry.
    """
    n = origin.shape[0]
    at = np.int64(0)
    lengths = np.zeros(n, np.int64)
    lost = np.zeros(n, np.bool_)
    out_ids = np.empty(ids.shape[0], np.int32)
    out = np.empty(ids.shape[0], np.float32)
    for i in range(n):
        begin = at
        for e in range(row_begin(ptr, origin[i]), row_end(ptr, origin[i])):
            column = columns[ids[e]]
            if column >= 0:
                out_ids[at] = column
                out[at] = values[e]
                at += 1
            else:
                lost[i] = True
        lengths[i] = at - begin
    return lengths, out_ids[:at].copy(), out[:at].copy(), lost


@kernel
def put_rows(ptr, ids, values, replaced, new_ptr, new_ids, new_values):
    """A matrix whose rows ``replaced``, ascending, are exchanged for new ones.

    new_ptr, new_ids, new_values : one row for each of ``replaced``
    Returns pointers, indices, data.
    """
    n = ptr.shape[0] - 1
    size = ids.shape[0] + new_ids.shape[0]
    for row in replaced:
        size -= ptr[row + 1] - ptr[row]
    out_ptr = np.empty(n + 1, np.int64)
    out_ids = np.empty(size, np.int32)
    out = np.empty(size, np.float32)
    row = np.int64(0)
    at = np.int64(0)
    for t in range(replaced.shape[0] + 1):
        stop = np.int64(replaced[t]) if t < replaced.shape[0] else np.int64(n)
        shift = at - ptr[row]
        for i in range(row, stop):
            out_ptr[i] = ptr[i] + shift
        for e in range(ptr[row], ptr[stop]):
            out_ids[e + shift] = ids[e]
            out[e + shift] = values[e]
        at = ptr[stop] + shift
        out_ptr[stop] = at
        if t < replaced.shape[0]:
            for e in range(new_ptr[t], new_ptr[t + 1]):
                out_ids[at] = new_ids[e]
                out[at] = new_values[e]
                at += 1
        row = stop + 1
    return out_ptr, out_ids, out


@kernel
def column_lengths(ptr, ids, moved, origin, exchanged, new_ptr):
    """How long the columns of ``exchange_rows`` become, as pointers; arguments as there."""
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

    old : the columns before, see ``records.Columns``; origin : of each column, which one it was, -1
        for a new one
    moved : new numbers of the rows, -1 for those that are removed
    exchanged : which of the new rows are exchanged; new : these rows by columns, as ``old``
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
        p = new_ptr[c]
        for at in range(out_ptr[c], out_ptr[c + 1]):
            while e < end and (moved[rows[e]] < 0 or exchanged[moved[rows[e]]]):
                e += 1
            if e < end and (p == new_ptr[c + 1] or moved[rows[e]] < new_rows[p]):
                out_rows[at] = moved[rows[e]]
                out_values[at] = values[e]
                out_entropies[at] = entropies[e]
                e += 1
            else:
                out_rows[at] = new_rows[p]
                out_values[at] = new_values[p]
                out_entropies[at] = new_entropies[p]
                p += 1


@kernel
def reached_rows(mask, ptr, ids):
    """Which sparse rows hold a column that is marked."""
    out = np.zeros(ptr.shape[0] - 1, np.bool_)
    for row in range(out.shape[0]):
        for e in range(ptr[row], ptr[row + 1]):
            if mask[ids[e]]:
                out[row] = True
                break
    return out


@kernel
def differing_rows(a_ptr, a_ids, a, b_ptr, b_ids, b, n_columns, limit):
    """Which rows of two matrices differ by more than ``limit`` in some entry."""
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
