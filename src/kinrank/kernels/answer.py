"""The first k of sparse candidates, of dense scores, and votes by rank."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, kernel
from kinrank.kernels.topk import heap_offer, sort_heap


@kernel
def first_candidates(low, high, start, csr, first, below, names, out_ids, out, counts):
    """The smallest values < ``below`` of each row's candidates >= ``first``, by (value, name).

    start : the row that the candidates begin with
    """
    ptr, ids, values = csr
    k = out_ids.shape[1]
    best, keys = np.empty(k, np.float32), np.empty(k, np.int32)
    for row in range(low, high):
        size = np.int64(0)
        for e in range(ptr[row - start], ptr[row - start + 1]):
            if ids[e] >= first and values[e] < below:
                size = heap_offer(best, keys, size, k, values[e], np.int32(names[ids[e]] - first))
        sort_heap(best, keys, size)
        counts[row] = size
        for t in range(size):
            out_ids[row, t], out[row, t] = keys[t], best[t]


@kernel
def first_positive(scores, out_ids, out, counts):
    """The largest positive scores of each row, as minus the score, ascending by (value, id)."""
    k = out_ids.shape[1]
    best, keys = np.empty(k, np.float32), np.empty(k, np.int32)
    for row in range(scores.shape[0]):
        size = np.int64(0)
        for j in range(scores.shape[1]):
            score = scores[row, j]
            if score > 0 and (size < k or -score <= best[0]):
                size = heap_offer(best, keys, size, k, -score, np.int32(j))
        sort_heap(best, keys, size)
        counts[row] = size
        for t in range(size):
            out_ids[row, t], out[row, t] = keys[t], best[t]


@filling
def add_inverse_ranks(order, first, position, own_rank, total):
    """total[x] += 1 / ((position + own rank) R(x)) for the rows x >= ``first`` of one rank list.

    order : all rows, nearest first, so that R(order[t]) = t + 1
    """
    weight = np.float64(position + own_rank)
    for t in range(order.shape[0]):
        x = order[t]
        if x >= first:
            total[x - first] += 1.0 / (weight * (t + 1))
