"""The last step: distances at chosen places, and the first k of what was chosen."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def distances_at(low, high, rows, vectors, farthest, ptr, ids, out):
    """Squared distance over the row's farthest, for the places (rows[i], ids[ptr[i]:ptr[i+1]])."""
    for at in range(low, high):
        row = rows[at]
        x, scale = vectors[row], farthest[row]
        for e in range(ptr[at], ptr[at + 1]):
            value = squared_distance(x, vectors[ids[e]])
            out[e] = min(value / scale, np.float32(1)) if scale > 0 else np.float32(0)


@kernel
def dense_distances(low, high, rows, vectors, farthest, first, out):
    """Squared distance over the row's farthest, from rows[i] to all rows from ``first`` on."""
    for at in range(low, high):
        row = rows[at]
        x, scale = vectors[row], farthest[row]
        for j in range(first, vectors.shape[0]):
            value = squared_distance(x, vectors[j])
            out[at, j - first] = min(value / scale, np.float32(1)) if scale > 0 else np.float32(0)


@kernel
def first_of(low, high, ptr, ids, values, bounds, first, out_ids, out, complete):
    """The smallest of each row's candidates, ascending by (value, id).

    bounds[i] : nothing outside the candidates is below it; complete[i] : whether that suffices.
    """
    k = out_ids.shape[1]
    best, keys = np.empty(k, np.float32), np.empty(k, np.int32)
    for row in range(low, high):
        size = 0
        for e in range(ptr[row], ptr[row + 1]):
            size = heap_offer(best, keys, size, k, values[e], ids[e])
        complete[row] = size == k and best[0] < bounds[row]
        sort_heap(best, keys, size)
        for t in range(size):
            out_ids[row, t], out[row, t] = keys[t] - first, best[t]
        for t in range(size, k):
            out_ids[row, t], out[row, t] = -1, np.float32(np.inf)
