"""Kernels of the search in shards, parts of the rows: which rows may be the farthest.

A column y of a shard has the value |y|^2 - 2 xy for the row x: the squared distance less |x|^2.

Functions under ``filling`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling
from kinrank.kernels.topk import CHUNK, squared_distance

CONTENDERS = 8  # columns that are kept for a row


@filling
def keep_farthest(low, high, products, norms, first, margins, largest, values, ids, counts):
    """Keep the columns of a tile whose |y|^2 - 2 xy may be the largest of their row.

    For rows [low, high).
    products : (rows, columns) xy; norms : (columns,) |y|^2; first : the number of the first column
    margins : (rows,) products are rounded, so all columns within it of the largest may be the
        farthest
    largest : (rows,) the largest value so far
    values, ids : (rows, CONTENDERS) the columns near it, with their values
    counts : (rows,) how many they are, CONTENDERS + 1 if more than can be held
    The last four are changed.
    """
    two = np.float32(2)
    for row in range(low, high):
        product = products[row]
        row_largest = largest[row]
        margin = margins[row]
        count = counts[row]
        bound = row_largest - margin
        for begin in range(0, product.shape[0], CHUNK):
            end = min(begin + CHUNK, product.shape[0])
            hits = np.int32(0)
            for t in range(begin, end):
                hits += np.int32(norms[t] - two * product[t] > bound)
            if hits == 0:
                continue
            for t in range(begin, end):
                value = norms[t] - two * product[t]
                if value <= bound:
                    continue
                if value > row_largest:
                    if value - margin >= row_largest:
                        count = 0  # none before can be the farthest any more
                    row_largest = value
                    bound = value - margin
                if count == CONTENDERS:
                    count = 0
                    for s in range(CONTENDERS):
                        if values[row, s] > bound:
                            values[row, count] = values[row, s]
                            ids[row, count] = ids[row, s]
                            count += 1
                if count < CONTENDERS:
                    values[row, count] = value
                    ids[row, count] = first + t
                    count += 1
                else:
                    count = CONTENDERS + 1
        largest[row] = row_largest
        counts[row] = count


@filling
def settle_farthest(low, high, rows, shard, ids, counts, least, most):
    """The least and the largest exact squared distance to the columns that ``keep_farthest`` kept.

    For rows [low, high); to all rows of the shard where these were too many.
    rows, shard : vectors, (rows, d) and (columns, d); ids, counts : of ``keep_farthest``
    least, most : (rows,) float32, the output
    """
    for row in range(low, high):
        too_many = counts[row] > CONTENDERS
        least[row] = np.float32(np.inf)
        most[row] = np.float32(-np.inf)
        for t in range(shard.shape[0] if too_many else counts[row]):
            value = squared_distance(rows[row], shard[t if too_many else ids[row, t]])
            least[row] = min(least[row], value)
            most[row] = max(most[row], value)
