"""Measures of how far two encodings are apart: all that depends on which one is taken.

An encoding is a row of F': non-negative, of sum 1, sparse. Every measure is a sum over the columns
that both rows u and v hold, and a last step:

    js          1 + 1/2 sum f(u) + f(v) - f(u + v),  f(x) = x log2 x
    jaccard     1 - m / (2 - m),  m = sum min(u, v)
    cosine      1 - m / (|u| |v|),  m = sum u v
    euclidean   sqrt(|u|^2 + |v|^2 - 2 m),  m = sum u v

To add one: a code and a line of ``MEASURES``; its name in ``MeasureName``; its term in
``column_terms``, ``shared_sum`` and ``exact_term``, which sum it for a column, for a pair of rows
and for a pair in float64; its last step in ``finish``. ``tests/naive.py`` has the slow twin.

"similarity" is no such sum: it is 1 - F'_ij / max_j F'_ij, F' itself.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel

MeasureName: TypeAlias = Literal["js", "jaccard", "cosine", "euclidean", "similarity"]

JS = 0
JACCARD = 1
COSINE = 2
EUCLIDEAN = 3


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure as the stages see it.

    code : what kernels know it by; None where it is no sum over shared columns
    in_unit_interval : whether it lies in [0, 1], and is 1 for rows that share no column; otherwise
        it is the Euclidean distance where they share none
    uses_norms : whether its last step reads the Euclidean norms of both rows
    uses_entropies : whether its terms read x log2 x of both entries
    has_bound : whether ``kernels.bounded`` has a bound of its sums
    """

    code: int | None
    in_unit_interval: bool = True
    uses_norms: bool = False
    uses_entropies: bool = False
    has_bound: bool = False

    @property
    def answers_queries(self) -> bool:
        """Whether an index can compare new queries by it."""
        return self.code is not None and self.in_unit_interval


MEASURES: dict[str, Measure] = {
    "js": Measure(code=JS, uses_entropies=True, has_bound=True),
    "jaccard": Measure(code=JACCARD),
    "cosine": Measure(code=COSINE, uses_norms=True),
    "euclidean": Measure(code=EUCLIDEAN, uses_norms=True, in_unit_interval=False),
    "similarity": Measure(code=None),
}

ROOT_HALF = np.int32(0x3F3504F3)
# log2(1 + m) / m for m in [sqrt(1/2) - 1, sqrt(2) - 1]: least squares, off by less than 4e-8.
_L1 = np.float32(1.442695)
_L2 = np.float32(-0.721347333)
_L3 = np.float32(0.480910642)
_L4 = np.float32(-0.360704833)
_L5 = np.float32(0.287917586)
_L6 = np.float32(-0.238919953)
_L7 = np.float32(0.215675436)
_L8 = np.float32(-0.20742503)
_L9 = np.float32(0.126139669)
COEFFICIENTS = (_L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8, _L9)


@inner
def xlog2x(x):
    """x log2 x of a float32 that is not negative; 0 for 0.

    x = 2^e (1 + m), and log2(1 + m) is a polynomial: numba's logarithm does not vectorise, and a
    loop over this does.
    """
    bits = np.float32(x).view(np.int32)
    e = (bits - ROOT_HALF) >> np.int32(23)
    m = np.int32(bits - (e << np.int32(23))).view(np.float32) - np.float32(1)
    high = _L5 + m * (_L6 + m * (_L7 + m * (_L8 + m * _L9)))
    return x * (np.float32(e) + m * (_L1 + m * (_L2 + m * (_L3 + m * (_L4 + m * high)))))


@kernel
def entropies(values):
    """x log2 x of every entry; float32, of the length of ``values``."""
    out = np.empty(values.shape[0], np.float32)
    for e in range(values.shape[0]):
        out[e] = xlog2x(values[e])
    return out


@inner
def column_terms(measure, u, fu, v, fv, terms):
    """The terms of one entry u of a row with the entries v of its column, written to ``terms``.

    measure : a code, JS to EUCLIDEAN; u, v : float32, a number and (size,)
    fu, fv : x log2 x of these; terms : (size,) or longer, the output
    Returns the factor that all terms are multiplied by in float64 when they are summed.
    """
    if measure == JS:
        for t in range(v.shape[0]):
            terms[t] = fu + fv[t] - xlog2x(u + v[t])
        return 1.0
    if measure == JACCARD:
        for t in range(v.shape[0]):
            terms[t] = min(u, v[t])
        return 1.0
    for t in range(v.shape[0]):
        terms[t] = v[t]
    return np.float64(u)


@inner
def shared_sum(measure, u, v, entropy_sums, terms):
    """The sum of the terms of two rows over the columns that both hold.

    measure : a code; u, v : (size,) float32, the entries of both rows there
    entropy_sums : (size,) f(u) + f(v), f(x) = x log2 x; terms : (size,) scratch
    """
    total = 0.0
    if measure == JS:
        both = 0.0
        for c in range(u.shape[0]):
            terms[c] = xlog2x(u[c] + v[c])
        for c in range(u.shape[0]):
            both += entropy_sums[c]
            total -= terms[c]
        return total + both
    if measure == JACCARD:
        for c in range(u.shape[0]):
            total += min(u[c], v[c])
        return total
    for c in range(u.shape[0]):
        total += np.float64(u[c]) * v[c]
    return total


@inner
def exact_term(measure, u, v):
    """The term of two entries u, v > 0 in float64: equal rows are then equally far."""
    if measure == JS:
        return u * np.log2(u / (u + v)) + v * np.log2(v / (u + v))
    if measure == JACCARD:
        return min(u, v)
    return u * v


@filling
def finish(measure, total, u_squared_norm, v_squared_norm):
    """The distance d' of two rows, from the sum of terms over the columns that both hold.

    u_squared_norm, v_squared_norm : of both rows, Euclidean; "cosine" and "euclidean" read them
    """
    if measure == JS:
        return min(max(1.0 + 0.5 * total, 0.0), 1.0)
    if measure == JACCARD:
        return min(max(1.0 - total / (2.0 - total), 0.0), 1.0)
    if measure == COSINE:
        norm = np.sqrt(np.float64(u_squared_norm) * v_squared_norm)
        return min(max(1.0 - total / norm, 0.0), 1.0) if norm > 0 else 1.0
    return np.sqrt(max(np.float64(u_squared_norm) + v_squared_norm - 2.0 * total, 0.0))
