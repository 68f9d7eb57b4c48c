"""The first k of each query by d* = (1 - omega) d' + omega d, and d at given places."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import (
    add_columns,
    add_listed,
    add_long_columns,
    column_entries,
)
from kinrank.kernels.fusion import plain_distance, put_first
from kinrank.kernels.jit import kernel
from kinrank.kernels.measures import finish
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, squared_distance

_LONG = 2  # entries of columns for each row, from which on sums of all rows are kept


@kernel
def distances_at(low, high, rows, vectors, order, farthest, ptr, ids, out):
    """d^2 over the row's farthest, from rows[i] to the rows ids[ptr[i]:ptr[i + 1]].

    order : (n,) row i has the vector order[i]; farthest : (n,) largest squared distances
    """
    x_space = np.empty(vectors.shape[1], np.float32)
    y_space = np.empty(vectors.shape[1], np.float32)
    for at in range(low, high):
        row = rows[at]
        x = row_of(vectors, order[row], x_space)
        for e in range(ptr[at], ptr[at + 1]):
            squared = squared_distance(x, row_of(vectors, order[ids[e]], y_space))
            out[e] = plain_distance(squared, farthest[row], False)


@kernel
def first_by_columns(low, high, encodings, fusion, least_background, first, out_ids, out, complete):
    """The first k of queries [low, high) by d*, ascending by (d*, number).

    encodings, fusion : see ``records``; rows from ``first`` on may be answers
    least_background : (n_queries,) no row that is not listed and shares no column has a smaller d'
    out_ids, out : (n_queries, k) gallery rows and d*; complete : (n_queries,) whether no row that
        is not listed and shares no column can be among them
    First come the listed rows, then the others, small d' first: one that is not listed is no nearer
    than the last that is, and most are ruled out by that bound before their distance is computed.
    """
    measure = encodings.measure
    ptr = encodings.ptr
    ids = encodings.ids
    values = encodings.values
    entropies = encodings.entropies
    columns = encodings.columns
    norms = encodings.norms
    omega = fusion.omega
    root = fusion.root
    vectors = fusion.vectors
    order = fusion.order
    farthest = fusion.farthest
    lists = fusion.lists
    list_d = fusion.list_d
    n = vectors.shape[0]
    k = out_ids.shape[1]
    length = lists.shape[1]
    best = np.empty(k, np.float32)
    numbers = np.empty(k, np.int32)
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    divergence = np.empty(n, np.float32)
    share = np.float32(1) - omega
    x_space = np.empty(vectors.shape[1], np.float32)
    y_space = np.empty(vectors.shape[1], np.float32)
    for row in range(low, high):
        x = row_of(vectors, order[row], x_space)
        entries = slice(ptr[row], ptr[row + 1])
        listed = add_listed(lists[row], first, row, total, seen, touched)
        if column_entries(ids[entries], columns.ptr) > _LONG * (n - first):
            touched_count = add_long_columns(
                measure,
                ids[entries],
                values[entries],
                entropies[entries],
                columns,
                first,
                row,
                total,
                seen,
                touched,
                listed,
            )
        else:
            touched_count = add_columns(
                measure,
                ids[entries],
                values[entries],
                entropies[entries],
                columns,
                row,
                total,
                seen,
                touched,
                listed,
            )
        least_d = omega * list_d[row, length - 1]  # of rows that are not listed
        size = np.int64(0)
        for t in range(length):
            other = lists[row, t]
            if other >= first:
                d_prime = np.float32(finish(measure, total[other], norms[row], norms[other]))
                value = share * d_prime + omega * list_d[row, t]
                size = heap_offer(best, numbers, size, k, value, order[other])
        candidates = 0
        for t in range(listed, touched_count):
            other = touched[t]
            d_prime = np.float32(finish(measure, total[other], norms[row], norms[other]))
            if size < k or share * d_prime + least_d <= best[0]:
                touched[candidates] = other
                divergence[candidates] = d_prime
                candidates += 1
        for ceiling in (np.float32(0.8), np.float32(0.95), np.float32(np.inf)):
            left = 0
            for t in range(candidates):
                other = touched[t]
                value = share * divergence[t]
                if size == k and value + least_d > best[0]:
                    continue
                if divergence[t] >= ceiling:
                    touched[left] = other
                    divergence[left] = divergence[t]
                    left += 1
                    continue
                squared = squared_distance(x, row_of(vectors, order[other], y_space))
                d = plain_distance(squared, farthest[row], root)
                size = heap_offer(best, numbers, size, k, value + omega * d, order[other])
            candidates = left
        complete[row] = size == k and best[0] < share * least_background[row] + least_d
        put_first(best, numbers, size, first, out_ids[row], out[row])
