"""Queries against a gallery: candidates from products, then exact values in a fixed order.

Vectors are (n, d), float32 or the bits of float16. A value is the squared Euclidean distance, or
minus the inner product: the smaller the nearer.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner_sum`` by
kernels; the sums of ``inner_sum`` may be regrouped (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner_sum, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

_QUERIES = 64  # queries that are compared at a time,
_TILE = 32  # with so many gallery rows


@inner_sum
def inner_product(x, y):
    """Sum of x y of float32 vectors, in one fixed order."""
    total = np.float32(0)
    for t in range(x.shape[0]):
        total += x[t] * y[t]
    return total


@kernel
def settle(
    low, high, queries, self_numbers, gallery, numbers, inner, bounds, candidates, indices, values
):
    """The first k candidates of queries [low, high) by exact value, ascending by (value, number).

    queries : (n_queries, d) float32
    self_numbers : (n_queries,) int32, the number of a query that is a gallery row itself: it comes
        first in its own list at value 0; -1 for others
    gallery : (n, d)
    numbers : (n,) int32, the number that stands for each gallery row in results and in ties; empty
        where that is its position
    inner : by minus the inner product and not by the squared Euclidean distance
    bounds : (n_queries,) no gallery row outside the candidates has a smaller value; where the last
        result is not below it, as with ties and duplicates, all rows are compared
    candidates : (n_queries, K) int32, positions in the gallery, each once, -1 behind the last
    indices, values : (n_queries, k) int32 and float32, the output: numbers and values, -1 and
        infinity behind the last
    """
    k = indices.shape[1]
    has_numbers = numbers.shape[0] > 0
    best = np.empty(k, np.float32)
    best_numbers = np.empty(k, np.int32)
    buffer = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        x = queries[row]
        self_number = self_numbers[row]
        bound = bounds[row]
        n_self = np.int64(self_number >= 0)
        size = np.int64(0)
        for look_at_all in (False, True):
            size = np.int64(0)
            for t in range(gallery.shape[0] if look_at_all else candidates.shape[1]):
                j = np.int32(t) if look_at_all else candidates[row, t]
                if j < 0:
                    break
                number = numbers[j] if has_numbers else j
                if number != self_number:
                    y = row_of(gallery, j, buffer)
                    value = -inner_product(x, y) if inner else squared_distance(x, y)
                    size = heap_offer(best, best_numbers, size, k - n_self, value, number)
            if k == n_self or bound == np.inf or best[0] < bound:
                break
        sort_heap(best, best_numbers, size)
        if n_self:
            indices[row, 0] = self_number
            values[row, 0] = 0
        for t in range(n_self, k):
            filled = t - n_self < size
            indices[row, t] = best_numbers[t - n_self] if filled else -1
            values[row, t] = best[t - n_self] if filled else np.float32(np.inf)


@kernel
def dense_values(low, high, queries, gallery, inner, out):
    """The values of queries [low, high) with all of the gallery, a few rows of each at a time.

    So that both stay in the caches.
    queries : (n_queries, d) float32; gallery : (n, d)
    inner : whether a value is minus the inner product, or the squared distance
    out : (high - low, n) float32, the output
    """
    n = gallery.shape[0]
    buffer = np.empty(gallery.shape[1], np.float32)
    for begin in range(low, high, _QUERIES):
        for first in range(0, n, _TILE):
            last = min(first + _TILE, n)
            for row in range(begin, min(begin + _QUERIES, high)):
                x = queries[row]
                row_out = out[row - low]
                for j in range(first, last):
                    y = row_of(gallery, j, buffer)
                    row_out[j] = -inner_product(x, y) if inner else squared_distance(x, y)


@filling
def merge(low, high, a_ids, a, b_ids, b, out_ids, out):
    """The first k of two lists a and b of each row, of which both ascend by (value, id).

    For rows [low, high). a_ids, a, b_ids, b : (n, any) ids and values; no id is in both lists of a
    row
    out_ids, out : (n, k) int32 and float32, the output; -1 and infinity behind the end of both
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
