"""The affinity of two rows, exp(-d^2 / sigma^2): of lists of neighbours, and of any pairs.

The graph of all rows, that of a query, the smoothing walk and "original" similarities take it from
here.

Functions under ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner


@inner
def affinity(squared, farthest, sigma2):
    """exp(-d^2 / sigma^2), d^2 the squared distance over the largest one of the row, at most 1.

    squared, farthest : the squared distance, and the row's largest; sigma2 : sigma^2
    0 for an infinite distance, as behind the end of a list.
    """
    if np.isinf(squared):
        return 0.0
    scale = np.float64(farthest) if farthest > 0 else 1.0
    return np.exp(-min(np.float64(squared) / scale, 1.0) / sigma2)


@filling
def affinity_lists(low, high, squared, farthest, first, sigma2, out):
    """The affinities of rows [low, high) to their neighbours in columns first, first + 1, ...

    squared : (n, K) squared distances of lists of neighbours
    farthest : (n,) the largest squared distance of each row
    sigma2 : sigma^2; out : (n, k) float32, the output
    """
    for row in range(low, high):
        for t in range(out.shape[1]):
            out[row, t] = affinity(squared[row, first + t], farthest[row], sigma2)


@filling
def affinity_pairs(squared, farthest, sigma2, out):
    """The affinity of each of p pairs.

    squared, farthest : (p,) squared distance, and what it is divided by; out : (p,) float32, the
        output
    """
    for pair in range(squared.shape[0]):
        out[pair] = affinity(squared[pair], farthest[pair], sigma2)
