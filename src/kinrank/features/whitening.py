"""Whitenings by principal components, and learnt from what belongs together."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.projection.arrays import Wide, finite_floats, principal_directions
from kinrank.projection.projection import Projection
from kinrank.validation import as_array, as_matrix, check_int

_RANK_TOLERANCE = 1e-9  # of the largest eigenvalue; what is below is rounding
_RIDGES = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)  # of the mean variance, tried until a factor exists


def pca_whitening(rows: Any, dims: int | None = None) -> Projection:
    """Whitening by principal components: the covariance of ``rows`` becomes the identity.

    Parameters
    ----------
    rows : (n, d) descriptors, usually of other images than those to search
    dims : directions to keep, those of the largest variance first; all that the rows span if None
    """
    matrix = _finite(rows)
    mean = matrix.mean(axis=0)
    variances, directions = principal_directions(_covariance(matrix - mean))
    spanned = int((variances > _RANK_TOLERANCE * max(variances[0], 0)).sum())
    if spanned == 0:
        raise InvalidInputError("`rows` must differ from each other, got equal rows.")
    kept = spanned if dims is None else check_int("dims", dims, 1, spanned)
    return _whitening(mean, directions[:kept] / np.sqrt(variances[:kept, None]))


def learned_whitening(
    rows: Any, *, labels: Any = None, pairs: Any = None, dims: int | None = None
) -> Projection:
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
    _, directions = principal_directions(flat @ _covariance(matrix - mean) @ flat.T)
    return _whitening(mean, directions[:kept] @ flat)


def _whitening(mean: Wide, matrix: Wide) -> Projection:
    if np.abs(matrix).max() > float(np.finfo(np.float32).max):
        raise InvalidInputError(
            "`rows` must differ by more, got differences so small that the projection does not fit "
            "float32: multiply them by a number."
        )
    return Projection(mean.astype(np.float32), matrix.astype(np.float32), kind="whitening")


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


def _finite(rows: Any) -> Wide:
    """Rows as float64, so that their squares fit."""
    matrix = as_matrix("rows", rows)
    finite_floats("rows", matrix, np.float32)
    return finite_floats("rows", matrix, np.float64)
