"""A heap of (key, number) pairs, the least first, ties by the lower number.

A pair is one int64, the bits of its float32 key above its number: then one comparison orders it.

Functions under ``inner`` are called by kernels (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner

_LAST_PAIR = np.int64(0x7FFFFFFFFFFFFFFF)
_LOW_31 = np.int32(0x7FFFFFFF)


@inner
def packed(key, number):
    """A float32 key and an int32 number, not negative, as one int64 in the order of the pairs."""
    bits = np.float32(key).view(np.int32)
    return (np.int64(bits ^ ((bits >> 31) & _LOW_31)) << 32) | np.int64(number)


@inner
def unpacked(pair):
    """The key and the number of a packed pair."""
    bits = np.int32(pair >> 32)
    key_bits = np.int32(bits ^ ((bits >> 31) & _LOW_31))
    return key_bits.view(np.float32), np.int32(pair & _LOW_31)


@inner
def push(heap, size, key, number):
    """Add a pair to the heap heap[:size], int64, longer than that; returns the new size."""
    pair = packed(key, number)
    slot = size
    while slot > 0:
        parent = (slot - 1) >> 1
        if heap[parent] <= pair:
            break
        heap[slot] = heap[parent]
        slot = parent
    heap[slot] = pair
    return size + 1


@inner
def pop(heap, size):
    """Remove the least pair, heap[0], from the heap heap[:size]; returns the new size."""
    size -= 1
    pair = heap[size]
    heap[size] = _LAST_PAIR  # so that every child has a sibling
    slot = np.int64(0)
    child = np.int64(1)
    while child < size:
        child += np.int64(heap[child + 1] < heap[child])  # a branch would be guessed wrong
        if heap[child] >= pair:
            break
        heap[slot] = heap[child]
        slot = child
        child = 2 * child + 1
    heap[slot] = pair
    return size
