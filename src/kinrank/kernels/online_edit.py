"""Rows that come and go: what they change in the lists of the others."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import squared_distance


@kernel
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
        lists[row, t], list_d[row, t] = lists[row, t - 1], list_d[row, t - 1]
    lists[row, at], list_d[row, at] = new, d
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
    m, k = products.shape[1], lists.shape[1]
    tops, top_ids = np.full(m, np.float32(-1)), np.zeros(m, np.int32)
    two = np.float32(2)
    for row in range(low, high):
        product = products[row - start]
        for t in range(m):
            new = first + t
            value = norms[row] + norms[new] - two * product[t]
            margin = slack * (norms[row] + norms[new])
            if value > tops[t]:
                tops[t], top_ids[t] = value, row
            if value - margin <= list_d[row, k - 1]:
                d = squared_distance(vectors[row], vectors[new])
                insert(row, d, new, lists, list_d, names)
            if value + margin > farthest[row]:
                farthest[row] = max(farthest[row], squared_distance(vectors[row], vectors[new]))
    return tops, top_ids


@kernel
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


@kernel
def splice(ptr, ids, values, columns, origin, part_ptr, part_ids, part_values, part):
    """Rows of two matrices: row i is row part[i] of the second, or else row origin[i] of the first.

    columns : new numbers of the first one's columns; entries of those that go (-1) are left out
    origin, part : -1 for none. Returns lengths, indices, data and which rows lost an entry.
    """
    n = origin.shape[0]
    lengths, lost = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    size = np.int64(0)
    for i in range(n):
        if part[i] >= 0:
            size += part_ptr[part[i] + 1] - part_ptr[part[i]]
        elif origin[i] >= 0:
            size += ptr[origin[i] + 1] - ptr[origin[i]]
    out_ids, out = np.empty(size, np.int32), np.empty(size, np.float32)
    at = 0
    for i in range(n):
        begin = at
        if part[i] >= 0:
            for e in range(part_ptr[part[i]], part_ptr[part[i] + 1]):
                out_ids[at], out[at] = part_ids[e], part_values[e]
                at += 1
        elif origin[i] >= 0:
            for e in range(ptr[origin[i]], ptr[origin[i] + 1]):
                column = columns[ids[e]]
                if column >= 0:
                    out_ids[at], out[at] = column, values[e]
                    at += 1
                else:
                    lost[i] = True
        lengths[i] = at - begin
    return lengths, out_ids[:at].copy(), out[:at].copy(), lost
