"""Whitening: fitted once, saved, applied to descriptors."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.io import PathLike, load_array, save_npz, save_safetensors
from kinrank.reading import reading
from kinrank.validation import as_array, as_matrix, check_int

Wide = npt.NDArray[np.float64]

_RANK_TOLERANCE = 1e-9  # of the largest eigenvalue; what is below is rounding
_RIDGES = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)  # of the mean variance, tried until a factor exists


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


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> projection (x - mean), and to unit norm.

    Attributes
    ----------
    mean : (d,) float32
    projection : (k, d) float32, the most telling directions first

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> rows = np.random.default_rng(0).normal(size=(50, 8))
    >>> whitening = kinrank.features.pca_whitening(rows)
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

    @property
    def dims(self) -> int:
        """The number of dimensions that come out."""
        return len(self.projection)

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

    def save(self, path: PathLike) -> None:
        """Write to ``path`` (npz, or safetensors by its ending), whole or not at all."""
        arrays = {"mean": self.mean, "projection": self.projection}
        if Path(path).suffix == ".safetensors":
            save_safetensors(path, arrays, {})
        else:
            save_npz(path, **arrays)

    @classmethod
    def load(cls, path: PathLike) -> Whitening:
        """Read ``mean`` and ``projection`` from an npz or safetensors file; nothing is executed."""
        with reading(path, "a whitening saved by kinrank"):
            return cls(load_array(path, "mean"), load_array(path, "projection"))


def pca_whitening(rows: Any, dims: int | None = None) -> Whitening:
    """Whitening by principal components: the covariance of ``rows`` becomes the identity.

    Parameters
    ----------
    rows : (n, d) descriptors, usually of other images than those to search
    dims : directions to keep, those of the largest variance first; all that the rows span if None
    """
    matrix = _finite(rows)
    mean = matrix.mean(axis=0)
    variances, directions = _eigen(_covariance(matrix - mean))
    spanned = int((variances > _RANK_TOLERANCE * max(variances[0], 0)).sum())
    if spanned == 0:
        raise InvalidInputError("`rows` must differ from each other, got equal rows.")
    kept = spanned if dims is None else check_int("dims", dims, 1, spanned)
    return _whitening(mean, directions[:kept] / np.sqrt(variances[:kept, None]))


def learned_whitening(
    rows: Any, *, labels: Any = None, pairs: Any = None, dims: int | None = None
) -> Whitening:
    """Whitening learnt from what belongs together.

    Differences of matching rows get the identity as their covariance, so directions in which
    matching images vary count little; then principal components order the directions.
    Mikolajczyk and Matas, Improving Descriptors for Fast Tree Matching by Optimal Linear
    Projection, ICCV 2007; Radenović et al., TPAMI 2019.

    Parameters
    ----------
    rows : (n, d) descriptors
    labels : (n,) all pairs of rows with one label match
    pairs : (m, 2) row numbers that match, instead of labels
    dims : directions to keep; all if None
    """
    if (labels is None) == (pairs is None):
        raise InvalidInputError("Either `labels` or `pairs` must be given, got both or neither.")
    matrix = _finite(rows)
    if pairs is not None:
        mean, inner = _from_pairs(matrix, as_array("pairs", pairs))
    else:
        mean, inner = _from_labels(matrix, as_array("labels", labels))
    kept = len(inner) if dims is None else check_int("dims", dims, 1, len(inner))
    flat = np.linalg.inv(_cholesky(inner))
    _, directions = _eigen(flat @ _covariance(matrix - mean) @ flat.T)
    return _whitening(mean, directions[:kept] @ flat)


def _whitening(mean: Wide, projection: Wide) -> Whitening:
    if np.abs(projection).max() > float(np.finfo(np.float32).max):
        raise InvalidInputError(
            "`rows` must differ by more, got differences so small that the projection does not fit "
            "float32: multiply them by a number."
        )
    return Whitening(mean.astype(np.float32), projection.astype(np.float32))


def _from_pairs(matrix: Wide, pairs: npt.NDArray[Any]) -> tuple[Wide, Wide]:
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or not len(pairs):
        raise InvalidInputError(
            f"`pairs` must be (m, 2) row numbers, got {pairs.shape} of {pairs.dtype}."
        )
    if pairs.min() < 0 or pairs.max() >= len(matrix):
        raise InvalidInputError(
            f"`pairs` must name rows from 0 to {len(matrix) - 1}, "
            f"got {pairs.min()} to {pairs.max()}."
        )
    return matrix[pairs[:, 0]].mean(axis=0), _covariance(matrix[pairs[:, 0]] - matrix[pairs[:, 1]])


def _from_labels(matrix: Wide, labels: npt.NDArray[Any]) -> tuple[Wide, Wide]:
    """Mean and covariance over all ordered pairs of one label, without listing them.

    The differences of a class of n rows have the sum of squares 2 n (scatter of the class).
    """
    if labels.shape != (len(matrix),):
        raise InvalidInputError(
            f"`labels` must be one for each of the {len(matrix)} rows, got shape {labels.shape}."
        )
    try:
        _, member, counts = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise InvalidInputError(f"`labels` must be of one kind, got: {error}.") from error
    n_pairs = int((counts * (counts - 1)).sum())
    if n_pairs == 0:
        raise InvalidInputError("`labels` must have one that occurs twice, got all different.")
    sums = np.zeros((len(counts), matrix.shape[1]))
    np.add.at(sums, member, matrix)
    deviations = matrix - (sums / counts[:, None])[member]
    sizes = counts[member].astype(np.float64)
    mean = (sizes - 1) @ matrix / n_pairs
    return mean, (deviations * (2 * sizes)[:, None]).T @ deviations / n_pairs


def _cholesky(matrix: Wide) -> Wide:
    """A factor of ``matrix``, with a little more on its diagonal where there is none."""
    size = float(np.trace(matrix)) / len(matrix)
    for ridge in _RIDGES:
        try:
            factor = np.linalg.cholesky(matrix + ridge * size * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            continue
        if ridge:
            warnings.warn(
                "There are too few matching pairs for as many dimensions: "
                f"{ridge:g} of the mean variance was added to every direction.",
                KinrankWarning,
                stacklevel=3,
            )
        return np.asarray(factor, np.float64)
    raise InvalidInputError("Matching rows must differ from each other, got equal rows.")


def _covariance(centred: Wide) -> Wide:
    return np.asarray(centred.T @ centred / len(centred))


def _eigen(matrix: Wide) -> tuple[Wide, Wide]:
    """Eigenvalues, largest first, and eigenvectors as rows, their largest entry positive."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    rows = vectors.T[::-1]
    signs = np.sign(np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1))
    return values[::-1], rows * np.where(signs == 0, 1, signs)


def _finite(rows: Any) -> Wide:
    """Rows as float64, so that their squares fit."""
    matrix = as_matrix("rows", rows)
    finite_floats("rows", matrix, np.float32)
    return finite_floats("rows", matrix, np.float64)
