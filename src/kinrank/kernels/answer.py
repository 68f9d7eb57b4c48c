"""The first k of sparse candidates, of dense scores, and votes by rank."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import heap_offer, sort_heap


@kernel
def first_candidates(low, high, start, ptr, ids, values, first, below, order, out_ids, out, counts):
    """The smallest values < ``below`` of each row's candidates >= ``first``, by (value, number).

    ptr, ids, values : the candidates of rows ``start``, start + 1, ... and their values
    order : (n,) the number of each candidate, by which ties go; results tell it, less ``first``
    out_ids, out : (n, k), of which row i has the first counts[i] filled in
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
    """The largest positive scores of each row, as minus the score, ascending by (value, column)."""
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

    nearest : all rows, nearest to x' first, so that R(nearest[t]) = t + 1; rows from ``first`` on
        are scored
    votes : where x' stands in the lists, (query - low) * width + position; width : of the lists
    mutual : whether w is the position from 1 plus the rank of the query, or the position alone
    scores : (queries, rows from ``first`` on)
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
