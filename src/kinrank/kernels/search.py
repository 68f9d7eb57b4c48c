"""Queries against a gallery: candidates from products, then exact values in a fixed order."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner_sum, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

_QUERIES = 64  # and
_TILE = 32  # gallery rows, that are compared at a time


@inner_sum
def inner_product(x, y):
    """Sum of x y, in one fixed order."""
    total = np.float32(0)
    for t in range(x.shape[0]):
        total += x[t] * y[t]
    return total


@kernel
def settle(
    low, high, queries, own_numbers, gallery, numbers, inner, bounds, candidates, indices, values
):
    """The first k candidates of queries [low, high) by exact value, ascending by (value, number).

    own_numbers : (n_queries,) the number of a query that is a gallery row, which begins its own
        list at value 0; -1 for others
    numbers : (n,) the number of each gallery row, or empty where that is its position
    bounds : (n_queries,) no gallery row outside the candidates has a smaller value; where the last
        answer is not below it, as with ties and duplicates, all rows are looked at
    candidates : (n_queries, K) gallery rows, each once, -1 behind the last
    inner : by minus the inner product and not by the squared Euclidean distance
    indices, values : (n_queries, k); -1 and infinity behind the last
    """
    k = indices.shape[1]
    numbered = numbers.shape[0] > 0
    best = np.empty(k, np.float32)
    keys = np.empty(k, np.int32)
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        x = queries[row]
        own_number = own_numbers[row]
        bound = bounds[row]
        n_own = np.int64(own_number >= 0)
        size = np.int64(0)
        for every in (False, True):
            size = np.int64(0)
            for t in range(gallery.shape[0] if every else candidates.shape[1]):
                j = np.int32(t) if every else candidates[row, t]
                if j < 0:
                    break
                number = numbers[j] if numbered else j
                if number != own_number:
                    y = row_of(gallery, j, space)
                    value = -inner_product(x, y) if inner else squared_distance(x, y)
                    size = heap_offer(best, keys, size, k - n_own, value, number)
            if k == n_own or bound == np.inf or best[0] < bound:
                break
        sort_heap(best, keys, size)
        if n_own:
            indices[row, 0] = own_number
            values[row, 0] = 0
        for t in range(n_own, k):
            filled = t - n_own < size
            indices[row, t] = keys[t - n_own] if filled else -1
            values[row, t] = best[t - n_own] if filled else np.float32(np.inf)


@kernel
def dense_values(low, high, queries, gallery, inner, out):
    """Minus the inner products of queries [low, high) and the gallery, or squared distances.

    A few gallery rows at a time for a few queries, so that both stay in the caches.
    """
    n = gallery.shape[0]
    space = np.empty(gallery.shape[1], np.float32)
    for begin in range(low, high, _QUERIES):
        for first in range(0, n, _TILE):
            last = min(first + _TILE, n)
            for row in range(begin, min(begin + _QUERIES, high)):
                x = queries[row]
                row_out = out[row - low]
                for j in range(first, last):
                    y = row_of(gallery, j, space)
                    row_out[j] = -inner_product(x, y) if inner else squared_distance(x, y)


@filling
def merge(low, high, a_ids, a, b_ids, b, out_ids, out):
    """The first of two lists a and b of each row, which ascend by (value, id); -1, inf behind.

    No id is in both lists of a row.
    """
    for row in range(low, high):
        i = 0
        j = 0
        for t in range(out.shape[1]):
            has_a = i < a.shape[1]
            has_b = j < b.shape[1]
            take_a = has_a and (
                not has_b
                or a[row, i] < b[row, j]
                or (a[row, i] == b[row, j] and a_ids[row, i] < b_ids[row, j])
            )
            if take_a:
                out_ids[row, t] = a_ids[row, i]
                out[row, t] = a[row, i]
                i += 1
            elif has_b:
                out_ids[row, t] = b_ids[row, j]
                out[row, t] = b[row, j]
                j += 1
            else:
                out_ids[row, t] = -1
                out[row, t] = np.float32(np.inf)
