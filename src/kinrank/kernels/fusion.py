"""The last step of a ranking by d* = (1 - omega) d' + omega d: what d is, and the first k.

Functions under ``inner`` are called by kernels (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner
from kinrank.kernels.topk import sort_heap


@inner
def scaled_distance(squared, farthest, root):
    """d: a squared distance over the row's largest, at most 1, or with ``root`` the root of that.

    farthest : the largest squared distance of the row; 0 where all rows are equal: d is 0 then
    """
    d = min(squared / farthest, np.float32(1)) if farthest > 0 else np.float32(0)
    return np.sqrt(d) if root else d


@inner
def put_first(values, numbers, size, first, out_ids, out):
    """Write a heap as a ranking: ascending by (value, number), then -1 and infinity.

    values, numbers, size : a max-heap of d* and of the numbers that stand for rows in ties
        (``topk.heap_offer``), which is sorted in place, and how many it holds
    first : what is subtracted from the numbers: results count from the first gallery row
    out_ids, out : (k,) int32 and float32, the output
    """
    sort_heap(values, numbers, size)
    for t in range(out.shape[0]):
        out_ids[t] = numbers[t] - first if t < size else -1
        out[t] = values[t] if t < size else np.float32(np.inf)
