"""The order of all values of a row, by counting their digits (radix sort).

A pair is a uint64: above, 32 bits that sort as a float32 value does, below, its position.

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel

_BITS = np.uint64(11)  # of a digit; three digits hold the 32 bits of a value
_DIGITS = 1 << 11  # values that a digit can have
_MASK = np.uint64(_DIGITS - 1)
_KEY = np.uint64(32)  # the bit where the value begins in a pair


@inner
def pair_of(value, position):
    """A float32 value and its position as one number, in the order of the floats; -0.0 is 0.0."""
    bits = np.int32(np.float32(value + np.float32(0)).view(np.int32))
    key = np.uint32(bits ^ ((bits >> np.int32(31)) | np.int32(-0x80000000)))
    return (np.uint64(key) << _KEY) | np.uint64(position)


@inner
def move_pairs(pairs, digit_number, begins, out):
    """Put the pairs into the order of one digit of their values, stable.

    pairs : (n,) uint64; digit_number : 0 for the lowest; out : (n,) uint64, the output
    begins : (2048,) where the pairs with each value of the digit begin in ``out``; they move on
    """
    shift = _KEY + np.uint64(digit_number) * _BITS
    for t in range(pairs.shape[0]):
        pair = pairs[t]
        digit = (pair >> shift) & _MASK
        slot = begins[digit]
        begins[digit] = slot + np.uint32(1)
        out[slot] = pair


@inner
def sort_pairs(pairs, spare, counts):
    """Sort pairs, given in the order of their positions; the result is in ``spare``.

    pairs : (n,) uint64; spare : (n,) uint64, the output; counts : (3, 2048) uint32 scratch
    """
    counts[:] = 0
    for t in range(pairs.shape[0]):
        key = pairs[t] >> _KEY
        counts[0, key & _MASK] += np.uint32(1)
        counts[1, (key >> _BITS) & _MASK] += np.uint32(1)
        counts[2, key >> (_BITS + _BITS)] += np.uint32(1)
    for digit_number in range(3):
        begin = np.uint32(0)
        for digit in range(counts.shape[1]):
            count = counts[digit_number, digit]
            counts[digit_number, digit] = begin
            begin += count
    move_pairs(pairs, 0, counts[0], spare)
    move_pairs(spare, 1, counts[1], pairs)
    move_pairs(pairs, 2, counts[2], spare)


@kernel
def ascending_order(values, out):
    """The positions of ``values`` in ascending order, ties by position.

    values : (n,) float32; out : (n,) int32 or wider, the output
    """
    n = values.shape[0]
    counts = np.empty((3, _DIGITS), np.uint32)
    pairs = np.empty(n, np.uint64)
    spare = np.empty(n, np.uint64)
    for t in range(n):
        pairs[t] = pair_of(values[t], t)
    sort_pairs(pairs, spare, counts)
    for t in range(n):
        out[t] = np.uint32(spare[t])


@kernel
def rank_rows(rows, squared, farthest, divergence, omega, root, order, out_ids, out):
    """The first k gallery rows of each of ``rows`` by d* = (1 - omega) d' + omega d.

    Ascending by (d*, number).
    rows : (m,) int32, queries
    order : (n,) the number that stands for each gallery row in results and in ties, 0 to n - 1
    squared : (m, n) squared distances, by these numbers, overwritten; farthest : (m,) the largest
        squared distance of each query, by which they are divided
    divergence : (m, n) d' by gallery row
    root : whether d is the root of the squared distance over the farthest
    out_ids, out : (n_queries, k) int32 and float32, numbers and d*; lines ``rows`` are written
    """
    n = order.shape[0]
    k = out.shape[1]
    one_minus_omega = np.float32(1) - omega
    one = np.float32(1)
    values = np.empty(n, np.float32)
    counts = np.empty((3, _DIGITS), np.uint32)
    pairs = np.empty(n, np.uint64)
    spare = np.empty(n, np.uint64)
    for i in range(rows.shape[0]):
        weighted = squared[i]
        scale = farthest[i]
        for t in range(n):
            d = min(weighted[t] / scale, one) if scale > 0 else np.float32(0)
            weighted[t] = omega * (np.sqrt(d) if root else d)
        for t in range(n):
            number = np.uint32(order[t])
            values[number] = one_minus_omega * divergence[i, t] + weighted[number]
            pairs[number] = pair_of(values[number], number)
        sort_pairs(pairs, spare, counts)
        row_ids = out_ids[rows[i]]
        row_values = out[rows[i]]
        for t in range(k):
            row_ids[t] = np.uint32(spare[t])
            row_values[t] = values[np.uint32(spare[t])]
