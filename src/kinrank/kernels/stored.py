"""Rows that are kept as float32, or as the bits of float16, for which numba has no type."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from kinrank.kernels.jit import kernel

# 2^112: what the bits of a float16, put where a float32 has its own, lack (the exponents' biases).
_LACKING = np.float32(2.0**112)


@kernel
def decode(bits, out):
    """The float32 values of some float16 bits; exact for all that are finite."""
    for t in range(bits.shape[0]):
        half = np.uint32(bits[t])
        sign = (half & np.uint32(0x8000)) << np.uint32(16)
        rest = (half & np.uint32(0x7FFF)) << np.uint32(13)
        out[t] = np.uint32(sign | rest).view(np.float32) * _LACKING


def row_of(vectors, row, space):
    """Row ``row`` in float32: itself, or decoded into ``space``.

    Distances are then computed by one and the same code, which alone makes them the same bits.
    """
    if vectors.dtype != np.uint16:
        return vectors[row]
    decode(vectors[row], space)
    return space


# Inlined: a view that comes back from a call would be counted as a reference, row after row.
@overload(row_of, inline="always")
def _row_of(vectors, row, space):  # noqa: ARG001
    if str(vectors.dtype) != "uint16":
        return lambda vectors, row, space: vectors[row]  # noqa: ARG005

    def decoded(vectors, row, space):
        decode(vectors[row], space)
        return space

    return decoded
