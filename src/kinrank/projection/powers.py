"""Whitening: rows centred, turned to their principal directions and scaled by a power."""

from __future__ import annotations

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.projection.arrays import Wide, principal_directions
from kinrank.search.blas import one_blas_thread
from kinrank.validation import Matrices, unit_blocks

FULL = 0.5  # the power that makes all variances equal
FLOOR = 1e-3  # of the largest variance, added to each
EQUAL = 1e-24  # variance of unit rows that is rounding
_WIDEST = 16384  # columns: the covariance is a matrix of them
_FIT_ROWS = 1024  # at a time, in one order


def whitening(matrices: Matrices, power: float) -> tuple[Wide, Wide]:
    """The mean of the rows and the (d, d) matrix of the whitening of a power.

    On one thread of BLAS and in one order of rows, so that the same rows give the same bits.
    """
    name, first = matrices[0]
    refuse_too_wide(name, first.shape[1])
    with one_blas_thread(wait=True):
        mean, covariance = moments(matrices)
        variances, directions = principal_directions(covariance)
    if variances[0] <= EQUAL:
        raise InvalidInputError(
            f"`{name}` must have rows that differ to be whitened, got "
            f"{'one row' if len(first) == 1 else 'equal rows'}."
        )
    return mean, scaled(variances, directions, power)


def scaled(variances: Wide, directions: Wide, power: float) -> Wide:
    """(l + 0.001 l_max)^(-power) U^T of the eigenvalues l, largest first, and U^T."""
    variances = np.maximum(variances, 0)
    scales = (variances + FLOOR * variances[0]) ** -power
    return np.asarray(directions * scales[:, None])


def refuse_too_wide(name: str, width: int) -> None:
    """Refuse rows whose covariance does not fit."""
    if width > _WIDEST:
        raise InvalidInputError(
            f"`{name}` must have at most {_WIDEST:,} columns to be whitened, got {width:,}."
        )


def moments(matrices: Matrices) -> tuple[Wide, Wide]:
    """Mean and covariance of the rows, each over its norm, in one pass."""
    width = matrices[0][1].shape[1]
    n = sum(len(matrix) for _, matrix in matrices)
    total = np.zeros(width)
    scatter = np.zeros((width, width))
    origin = next(unit_blocks(matrices, 1))[0].astype(np.float64)  # digits are lost far from it
    with progress.stage("whitening", n) as advance:
        for rows in unit_blocks(matrices, _FIT_ROWS):
            centred = rows - origin
            total += centred.sum(axis=0)
            scatter += centred.T @ centred
            advance(len(rows))
    drift = total / n
    return drift + origin, scatter / n - np.outer(drift, drift)
