"""The first k of sparse candidates, of dense scores, and votes by rank."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import heap_offer, sort_heap


@kernel
def first_candidates(low, high, start, csr, first, below, names, out_ids, out, counts):
    """The smallest values < ``below`` of each row's candidates >= ``first``, by (value, name).

    start : the row that the candidates begin with
    """
    ptr, ids, values = csr
    k = out_ids.shape[1]
    best = np.empty(k, np.float32)
    keys = np.empty(k, np.int32)
    for row in range(low, high):
        size = np.int64(0)
        for e in range(ptr[row - start], ptr[row - start + 1]):
            if ids[e] >= first and values[e] < below:
                size = heap_offer(best, keys, size, k, values[e], np.int32(names[ids[e]] - first))
        sort_heap(best, keys, size)
        counts[row] = size
        for t in range(size):
            out_ids[row, t] = keys[t]
            out[row, t] = best[t]


@kernel
def first_positive(scores, out_ids, out, counts):
    """The largest positive scores of each row, as minus the score, ascending by (value, id)."""
    k = out_ids.shape[1]
    best = np.empty(k, np.float32)
    keys = np.empty(k, np.int32)
    for row in range(scores.shape[0]):
        size = np.int64(0)
        for j in range(scores.shape[1]):
            score = scores[row, j]
            if score > 0 and (size < k or -score <= best[0]):
                size = heap_offer(best, keys, size, k, -score, np.int32(j))
        sort_heap(best, keys, size)
        counts[row] = size
        for t in range(size):
            out_ids[row, t] = keys[t]
            out[row, t] = best[t]


@kernel
def add_votes(order, first, votes, width, low, mutual, scores):
    """Add what one row says to the scores of the queries that list it: 1 / (w R(x)).

    order : all rows, nearest first, so that R(order[t]) = t + 1; those from ``first`` on are scored
    votes : places in the lists, of ``width``, of the queries from number ``low`` on
    mutual : whether w is the place in the list, from 1, and the rank of the query, or that alone
    """
    ranks = np.empty(order.shape[0])
    for t in range(order.shape[0]):
        ranks[order[t]] = t + 1
    late = ranks[first:]
    for vote in votes:
        query = vote // width
        weight = vote % width + 1 + (ranks[low + query] if mutual else 0.0)
        total = scores[query]
        for x in range(late.shape[0]):  # in the order of memory, so that it vectorises
            total[x] += 1.0 / (weight * late[x])
