"""What the projections share: unit rows, numbers that are finite, principal directions."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.types import Floats
from kinrank.validation import as_array

Wide: TypeAlias = npt.NDArray[np.float64]

_AT_A_TIME = 1024  # rows
_SPARE = 64  # directions that are followed beside the leading ones
_WIDE = 2  # times as many columns as directions: from there on the leading ones alone are sought


def unit(rows: Any) -> npt.NDArray[Any]:
    """``rows`` (..., d) divided by their Euclidean norms; zero rows stay zero."""
    array = finite_floats("rows", rows)
    if array.ndim == 0:
        raise InvalidInputError("`rows` must be (..., d), got one number.")
    if array.dtype == np.float64:  # over a power of two, so that squares fit
        peaks = np.max(np.abs(array), axis=-1, keepdims=True, initial=0)
        array = np.ldexp(array, -np.frexp(peaks)[1])
    norms = np.sqrt(np.einsum("...i,...i->...", array, array, dtype=np.float64))[..., None]
    return np.asarray(array / np.where(norms > 0, norms, 1), array.dtype)


def unit_around(rows: Floats, mean: Wide) -> Floats:
    """Rows around ``mean``, each over its norm, float32; subtracted in float64."""
    out = np.empty(rows.shape, np.float32)
    for low in range(0, len(rows), _AT_A_TIME):
        part = slice(low, low + _AT_A_TIME)
        around = rows[part] - mean
        norms = np.sqrt(np.einsum("ij,ij->i", around, around))[:, None]
        np.divide(around, np.where(norms > 0, norms, 1), out=out[part], casting="same_kind")
    return out


def finite_floats(name: str, values: Any, dtype: Any = None) -> npt.NDArray[Any]:
    """Finite ``values`` of any shape as ``dtype``, which they have to fit.

    Without one float16 and float64 stay what they are, and all else becomes float32.
    """
    array = as_array(name, values)
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"`{name}` must hold real numbers, got dtype {array.dtype}.")
    dtype = dtype or (array.dtype if array.dtype in (np.float16, np.float64) else np.float32)
    largest = max(float(np.max(array, initial=0)), -float(np.min(array, initial=0)))
    if not math.isfinite(largest):
        raise InvalidInputError(f"`{name}` must be finite, got NaN or infinity.")
    if largest > float(np.finfo(dtype).max):
        raise InvalidInputError(
            f"`{name}` must fit {np.dtype(dtype).name}, got a value of {largest:.2g} in size."
        )
    return array.astype(dtype, copy=False)


def principal_directions(covariance: Wide) -> tuple[Wide, Wide]:
    """Eigenvalues, largest first, and eigenvectors as rows, their largest entry positive."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    rows = vectors.T[::-1]
    signs = np.sign(np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1))
    return values[::-1], rows * np.where(signs == 0, 1, signs)


def leading_directions(rows: Floats, count: int) -> tuple[Wide, Wide]:
    """The first ``count`` principal directions of float32 ``rows`` (n, d) around their mean.

    Of wide rows a subspace is followed instead of all directions: some rows, twice multiplied by
    the covariance, then the principal directions within what they span (Halko, Martinsson, Tropp:
    Finding structure with randomness, 2011). The variance in it is within 1% of the most there is.
    """
    around = rows - rows.mean(axis=0)
    covariance = (around.T @ around) / np.float32(len(rows))
    followed = min(count + _SPARE, len(rows))
    if rows.shape[1] < _WIDE * followed:
        variances, directions = principal_directions(covariance.astype(np.float64))
        return variances[:count], directions[:count]
    basis = around[np.linspace(0, len(rows) - 1, followed).astype(np.int64)].T
    for _ in range(2):
        basis = np.linalg.qr(covariance @ basis)[0]
    inside = basis.T @ (covariance @ basis)
    variances, turned = principal_directions(inside.astype(np.float64))
    return variances[:count], turned[:count] @ basis.T.astype(np.float64)
