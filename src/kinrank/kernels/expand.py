"""Weighted sums of vectors, and the refined lists of SuperGlobal."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel, summing_kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap


@summing_kernel
def weighted_sums(low, high, rows, gallery, ids, weights, out):
    """The unit vector along weights[i, 0] rows[i] + sum of weights[i, t + 1] gallery[ids[i, t]].

    A sum of length zero leaves the row as it is.
    """
    d = rows.shape[1]
    total, mine, space = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32)
    for row in range(low, high):
        own = row_of(rows, row, mine)
        for c in range(total.shape[0]):
            total[c] = weights[row, 0] * own[c]
        for t in range(ids.shape[1]):
            weight, other = weights[row, t + 1], row_of(gallery, ids[row, t], space)
            for c in range(total.shape[0]):
                total[c] += weight * other[c]
        square = 0.0
        for c in range(total.shape[0]):
            square += np.float64(total[c]) * total[c]
        norm = np.sqrt(square)
        for c in range(total.shape[0]):
            out[row, c] = total[c] / norm if norm > 0 else own[c]


@kernel
def refined_list(similarity, members, k, beta):
    """Each member as the mean of itself and its k - 1 most similar, these weighted by beta s.

    similarity : (m, m) of the members, (m, d); ties go to the earlier member.
    """
    m, d = members.shape
    out = np.empty((m, d), np.float32)
    best, keys = np.empty(max(k - 1, 1), np.float32), np.empty(max(k - 1, 1), np.int32)
    for row in range(m):
        size = np.int64(0)
        for j in range(m):
            if j != row and k > 1:
                size = heap_offer(best, keys, size, k - 1, -similarity[row, j], np.int32(j))
        sort_heap(best, keys, size)
        total, weights = members[row].astype(np.float64), 1.0
        for t in range(size):
            weight, other = beta * -np.float64(best[t]), members[keys[t]]
            weights += weight
            for c in range(d):
                total[c] += weight * other[c]
        for c in range(d):
            out[row, c] = total[c] / weights
    return out
