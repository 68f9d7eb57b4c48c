"""Rows that come and go: what they change in the lists of the others."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.topk import squared_distance


@inner
def insert(row, d, new, lists, list_d, names):
    """Put a new row into a list, ordered by (distance, name), if it is near enough; whether so."""
    k = lists.shape[1]
    at = k
    while at > 1:
        last = list_d[row, at - 1]
        if last < d or (last == d and names[lists[row, at - 1]] < names[new]):
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
    low, high, start, first, products, vectors, norms, slack, names, lists, list_d, farthest
):
    """Offer new rows to the lists of rows [low, high), and note where one is the farthest.

    products : of rows start + [0, ...) with the new rows, whose numbers begin at ``first``
    slack : how far a product may be off, over the squared norms
    Returns for each new row the largest distance by products, and whose it is.
    """
    m = products.shape[1]
    k = lists.shape[1]
    tops = np.full(m, np.float32(-1))
    top_ids = np.zeros(m, np.int32)
    two = np.float32(2)
    for row in range(low, high):
        product = products[row - start]
        for t in range(m):
            new = first + t
            value = norms[row] + norms[new] - two * product[t]
            margin = slack * (norms[row] + norms[new])
            if value > tops[t]:
                tops[t] = value
                top_ids[t] = row
            if value - margin <= list_d[row, k - 1]:
                d = squared_distance(vectors[row], vectors[new])
                insert(row, d, new, lists, list_d, names)
            if value + margin > farthest[row]:
                farthest[row] = max(farthest[row], squared_distance(vectors[row], vectors[new]))
    return tops, top_ids


@filling
def left_behind(low, high, start, products, norms, gone, slack, farthest, out):
    """Mark rows [low, high) whose farthest may be one of those that go.

    products : of rows start + [0, ...) with these; gone : their numbers
    """
    two = np.float32(2)
    for row in range(low, high):
        for t in range(gone.shape[0]):
            other = gone[t]
            value = norms[row] + norms[other] - two * products[row - start, t]
            if value + slack * (norms[row] + norms[other]) >= farthest[row]:
                out[row] = True


@inner
def entries_of(ptr, row):
    """Where the entries of a row begin and end; nowhere for -1."""
    return (ptr[row], ptr[row + 1]) if row >= 0 else (ptr[0], ptr[0])


@kernel
def moved_rows(ptr, ids, values, columns, origin):
    """Rows under new numbers: row i was row origin[i], -1 for a new one, which is empty.

    columns : new numbers of the columns; entries of those that go (-1) are left out
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
        for e in range(*entries_of(ptr, origin[i])):
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
def put_rows(ptr, ids, values, where, part_ptr, part_ids, part_values):
    """The rows with those at ``where``, ascending, exchanged for the rows of a part.

    Returns pointers, indices, data.
    """
    n = ptr.shape[0] - 1
    size = ids.shape[0] + part_ids.shape[0]
    for row in where:
        size -= ptr[row + 1] - ptr[row]
    out_ptr = np.empty(n + 1, np.int64)
    out_ids = np.empty(size, np.int32)
    out = np.empty(size, np.float32)
    row = at = np.int64(0)
    for t in range(where.shape[0] + 1):
        stop = np.int64(where[t]) if t < where.shape[0] else np.int64(n)
        shift = at - ptr[row]
        for i in range(row, stop):
            out_ptr[i] = ptr[i] + shift
        for e in range(ptr[row], ptr[stop]):
            out_ids[e + shift] = ids[e]
            out[e + shift] = values[e]
        at = ptr[stop] + shift
        out_ptr[stop] = at
        if t < where.shape[0]:
            for e in range(part_ptr[t], part_ptr[t + 1]):
                out_ids[at] = part_ids[e]
                out[at] = part_values[e]
                at += 1
        row = stop + 1
    return out_ptr, out_ids, out


@kernel
def column_lengths(ptr, ids, moved, origin, exchanged, part_ptr):
    """How long the columns of ``exchange_rows`` become, as pointers."""
    out = np.zeros(origin.shape[0] + 1, np.int64)
    for c in range(origin.shape[0]):
        size = part_ptr[c + 1] - part_ptr[c]
        for e in range(*entries_of(ptr, origin[c])):
            row = moved[ids[e]]
            size += row >= 0 and not exchanged[row]
        out[c + 1] = out[c] + size
    return out


@filling
def exchange_rows(low, high, old, moved, origin, exchanged, new, out_ptr, out_ids, out, out_others):
    """Columns [low, high) of a matrix of which some rows are exchanged, rows ascending.

    old : the columns before: pointers, rows, and two values for each entry; origin : of each
    column, which one it was, -1 for a new one; moved : new numbers of the rows, -1 for those that
    go; new : the rows that are ``exchanged``, by columns as ``old``
    """
    ptr, ids, values, others = old
    part_ptr, part_ids, part_values, part_others = new
    for c in range(low, high):
        e, end = entries_of(ptr, origin[c])
        p = part_ptr[c]
        for at in range(out_ptr[c], out_ptr[c + 1]):
            while e < end and (moved[ids[e]] < 0 or exchanged[moved[ids[e]]]):
                e += 1
            if e < end and (p == part_ptr[c + 1] or moved[ids[e]] < part_ids[p]):
                out_ids[at] = moved[ids[e]]
                out[at] = values[e]
                out_others[at] = others[e]
                e += 1
            else:
                out_ids[at] = part_ids[p]
                out[at] = part_values[p]
                out_others[at] = part_others[p]
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
