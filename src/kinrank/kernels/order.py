"""The order of all values of a row, by counting their digits."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel

_BITS = 11  # of a digit; three of them are a float32
_DIGITS = 1 << _BITS
_MASK = np.uint32(_DIGITS - 1)


@inner
def sort_key(value):
    """An unsigned number in the order of the floats; -0.0 is 0.0."""
    bits = np.int32(np.float32(value + np.float32(0)).view(np.int32))
    return np.uint32(bits ^ ((bits >> np.int32(31)) | np.int32(-0x80000000)))


@inner
def begin_digits(counts):
    """How often digits occur, as where each of them begins."""
    for place in range(counts.shape[0]):
        begin = np.int64(0)
        for digit in range(counts.shape[1]):
            count = counts[place, digit]
            counts[place, digit] = begin
            begin += count


@kernel
def ascending_order(values, out):
    """The positions of ``values`` in their order, ties by position: least digits first, stable."""
    n, counts = values.shape[0], np.zeros((3, _DIGITS), np.int64)
    keys, ids = np.empty((2, n), np.uint32), np.empty((2, n), np.uint32)
    for t in range(n):
        key = sort_key(values[t])
        counts[0, key & _MASK] += 1
        counts[1, (key >> np.uint32(_BITS)) & _MASK] += 1
        counts[2, key >> np.uint32(2 * _BITS)] += 1
    begin_digits(counts)
    for t in range(n):
        key = sort_key(values[t])
        at = counts[0, key & _MASK]
        counts[0, key & _MASK] = at + 1
        keys[0, at], ids[0, at] = key, t
    for t in range(n):
        key = keys[0, t]
        digit = (key >> np.uint32(_BITS)) & _MASK
        at = counts[1, digit]
        counts[1, digit] = at + 1
        keys[1, at], ids[1, at] = key, ids[0, t]
    for t in range(n):
        digit = keys[1, t] >> np.uint32(2 * _BITS)
        at = counts[2, digit]
        counts[2, digit] = at + 1
        out[at] = ids[1, t]
