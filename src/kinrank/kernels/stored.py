"""Vectors that are kept as float32, or as the bits of float16, for which numba has no type.

Functions under ``kernel`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from kinrank.kernels.jit import kernel

# The biases of the exponents, 127 and 15, differ by 112: the bits of a float16, put where a float32
# has them, are a number that is 2^112 times too small.
_BIAS_FACTOR = np.float32(2.0**112)


@kernel
def decode(bits, out):
    """The float32 values of float16 numbers; exact for all that are finite.

    bits : (d,) uint16, the numbers; out : (d,) float32, the output
    """
    for t in range(bits.shape[0]):
        half = np.uint32(bits[t])
        sign = (half & np.uint32(0x8000)) << np.uint32(16)
        rest = (half & np.uint32(0x7FFF)) << np.uint32(13)
        out[t] = np.uint32(sign | rest).view(np.float32) * _BIAS_FACTOR


def row_of(vectors, row, buffer):
    """Vector number ``row`` in float32: itself, or decoded into ``buffer``, which is returned then.

    vectors : (n, d) float32, or uint16, the bits of float16; buffer : (d,) float32
    Distances are then computed by one and the same code, which alone makes them the same bits.
    """
    if vectors.dtype != np.uint16:
        return vectors[row]
    decode(vectors[row], buffer)
    return buffer


# Inlined: a view that comes back from a call would be counted as a reference, row after row.
@overload(row_of, inline="always")
def _row_of(vectors, row, buffer):  # noqa: ARG001
    """``row_of`` for numba, which calls this with types and compiles the function returned."""
    if str(vectors.dtype) != "uint16":
        return lambda vectors, row, buffer: vectors[row]  # noqa: ARG005

    def decoded(vectors, row, buffer):
        decode(vectors[row], buffer)
        return buffer

    return decoded
