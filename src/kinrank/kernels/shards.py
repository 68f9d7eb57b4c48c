"""Kernels of the search in shards: which rows may be the farthest."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling
from kinrank.kernels.topk import CHUNK, squared_distance

CONTENDERS = 8


@filling
def race(low, high, products, norms, first, margins, tops, values, ids, counts):
    """Keep the columns of a tile whose |y|^2 - 2 xy may be the largest of their row.

    Products are rounded, so all within ``margins`` of the largest may.
    tops : (rows,) the largest so far; values, ids : (rows, CONTENDERS) those near it; counts :
    (rows,) how many they are, CONTENDERS + 1 if more than can be held
    """
    two = np.float32(2)
    for row in range(low, high):
        product = products[row]
        top = tops[row]
        margin = margins[row]
        count = counts[row]
        near = top - margin
        for begin in range(0, product.shape[0], CHUNK):
            end = min(begin + CHUNK, product.shape[0])
            hits = np.int32(0)
            for t in range(begin, end):
                hits += np.int32(norms[t] - two * product[t] > near)
            if hits == 0:
                continue
            for t in range(begin, end):
                value = norms[t] - two * product[t]
                if value <= near:
                    continue
                if value > top:
                    if value - margin >= top:
                        count = 0  # all before are out of the race
                    top = value
                    near = value - margin
                if count == CONTENDERS:
                    count = 0
                    for s in range(CONTENDERS):
                        if values[row, s] > near:
                            values[row, count] = values[row, s]
                            ids[row, count] = ids[row, s]
                            count += 1
                if count < CONTENDERS:
                    values[row, count] = value
                    ids[row, count] = first + t
                    count += 1
                else:
                    count = CONTENDERS + 1
        tops[row] = top
        counts[row] = count


@filling
def settle_race(low, high, rows, shard, ids, counts, least, most):
    """The least and the largest exact distance to the contenders; to all if they were too many."""
    for row in range(low, high):
        many = counts[row] > CONTENDERS
        least[row] = np.float32(np.inf)
        most[row] = np.float32(-np.inf)
        for t in range(shard.shape[0] if many else counts[row]):
            value = squared_distance(rows[row], shard[t if many else ids[row, t]])
            least[row] = min(least[row], value)
            most[row] = max(most[row], value)
