"""Queries against a gallery: candidates from products, then exact values in a fixed order."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel, summing_kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@summing_kernel
def inner_product(x, y):
    """Sum of x y, in one fixed order."""
    total = np.float32(0)
    for t in range(x.shape[0]):
        total += x[t] * y[t]
    return total


@kernel
def measure(x, y, inner):
    """What is searched by: minus the inner product, or the squared Euclidean distance."""
    return -inner_product(x, y) if inner else squared_distance(x, y)


@kernel
def settle_queries(
    low, high, queries, gallery, inner, margins, heap_values, heap_ids, sizes, indices, values
):  # fmt: skip
    """Exact values of the candidates of queries [low, high), the first k ascending by (value, id).

    margins : (rows, 2) what a heap's values lack to be exact, and how far they may be off; when the
    last candidate is not clearly farther than the last answer, all rows are computed exactly.
    """
    n, k, capacity = gallery.shape[0], indices.shape[1], heap_values.shape[1]
    best, keys = np.empty(k, np.float32), np.empty(k, np.int32)
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        x, size = queries[row], np.int64(0)
        for t in range(sizes[row]):
            j = heap_ids[row, t]
            value = measure(x, row_of(gallery, j, space), inner)
            size = heap_offer(best, keys, size, k, value, j)
        scale = np.float32(0.5) if inner else np.float32(1)
        bound = scale * heap_values[row, 0] + margins[row, 0] - margins[row, 1]
        if capacity < n and best[0] >= bound:
            size = np.int64(0)
            for j in range(n):
                value = measure(x, row_of(gallery, j, space), inner)
                size = heap_offer(best, keys, size, k, value, np.int32(j))
        sort_heap(best, keys, size)
        indices[row], values[row] = keys, best


@kernel
def dense_values(low, high, queries, gallery, inner, out):
    """Exact values of queries [low, high) to the whole gallery."""
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        for j in range(gallery.shape[0]):
            out[row - low, j] = measure(queries[row], row_of(gallery, j, space), inner)


@kernel
def settle_candidates(low, high, queries, gallery, found, indices, values):
    """The first k of the candidates of queries [low, high), by their exact squared distances.

    found : (n_queries, K) candidates, each once, K at least k
    """
    k = indices.shape[1]
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        size = np.int64(0)
        for t in range(found.shape[1]):
            j = found[row, t]
            value = squared_distance(queries[row], row_of(gallery, j, space))
            size = heap_offer(values[row], indices[row], size, k, value, j)
        sort_heap(values[row], indices[row], size)
