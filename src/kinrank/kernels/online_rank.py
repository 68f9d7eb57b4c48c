"""The last step of a query: the first k rows by d' and d together."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.online import tick
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def rank_near(row, block, shared, omega, root, names, n_gallery, space, out_ids, out):
    """The first k of the nearest rows, as a heap.

    Returns their number, what is left of the distance of any other row (omega d of the last), and
    the stamp that marks the nearest in ``known``.
    """
    size, d, part = np.int64(0), np.float32(0), np.float32(1) - omega
    stamp = tick(space.clock)
    for t in range(block.counts[row]):
        near = block.ids[row, t]
        space.known[near] = stamp
        d = scaled(block.d[row, t], block.farthest[row], root)
        if names[near] < n_gallery:
            shares = space.seen[near] == shared
            modified = np.float32(space.total[near]) if shares else np.float32(1)
            value = part * modified + omega * d
            size = heap_offer(out, out_ids, size, out.shape[0], value, names[near])
    return size, omega * d, stamp


@kernel
def tell(row, block, space):
    """Take note of the distances that are told; returns their stamp in ``stepped``."""
    stamp = tick(space.clock)
    for e in range(block.told.ptr[row], block.told.ptr[row + 1]):
        space.stepped[block.told.ids[e]] = stamp
        space.distance[block.told.ids[e]] = block.told.d[e]
    return stamp


@kernel
def rank(
    row, block, count, shared, vectors, omega, root, names, n_gallery, space, out_ids, out
):  # fmt: skip
    """The first k of the nearest rows and those that share something with the query.

    A row that is not among the nearest is no nearer than the last of them: most are ruled out by
    that bound. Where nobody knows it, their distance is that bound.
    """
    k, far, part = out.shape[0], block.farthest[row], np.float32(1) - omega
    size, beyond, stamp = rank_near(
        row, block, shared, omega, root, names, n_gallery, space, out_ids, out
    )
    told = tell(row, block, space)
    for t in range(count):
        other = space.touched[t]
        if space.known[other] == stamp or names[other] >= n_gallery:
            continue
        value = part * np.float32(space.total[other])
        if size == k and value + beyond > out[0]:
            continue
        if vectors.shape[0] > 0:
            value += omega * scaled(squared_distance(block.x[row], vectors[other]), far, root)
        elif space.stepped[other] == told:
            value += omega * scaled(space.distance[other], far, root)
        else:
            value += beyond
        size = heap_offer(out, out_ids, size, k, value, names[other])
    whole = block.counts[row] == names.shape[0]
    complete = whole or (size == k and out[0] < part + beyond)
    sort_heap(out, out_ids, size)
    out_ids[size:] = -1
    out[size:] = np.inf
    return complete


@kernel
def scaled(squared, far, root):
    """d of a squared distance."""
    d = min(squared / far, np.float32(1)) if far > 0 else np.float32(0)
    return np.sqrt(d) if root else d
