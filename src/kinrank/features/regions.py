"""Where the regions of R-MAC lie.

Giorgos Tolias, Ronan Sicre, Hervé Jégou: Particular Object Retrieval With Integral Max-Pooling of
CNN Activations, ICLR 2016.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kinrank.validation import check_float, check_int

OVERLAP = 0.4
MOST_LEVELS = 100
_LONGEST = 1 << 16  # side of a map


def rmac_regions(
    height: int, width: int, levels: int = 3, overlap: float = OVERLAP
) -> npt.NDArray[np.int64]:
    """The squares that R-MAC pools over, on a map of ``height`` x ``width``.

    At level 1 the squares are as large as the map allows, m of them along its longer side, with m
    such that neighbours share as nearly ``overlap`` of their area as whole numbers permit (the
    fewer in a tie; one for a square map). At level l there are l x (l + m - 1) squares of side
    2 min(height, width) / (l + 1), rounded down and spread evenly. Levels whose squares would be
    smaller than one position are left out.

    Returns
    -------
    regions, (r, 4) int64
        Rows of top, left, height, width; level by level, from the top left to the bottom right.

    Examples
    --------
    >>> rmac_regions(4, 4, levels=2).tolist()
    [[0, 0, 4, 4], [0, 0, 2, 2], [0, 2, 2, 2], [2, 0, 2, 2], [2, 2, 2, 2]]
    """
    height = check_int("height", height, 1, _LONGEST)
    width = check_int("width", width, 1, _LONGEST)
    check_int("levels", levels, 1, MOST_LEVELS)
    check_float("overlap", overlap, 0, 1, high_open=True)
    short, long = min(height, width), max(height, width)
    more = _along_longer_side(short, long, overlap) - 1
    found = []
    for level in range(1, levels + 1):
        side = 2 * short // (level + 1)
        if side == 0:
            break
        tops = _starts(height, side, level + (more if height > width else 0))
        lefts = _starts(width, side, level + (more if width > height else 0))
        found += [(top, left, side, side) for top in tops for left in lefts]
    return np.array(found, np.int64)


def _along_longer_side(short: int, long: int, overlap: float) -> int:
    """How many squares of side ``short`` to lay along ``long``."""
    if short == long:
        return 1
    # As fractions, so that ties are ties.
    step = short * (1 - Fraction(overlap).limit_denominator(10**6))
    nearest = max(2, int((long - short) / step) + 1)
    return min((nearest, nearest + 1), key=lambda m: abs(Fraction(long - short, m - 1) - step))


def _starts(length: int, side: int, count: int) -> list[int]:
    """``count`` places from 0 to ``length - side``, evenly, rounded down."""
    if count == 1:
        return [0]
    return [place * (length - side) // (count - 1) for place in range(count)]
