"""From a convolutional map to one vector: MAC, SPoC, GeM and R-MAC as plain array functions.

Maps are (..., channels, height, width), any number of them at once; results are (..., channels) and
of the maps' dtype. Nothing is normalised unless the docstring says so: ``unit`` does that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.projection.arrays import finite_floats, unit
from kinrank.projection.projection import Projection
from kinrank.validation import LARGEST, as_array, check_float, check_int

Array = npt.NDArray[Any]

OVERLAP = 0.4  # of neighbouring regions of R-MAC
MOST_LEVELS = 100
_LONGEST = 1 << 16  # side of a map


def mac(maps: Any) -> Array:
    """The maximum of each channel (Azizpour et al., CVPR workshops 2015; Tolias et al. 2016)."""
    return np.asarray(positions_first(maps).max(axis=(0, 1)))


def spoc(maps: Any) -> Array:
    """The mean of each channel (Babenko and Lempitsky, ICCV 2015, without the centre prior)."""
    values = positions_first(maps)
    largest = float(np.abs(values).max())
    if largest > LARGEST:
        raise InvalidInputError(
            f"`maps` must hold values of at most {LARGEST:.2g} in size, so that sums of them fit, "
            f"got {largest:.2g}."
        )
    return np.asarray(values.mean(axis=(0, 1)))


def gem(maps: Any, p: float = 3.0) -> Array:
    """The generalised mean of each channel, (mean x^p)^(1/p), negative values taken as zero.

    p = 1 is SPoC of what is not negative, and the larger p the nearer to MAC; ``math.inf`` is MAC.
    Radenović, Tolias, Chum: Fine-Tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> maps = np.ones((2, 64, 12, 9))
    >>> kinrank.features.gem(maps).shape
    (2, 64)
    """
    p = check_power("p", p, infinite=True)
    values = np.maximum(positions_first(maps), 0)
    peak = values.max(axis=(0, 1))
    if p == math.inf:
        return np.asarray(peak)
    # Over the largest, so that no power overflows or vanishes.
    values /= np.where(peak > 0, peak, 1)
    mean = _power(values, p).mean(axis=(0, 1))
    return np.asarray(peak * mean ** (1 / p), values.dtype)


def rmac_regions(
    height: int, width: int, levels: int = 3, overlap: float = OVERLAP
) -> npt.NDArray[np.int64]:
    """The squares that R-MAC pools over, on a map of ``height`` x ``width`` (Tolias et al. 2016).

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
    short = min(height, width)
    long = max(height, width)
    more = _along_longer_side(short, long, overlap) - 1
    regions = []
    for level in range(1, levels + 1):
        side = 2 * short // (level + 1)
        if side == 0:
            break
        tops = _starts(height, side, level + (more if height > width else 0))
        lefts = _starts(width, side, level + (more if width > height else 0))
        regions += [(top, left, side, side) for top in tops for left in lefts]
    return np.array(regions, np.int64)


def regional(
    maps: Any, levels: int = 3, overlap: float = OVERLAP, whitening: Projection | None = None
) -> Array:
    """The unit vector of every region of R-MAC, (..., regions, channels).

    Each is the maximum over its region, made unit, and if ``whitening`` is given whitened and made
    unit again. These are the rows of region-wise search and diffusion (Iscen et al., CVPR 2017).
    """
    values = positions_first(maps)
    squares = rmac_regions(values.shape[0], values.shape[1], levels, overlap)
    rows = np.stack(
        [values[y : y + h, x : x + w].max(axis=(0, 1)) for y, x, h, w in squares], axis=-2
    )
    return unit(rows) if whitening is None else whitening.apply(unit(rows))


def rmac(
    maps: Any, levels: int = 3, overlap: float = OVERLAP, whitening: Projection | None = None
) -> Array:
    """R-MAC: the sum of the regions' vectors, made unit (Tolias, Sicre, Jégou, ICLR 2016)."""
    return unit(regional(maps, levels, overlap, whitening).sum(axis=-2))


def multiscale(descriptors: Sequence[Any], p: float = 1.0) -> Array:
    """One unit vector from those of several scales: their generalised mean.

    Parameters
    ----------
    descriptors : an array (..., d) for each scale, unit rows
    p : 1 is the mean; other powers are for rows without negative values, such as GeM's own p
    """
    if isinstance(descriptors, (list, tuple)):
        descriptors = [as_array("descriptors", scale) for scale in descriptors]
    rows = finite_floats("descriptors", descriptors)
    if rows.ndim < 2 or rows.size == 0:
        raise InvalidInputError(
            f"`descriptors` must be an array (..., d) for each scale, got shape {rows.shape}."
        )
    peak = float(np.abs(rows).max())
    if peak > 2:  # never of unit rows; the length of the answer is 1 in any case
        rows = np.ldexp(rows, -math.frexp(peak)[1])
    p = check_power("p", p)
    if p == 1.0:
        return unit(rows.mean(axis=0))
    if (rows < 0).any():
        raise InvalidInputError(
            f"`descriptors` has negative values, of which p={p:g} makes no mean."
        )
    return unit(_power(rows, p).mean(axis=0) ** (1 / p))


def positions_first(maps: Any) -> Array:
    """The maps as (height, width, ..., channels), a copy: pooling is then over whole rows."""
    array = finite_floats("maps", maps)
    if array.ndim < 3 or 0 in array.shape:
        raise InvalidInputError(
            f"`maps` must be (..., channels, height, width), got shape {array.shape}."
        )
    dtype = np.float64 if array.dtype == np.float64 else np.float32
    return np.array(np.moveaxis(array, (-2, -1), (0, 1)), dtype, order="C")


def check_power(name: str, p: object, *, infinite: bool = False) -> float:
    """``p`` as the power of a generalised mean; may be infinite if that is said."""
    if infinite and isinstance(p, Real) and p == math.inf:
        return math.inf
    return check_float(name, p, 1e-6, 1e6)


def _power(values: Array, p: float) -> Array:
    """``values ** p``; by products where that is exact and many times faster."""
    if p == 2.0:
        return np.asarray(values * values)
    if p == 3.0:
        return np.asarray(values * values * values)
    return np.asarray(values ** values.dtype.type(p))


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
