"""A heap of (key, id) pairs, the least first, ties by the lower id.

A pair is one number, the bits of its key above its id: then one comparison orders it.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner

_LAST = np.int64(0x7FFFFFFFFFFFFFFF)
_SIGN = np.int32(0x7FFFFFFF)


@inner
def packed(key, number):
    """A pair as a number in the same order; key : float32."""
    bits = np.float32(key).view(np.int32)
    return (np.int64(bits ^ ((bits >> 31) & _SIGN)) << 32) | np.int64(number)


@inner
def unpacked(pair):
    """Key and id of a pair."""
    bits = np.int32(pair >> 32)
    return np.int32(bits ^ ((bits >> 31) & _SIGN)).view(np.float32), np.int32(pair & _SIGN)


@inner
def push(heap, size, key, number):
    """Add a pair; returns the new size."""
    pair = packed(key, number)
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= pair:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = pair
    return size + 1


@inner
def pop(heap, size):
    """Remove the first pair; returns the new size."""
    size -= 1
    # so that every child has a sibling
    pair = heap[size]
    heap[size] = _LAST
    at = np.int64(0)
    child = np.int64(1)
    while child < size:
        child += np.int64(heap[child + 1] < heap[child])  # a branch would be guessed wrong
        if heap[child] >= pair:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * child + 1
    heap[at] = pair
    return size
