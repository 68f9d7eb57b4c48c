"""Jaccard distances with sums in float16."""

from __future__ import annotations

import math

import numpy as np

from kinrank.kernels.jit import inner, kernel


@inner
def rounded(x):
    """x >= 0 rounded to float16: 11 binary digits, and steps of 2^-24 at the low end."""
    if x <= 0:
        return np.float32(0)
    exponent = math.frexp(x)[1]
    step = math.ldexp(1.0, max(exponent, -13) - 11)
    return np.float32(np.rint(x / step) * step)


@kernel
def half_jaccard(low, high, ptr, ids, values, pair_ptr, pair_ids, out):
    """1 - m / (2 - m) of each row and the rows listed for it, every step rounded to float16."""
    dense = np.zeros(ptr.shape[0] - 1, np.float32)
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            dense[ids[e]] = values[e]
        for pair in range(pair_ptr[row], pair_ptr[row + 1]):
            other = pair_ids[pair]
            total = np.float32(0)
            for e in range(ptr[other], ptr[other + 1]):
                least = min(dense[ids[e]], values[e])
                if least > 0:
                    total = rounded(total + least)
            out[pair] = rounded(np.float32(1) - rounded(total / rounded(np.float32(2) - total)))
        for e in range(ptr[row], ptr[row + 1]):
            dense[ids[e]] = 0
