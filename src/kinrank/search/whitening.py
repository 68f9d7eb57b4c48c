"""Whitening: rows centred, turned to their principal directions and scaled; fitted once, saved.

What methods rank must not depend on how many rows are projected at a time, nor on the threads of
BLAS, whose sums have another order for each. So sums are rounded to a grid that is coarser than
what their order can change; the few that lie between two of its points are summed again in one
order.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import InvalidInputError, shown
from kinrank.io import PathLike, load_array, save_npz, save_safetensors
from kinrank.reading import reading
from kinrank.search.blas import one_blas_thread
from kinrank.types import Floats
from kinrank.validation import (
    Matrices,
    as_array,
    check_float,
    check_int,
    check_path,
    same_width,
    unit_blocks,
)

Wide: TypeAlias = npt.NDArray[np.float64]

FULL = 0.5  # the power that makes all variances equal
FLOOR = 1e-3  # of the largest variance, added to each
_EQUAL = 1e-24  # variance of unit rows that is rounding
_WIDEST = 16384  # columns: the covariance is a matrix of them
_FIT_ROWS = 1024  # at a time, in one order
_GRID = 28  # bits that a coordinate has below the length of its direction
_UNSURE = 4 * 2.0**-53  # for each column: twice what the order of a sum can change, and room


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


@dataclass(frozen=True, eq=False, repr=False)
class Whitening:
    """x -> projection (x - mean), and to unit norm.

    Every method takes one as ``whiten``, and applies it to rows of unit norm.

    Attributes
    ----------
    mean : (d,) float32
    projection : (k, d) float32, the most telling directions first

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> rows = np.random.default_rng(0).normal(size=(50, 8))
    >>> whitening = kinrank.Whitening.fit(rows, power=0.25)
    >>> whitening.apply(rows, dims=4).shape
    (50, 4)
    """

    mean: npt.NDArray[np.float32]
    projection: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        mean = finite_floats("mean", self.mean, np.float32)
        projection = finite_floats("projection", self.projection, np.float32)
        if mean.ndim != 1 or projection.ndim != 2 or projection.shape[1] != len(mean):
            raise InvalidInputError(
                "`mean` and `projection` must be of shapes (d,) and (k, d), "
                f"got {mean.shape} and {projection.shape}."
            )
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "projection", projection)

    def __repr__(self) -> str:
        return f"<Whitening of {self.width} columns to {self.dims}, {self.digest}>"

    @classmethod
    def fit(cls, rows: Any, power: float = 0.25) -> Whitening:
        """The whitening of a power that ``CAS(whiten=power)`` fits to a gallery.

        With the mean mu and the covariance U diag(l) U^T of the rows, each over its norm,

            x' = (l + 0.001 l_max)^(-power) U^T (x - mu), over its norm

        Parameters
        ----------
        rows : (n, d) vectors to search in, or of the same kind
        power : 0 only centres the rows, 0.25 is half-whitening, 0.5 makes all variances equal

        Examples
        --------
        >>> import numpy as np, kinrank
        >>> rows = np.random.default_rng(0).normal(size=(100, 8))
        >>> whitening = kinrank.Whitening.fit(rows, 0.25)
        >>> kinrank.CAS(k1=6, k2=3, whiten=whitening).rerank(rows[:3], rows, k=5).k
        5
        """
        return fit_power(same_width(("rows", rows)), check_float("power", power, 0, FULL))

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return len(self.mean)

    @property
    def dims(self) -> int:
        """The number of dimensions that come out."""
        return len(self.projection)

    @cached_property
    def digest(self) -> str:
        """What tells it from others."""
        content = self.mean.tobytes() + np.ascontiguousarray(self.projection).tobytes()
        return hashlib.sha256(content).hexdigest()[:12]

    def apply(self, rows: Any, dims: int | None = None, *, normalize: bool = True) -> Any:
        """Whiten ``rows`` (..., d); keep the first ``dims`` dimensions, or all."""
        array = finite_floats("rows", rows, np.float32)
        if array.ndim < 1 or array.shape[-1] != len(self.mean):
            raise InvalidInputError(
                f"`rows` must have {len(self.mean)} columns for this whitening, "
                f"got shape {array.shape}."
            )
        kept = self.dims if dims is None else check_int("dims", dims, 1, self.dims)
        with np.errstate(over="ignore", invalid="ignore"):
            projected = (array - self.mean) @ self.projection[:kept].T
        if not np.isfinite(projected).all():
            raise InvalidInputError(
                "`rows` must be about as large as those that the whitening was made from, got "
                f"values up to {np.abs(array).max():.2g}: the result does not fit float32."
            )
        return unit(projected) if normalize else projected

    def project(self, rows: Floats) -> Floats:
        """Rows (n, d) as methods rank them, (n, dims): the same bits with any other rows.

        A row that is the mean becomes zero.
        """
        centred = rows.astype(np.float64) - self.mean
        columns, steps = self._columns
        sums = (centred @ columns) / steps
        grid = np.rint(sums)
        # In steps of the grid: no direction is longer than 2^_GRID of its own.
        lengths = np.sqrt((centred * centred).sum(axis=1, keepdims=True))
        unsure = lengths * (_UNSURE * self.width * 2.0**_GRID)
        row, column = np.nonzero(np.abs(sums - grid) >= 0.5 - unsure)
        again = (centred[row] * self.projection[column]).sum(axis=1)
        grid[row, column] = np.rint(again / steps[column])
        grid *= steps
        norms = np.sqrt((grid * grid).sum(axis=1, keepdims=True))
        return np.asarray(grid / np.where(norms > 0, norms, 1), np.float32)

    @cached_property
    def _columns(self) -> tuple[Wide, Wide]:
        """The directions as (d, dims) columns, and the steps of their grids, (dims,)."""
        wide = self.projection.astype(np.float64)
        lengths = np.sqrt((wide * wide).sum(axis=1))
        steps = np.ldexp(1.0, np.frexp(np.where(lengths > 0, lengths, 1))[1] - _GRID)
        return np.ascontiguousarray(wide.T), steps

    def save(self, path: PathLike) -> None:
        """Write to ``path`` (npz, or safetensors by its ending), whole or not at all."""
        arrays = {"mean": self.mean, "projection": self.projection}
        if Path(check_path("path", path)).suffix == ".safetensors":
            save_safetensors(path, arrays, {})
        else:
            save_npz(path, **arrays)

    @classmethod
    def load(cls, path: PathLike) -> Whitening:
        """Read ``mean`` and ``projection`` from an npz or safetensors file; nothing is executed."""
        check_path("path", path)
        with reading(path, "a whitening saved by kinrank"):
            return cls(load_array(path, "mean"), load_array(path, "projection"))


Whiten: TypeAlias = float | Whitening | None


def check_whiten(name: str, value: Any) -> Whiten:
    """What ``whiten`` may be: None, a power, a fitted whitening, or a file with one."""
    if value is None or isinstance(value, Whitening):
        return value
    if isinstance(value, str | Path):
        try:
            value = float(str(value))
        except ValueError:
            if str(value) and Path(value).is_file():
                return Whitening.load(value)
    try:
        return check_float(name, value, 0, FULL)
    except InvalidInputError:
        raise InvalidInputError(
            f"`{name}` must be None, a power between 0 and {FULL}, a Whitening or a file of one, "
            f"got {shown(value)}."
        ) from None


def fit_power(matrices: Matrices, power: float) -> Whitening:
    """On one thread of BLAS and in one order of rows, so that the same rows give the same bits."""
    name, width = matrices[0][0], matrices[0][1].shape[1]
    if width > _WIDEST:
        raise InvalidInputError(
            f"`{name}` must have at most {_WIDEST:,} columns to be whitened, got {width:,}."
        )
    with one_blas_thread(wait=True):
        mean, covariance = _moments(matrices)
        variances, directions = principal_directions(covariance)
    variances = np.maximum(variances, 0)
    if variances[0] <= _EQUAL:
        raise InvalidInputError(
            f"`{name}` must have rows that differ to be whitened, got "
            f"{'one row' if len(matrices[0][1]) == 1 else 'equal rows'}."
        )
    scales = (variances + FLOOR * variances[0]) ** -power
    projection = directions * scales[:, None]
    return Whitening(mean.astype(np.float32), projection.astype(np.float32))


def _moments(matrices: Matrices) -> tuple[Wide, Wide]:
    """Mean and covariance of the rows, each over its norm, in one pass."""
    width, n = matrices[0][1].shape[1], sum(len(matrix) for _, matrix in matrices)
    total, scatter = np.zeros(width), np.zeros((width, width))
    origin = next(unit_blocks(matrices, 1))[0].astype(np.float64)  # digits are lost far from it
    with progress.stage("whitening", n) as advance:
        for rows in unit_blocks(matrices, _FIT_ROWS):
            centred = rows - origin
            total += centred.sum(axis=0)
            scatter += centred.T @ centred
            advance(len(rows))
    drift = total / n
    return drift + origin, scatter / n - np.outer(drift, drift)


def principal_directions(covariance: Wide) -> tuple[Wide, Wide]:
    """Eigenvalues, largest first, and eigenvectors as rows, their largest entry positive."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    rows = vectors.T[::-1]
    signs = np.sign(np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1))
    return values[::-1], rows * np.where(signs == 0, 1, signs)
