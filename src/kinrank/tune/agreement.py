"""How far two rankings agree, row by row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinrank.types import Ints

DEPTHS = (5, 10)
Values = npt.NDArray[np.float64]


def agreement(one: Ints, other: Ints, depths: tuple[int, ...] = DEPTHS) -> Values:
    """The share of the first results that both have, for each row, over the depths.

    one, other : (m, k) results, k at least the largest depth; returns (m,) in [0, 1]
    """
    shares = [_overlap(one[:, :depth], other[:, :depth]) for depth in depths]
    mean: Values = np.mean(shares, axis=0)
    return mean


def _overlap(one: Ints, other: Ints) -> Values:
    m, k = one.shape
    width = int(max(one.max(initial=0), other.max(initial=0))) + 1
    offset = np.arange(m, dtype=np.int64)[:, None] * width  # so that rows cannot be confused
    both = np.isin(one + offset, other + offset)
    share: Values = both.sum(axis=1) / k
    return share
