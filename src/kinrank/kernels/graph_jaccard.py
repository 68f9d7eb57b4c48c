"""Rows of a distance graph in the order of their distance."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling
from kinrank.kernels.topk import sift_down, sort_heap


@filling
def sorted_rows(start, lengths, ids, values, below):
    """Each row's entries < ``below`` ascending by (value, id), itself first at distance 0.

    start : number of the first row. Returns lengths, indices, data.
    """
    n = lengths.shape[0]
    out_lengths = np.zeros(n, np.int64)
    out_ids = np.empty(ids.shape[0] + n, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    begin = at = 0
    for row in range(n):
        out_ids[at], out[at] = start + row, np.float32(0)
        size = 0
        for e in range(begin, begin + lengths[row]):
            if values[e] < below and ids[e] != start + row:
                size += 1
                out_ids[at + size], out[at + size] = ids[e], values[e]
        heap, keys = out[at + 1 : at + 1 + size], out_ids[at + 1 : at + 1 + size]
        for t in range(size // 2 - 1, -1, -1):
            sift_down(heap, keys, t, size)
        sort_heap(heap, keys, size)
        out_lengths[row] = size + 1
        at += size + 1
        begin += lengths[row]
    return out_lengths, out_ids[:at].copy(), out[:at].copy()
