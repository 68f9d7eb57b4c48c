"""The first k of sparse candidates, of dense scores, and votes by rank.

``out_ids, out, counts`` : row i has the results out_ids[i, :counts[i]] with values out[i,
    :counts[i]];
what is behind them is not written. int32, float32, int64.

Functions under ``kernel`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import heap_offer, sort_heap


@kernel
def first_candidates(low, high, start, ptr, ids, values, first, below, order, out_ids, out, counts):
    """The smallest values < ``below`` of each row's candidates >= ``first``, by (value, ``order``).

    For rows [low, high).
    start, ptr, ids, values : rows start, start + 1, ... have candidates: row start + i has
        ids[ptr[i]:ptr[i + 1]], with values
    first : the first gallery row
    order : (n,) the number that stands for each row in ties and, less ``first``, in results
    out_ids, out : (n, k); counts : (n,)
    """
    k = out_ids.shape[1]
    best = np.empty(k, np.float32)
    numbers = np.empty(k, np.int32)
    for row in range(low, high):
        size = np.int64(0)
        for e in range(ptr[row - start], ptr[row - start + 1]):
            if ids[e] >= first and values[e] < below:
                number = np.int32(order[ids[e]] - first)
                size = heap_offer(best, numbers, size, k, values[e], number)
        sort_heap(best, numbers, size)
        counts[row] = size
        for t in range(size):
            out_ids[row, t] = numbers[t]
            out[row, t] = best[t]


@kernel
def first_positive(scores, out_ids, out, counts):
    """The largest positive scores of each row, as minus the score, ascending by (value, column).

    scores : (rows, columns) float32; out_ids, out : (rows, k); counts : (rows,)
    """
    k = out_ids.shape[1]
    best = np.empty(k, np.float32)
    columns = np.empty(k, np.int32)
    for row in range(scores.shape[0]):
        size = np.int64(0)
        for j in range(scores.shape[1]):
            score = scores[row, j]
            if score > 0 and (size < k or -score <= best[0]):
                size = heap_offer(best, columns, size, k, -score, np.int32(j))
        sort_heap(best, columns, size)
        counts[row] = size
        for t in range(size):
            out_ids[row, t] = columns[t]
            out[row, t] = best[t]


@kernel
def add_votes(nearest, first, votes, width, low, mutual, scores):
    """Add the votes of one row x' to the scores of the queries that list it: 1 / (w R(x)).

    R(x) is the rank of x in the list of x', from 1; w the rank of x' in the query's list, or
    with ``mutual`` this plus the rank of the query in the list of x'.
    nearest : all rows, nearest to x' first, so that R(nearest[t]) = t + 1
    first : rows from here on are scored
    votes : int64, where x' stands in lists of queries: (query - low) * width + position
    width : the length of these lists; low : the first query
    scores : (queries, rows from ``first`` on), which are added to
    """
    ranks = np.empty(nearest.shape[0])
    for t in range(nearest.shape[0]):
        ranks[nearest[t]] = t + 1
    scored_ranks = ranks[first:]
    for vote in votes:
        query = vote // width
        weight = vote % width + 1 + (ranks[low + query] if mutual else 0.0)
        query_scores = scores[query]
        for x in range(scored_ranks.shape[0]):  # in the order of memory, so that it vectorises
            query_scores[x] += 1.0 / (weight * scored_ranks[x])
