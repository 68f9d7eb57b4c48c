"""A heap of (key, id) pairs, the least first, ties by the lower id."""

from __future__ import annotations

from kinrank.kernels.jit import inner


@inner
def before(a, a_id, b, b_id):
    """Whether the first pair comes before the second."""
    return a < b or (a == b and a_id < b_id)


@inner
def push(keys, ids, size, key, number):
    """Add a pair; returns the new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if not before(key, number, keys[parent], ids[parent]):
            break
        keys[at], ids[at] = keys[parent], ids[parent]
        at = parent
    keys[at], ids[at] = key, number
    return size + 1


@inner
def pop(keys, ids, size):
    """Remove the first pair; returns the new size."""
    size -= 1
    key, number = keys[size], ids[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(keys[child + 1], ids[child + 1], keys[child], ids[child]):
            child += 1
        if not before(keys[child], ids[child], key, number):
            break
        keys[at], ids[at] = keys[child], ids[child]
        at = child
    keys[at], ids[at] = key, number
    return size
