"""A graph of distances: rows in the order of their distance, and its connected parts.

Functions under ``kernel`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.topk import sift_down, sort_heap


@kernel
def sorted_rows(start, lengths, ids, values, below):
    """Each row's entries < ``below`` ascending by (value, id), itself first at distance 0.

    start : the number of the first row; lengths : (n,) how many entries each of n rows has
    ids, values : int32 and float32, the entries of all rows one after the other
    Returns lengths, ids and values of the sorted rows.
    """
    n = lengths.shape[0]
    out_lengths = np.zeros(n, np.int64)
    out_ids = np.empty(ids.shape[0] + n, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    begin = out_begin = 0
    for row in range(n):
        out_ids[out_begin] = start + row
        out[out_begin] = np.float32(0)
        size = 0
        for e in range(begin, begin + lengths[row]):
            if values[e] < below and ids[e] != start + row:
                size += 1
                out_ids[out_begin + size] = ids[e]
                out[out_begin + size] = values[e]
        heap = out[out_begin + 1 : out_begin + 1 + size]
        keys = out_ids[out_begin + 1 : out_begin + 1 + size]
        for t in range(size // 2 - 1, -1, -1):
            sift_down(heap, keys, t, size)
        sort_heap(heap, keys, size)
        out_lengths[row] = size + 1
        out_begin += size + 1
        begin += lengths[row]
    return out_lengths, out_ids[:out_begin].copy(), out[:out_begin].copy()


@kernel
def first_members(ptr, ids):
    """The first row of each connected part of a graph, ascending.

    ptr, ids : row i has edges to ids[ptr[i]:ptr[i + 1]]; an edge joins both of its rows, and
        need be stored at one of them only
    """
    n = ptr.shape[0] - 1
    first = np.arange(n)
    for row in range(n):
        for e in range(ptr[row], ptr[row + 1]):
            a = np.int64(row)
            b = np.int64(ids[e])
            while first[a] != a:
                first[a] = first[first[a]]
                a = first[a]
            while first[b] != b:
                first[b] = first[first[b]]
                b = first[b]
            first[max(a, b)] = min(a, b)
    return np.flatnonzero(first == np.arange(n))
