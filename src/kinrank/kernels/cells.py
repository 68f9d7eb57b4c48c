"""Rows of one cell against those of the cells around it."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def settle_cell(
    low, high, rows, names, own, members, numbers, places, found, sizes, out_ids, out
):  # fmt: skip
    """The first k of the candidates of rows [low, high), exact distances, by (distance, number).

    rows : (m, d) of one cell; names : (m,) their numbers; own : whether they are members
        themselves, and then first in their lists
    members, numbers : all vectors in the order of cells, and their numbers
    places : where the columns of the products lie in ``members``; found : (m, K) such columns, of
        which the first ``sizes`` are filled
    out_ids, out : (m, k); -1 and infinity where there are too few
    """
    k = out.shape[1]
    first = 1 if own else 0
    best, keys = np.empty(k, np.float32), np.empty(k, np.int32)
    for row in range(low, high):
        size = 0
        for t in range(sizes[row]):
            place = places[found[row, t]]
            if not own or numbers[place] != names[row]:
                d = squared_distance(rows[row], members[place])
                size = heap_offer(best, keys, size, k - first, d, numbers[place])
        sort_heap(best, keys, size)
        if own:
            out_ids[row, 0], out[row, 0] = names[row], 0
        for t in range(first, k):
            filled = t - first < size
            out_ids[row, t] = keys[t - first] if filled else -1
            out[row, t] = best[t - first] if filled else np.float32(np.inf)
