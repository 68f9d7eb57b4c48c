"""Sums over the rank lists of a query's nearest."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling


@filling
def add_inverse_ranks(order, first, position, own_rank, total):
    """total[x] += 1 / ((position + own rank) R(x)) for the rows x >= ``first`` of one rank list.

    order : all rows, nearest first, so that R(order[t]) = t + 1
    """
    weight = np.float64(position + own_rank)
    for t in range(order.shape[0]):
        x = order[t]
        if x >= first:
            total[x - first] += 1.0 / (weight * (t + 1))
