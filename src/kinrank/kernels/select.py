"""The last step: distances at chosen places, and the first k of what was chosen."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import (
    add_columns,
    add_listed,
    add_long_columns,
    column_entries,
    finish,
)
from kinrank.kernels.jit import kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

_LONG = 2  # entries of columns for each row, from which on sums of all rows are kept


@kernel
def distances_at(low, high, rows, vectors, names, farthest, ptr, ids, out):
    """Squared distance over the row's farthest, for the places (rows[i], ids[ptr[i]:ptr[i+1]]).

    names : (n,) where the vector of each row is
    """
    own = np.empty(vectors.shape[1], np.float32)
    space = np.empty(vectors.shape[1], np.float32)
    for at in range(low, high):
        row = rows[at]
        x = row_of(vectors, names[row], own)
        scale = farthest[row]
        for e in range(ptr[at], ptr[at + 1]):
            value = squared_distance(x, row_of(vectors, names[ids[e]], space))
            out[e] = min(value / scale, np.float32(1)) if scale > 0 else np.float32(0)


@kernel
def first_near(low, high, measure, csr, f, columns, norms, fusion, least, first, names, outs):
    """The first k of queries [low, high) by (1 - omega) d' + omega d, ascending by (value, name).

    measure to norms : what d' is computed from, as in ``divergence_rows``
    fusion : omega; whether d is the root of the square; vectors; the largest squared distance of
        each row; (n_queries, K) nearest rows and their d
    least : (n_queries,) no row that is not listed and shares no column has a smaller d'
    names : (n,) the numbers that results go by, and where vectors are
    outs : gallery rows, values, and whether no such row can be among them
    First come the listed, then the others, small d' first: one that is not listed is no nearer than
    the last that is, and most are ruled out by that bound before their distance is computed.
    """
    ptr, ids, values = csr
    omega, root, vectors, farthest, lists, list_d = fusion
    out_ids, out, complete = outs
    n = vectors.shape[0]
    k = out_ids.shape[1]
    length = lists.shape[1]
    best = np.empty(k, np.float32)
    keys = np.empty(k, np.int32)
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    modified = np.empty(n, np.float32)
    near = np.float32(1) - omega
    mine = np.empty(vectors.shape[1], np.float32)
    space = np.empty(vectors.shape[1], np.float32)
    for row in range(low, high):
        x = row_of(vectors, names[row], mine)
        scale = farthest[row]
        norm = norms[row]
        own = slice(ptr[row], ptr[row + 1])
        listed = add_listed(lists[row], first, row, total, seen, touched)
        query = (measure, ids[own], values[own], f[own], columns)
        if column_entries(ids[own], columns[0]) > _LONG * (n - first):
            found = add_long_columns(*query, first, row, total, seen, touched, listed)
        else:
            found = add_columns(*query, row, total, seen, touched, listed)
        beyond = omega * list_d[row, length - 1]
        size = np.int64(0)
        count = 0
        for t in range(length):
            other = lists[row, t]
            if other >= first:
                value = np.float32(finish(measure, total[other], norm, norms[other]))
                value = near * value + omega * list_d[row, t]
                size = heap_offer(best, keys, size, k, value, names[other])
        for t in range(listed, found):
            other = touched[t]
            value = np.float32(finish(measure, total[other], norm, norms[other]))
            if size < k or near * value + beyond <= best[0]:
                touched[count] = other
                modified[count] = value
                count += 1
        for ceiling in (np.float32(0.8), np.float32(0.95), np.float32(np.inf)):
            left = 0
            for t in range(count):
                other = touched[t]
                value = near * modified[t]
                if size == k and value + beyond > best[0]:
                    continue
                if modified[t] >= ceiling:
                    touched[left] = other
                    modified[left] = modified[t]
                    left += 1
                    continue
                d = squared_distance(x, row_of(vectors, names[other], space))
                d = min(d / scale, np.float32(1)) if scale > 0 else np.float32(0)
                d = np.sqrt(d) if root else d
                size = heap_offer(best, keys, size, k, value + omega * d, names[other])
            count = left
        complete[row] = size == k and best[0] < near * least[row] + beyond
        sort_heap(best, keys, size)
        for t in range(k):
            out_ids[row, t] = keys[t] - first if t < size else -1
            out[row, t] = best[t] if t < size else np.float32(np.inf)
