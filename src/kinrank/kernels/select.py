"""The first k of each query by d* = (1 - omega) d' + omega d, and d for given pairs.

d' compares rows of F', the sparse encoding of a row (``kernels/measures.py``); d is the squared
distance over the largest one of the query, or the root of that (``kernels/fusion.py``). Queries are
the first of n rows; the gallery begins with row ``first``.

Records (``kernels/records.py``):
    encodings : Encodings: ``measure``, a code; F' by rows, ``ptr, ids, values``: row i has the
        columns ids[ptr[i]:ptr[i + 1]]; ``entropies``, x log2 x of the values; ``columns``, F' by
        columns, of the gallery alone; ``norms``, (n,) squared norms of the rows
    fusion : Fusion: ``omega``; ``root``, whether d is a root; ``vectors``, and ``order``, (n,): row
        i has the vector order[i], which is also the number that stands for it in results and in
        ties; ``farthest``, (n,) the largest squared distance of each row; ``lists, list_d``,
        (n_queries, K) the nearest rows of each query, and d to them

Functions under ``kernel`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import (
    add_columns,
    add_listed,
    add_long_columns,
    column_entries,
)
from kinrank.kernels.fusion import put_first, scaled_distance
from kinrank.kernels.jit import kernel
from kinrank.kernels.measures import finish
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, squared_distance

_LONG = 2  # entries of columns for each gallery row, from which on sums of all rows are kept


@kernel
def distances_at(low, high, rows, vectors, order, farthest, ptr, ids, out):
    """The squared distance over the row's largest, from rows[i] to the rows ids[ptr[i]:ptr[i + 1]].

    For i in [low, high). vectors : (n, dimensions); order : (n,) row i has the vector order[i]
    farthest : (n,) largest squared distances; out : float32, a value for each of ``ids``, the
        output
    """
    x_buffer = np.empty(vectors.shape[1], np.float32)
    y_buffer = np.empty(vectors.shape[1], np.float32)
    for i in range(low, high):
        row = rows[i]
        x = row_of(vectors, order[row], x_buffer)
        for e in range(ptr[i], ptr[i + 1]):
            squared = squared_distance(x, row_of(vectors, order[ids[e]], y_buffer))
            out[e] = scaled_distance(squared, farthest[row], False)


@kernel
def first_by_columns(low, high, encodings, fusion, least_background, first, out_ids, out, complete):
    """The first k of queries [low, high) by d*, ascending by (d*, number).

    encodings, fusion, first : see the top of the file
    least_background : (n_queries,) no row that is not listed and shares no column has a smaller d'
    out_ids, out : (n_queries, k) int32 and float32, ``order`` of the results less ``first``, and d*
    complete : (n_queries,) bool, whether no row that is not listed and shares no column can be
        among them. Of all three what belongs to queries [low, high) is written.
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
    one_minus_omega = np.float32(1) - omega
    x_buffer = np.empty(vectors.shape[1], np.float32)
    y_buffer = np.empty(vectors.shape[1], np.float32)
    for row in range(low, high):
        x = row_of(vectors, order[row], x_buffer)
        entries = slice(ptr[row], ptr[row + 1])
        n_listed = add_listed(lists[row], first, row, total, seen, touched)
        if column_entries(ids[entries], columns.ptr) > _LONG * (n - first):
            n_touched = add_long_columns(
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
                n_listed,
            )
        else:
            n_touched = add_columns(
                measure,
                ids[entries],
                values[entries],
                entropies[entries],
                columns,
                row,
                total,
                seen,
                touched,
                n_listed,
            )
        # The least omega d of a row that is not listed.
        least_omega_d = omega * list_d[row, length - 1]
        size = np.int64(0)
        for t in range(length):
            other = lists[row, t]
            if other >= first:
                d_prime = np.float32(finish(measure, total[other], norms[row], norms[other]))
                value = one_minus_omega * d_prime + omega * list_d[row, t]
                size = heap_offer(best, numbers, size, k, value, order[other])
        n_candidates = 0
        for t in range(n_listed, n_touched):
            other = touched[t]
            d_prime = np.float32(finish(measure, total[other], norms[row], norms[other]))
            if size < k or one_minus_omega * d_prime + least_omega_d <= best[0]:
                touched[n_candidates] = other
                divergence[n_candidates] = d_prime
                n_candidates += 1
        for ceiling in (np.float32(0.8), np.float32(0.95), np.float32(np.inf)):
            n_left = 0
            for t in range(n_candidates):
                other = touched[t]
                value = one_minus_omega * divergence[t]
                if size == k and value + least_omega_d > best[0]:
                    continue
                if divergence[t] >= ceiling:
                    touched[n_left] = other
                    divergence[n_left] = divergence[t]
                    n_left += 1
                    continue
                squared = squared_distance(x, row_of(vectors, order[other], y_buffer))
                d = scaled_distance(squared, farthest[row], root)
                size = heap_offer(best, numbers, size, k, value + omega * d, order[other])
            n_candidates = n_left
        complete[row] = (
            size == k and best[0] < one_minus_omega * least_background[row] + least_omega_d
        )
        put_first(best, numbers, size, first, out_ids[row], out[row])
