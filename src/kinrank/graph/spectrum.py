"""Extreme eigenvalues of sparse symmetric matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError

DENSE = 4096  # rows up to which all eigenvalues are computed where the iteration finds none

Doubles = npt.NDArray[np.float64]


def extreme_values(matrix: Any, which: str, start: Doubles, tol: float = 0.0) -> Doubles:
    """The least ("SA") or the largest ("LA", or "LM" by its size) eigenvalue, (1,)."""
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        found: Doubles = eigsh(
            matrix, k=1, which=which, v0=start, tol=tol, return_eigenvectors=False
        )
    except ArpackError as error:
        return _dense(matrix, 1, which, error)[0]
    return found


def extreme_vectors(matrix: Any, k: int, which: str, start: Doubles) -> tuple[Doubles, Doubles]:
    """The ``k`` extreme eigenvalues, and their eigenvectors as columns, (n, k)."""
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        found: tuple[Doubles, Doubles] = eigsh(matrix, k=k, which=which, v0=start)
    except ArpackError as error:
        return _dense(matrix, k, which, error)
    return found


def _dense(matrix: Any, k: int, which: str, error: Exception) -> tuple[Doubles, Doubles]:
    """By the whole matrix: a start that the matrix makes 0 of, or many equal values, end it."""
    n = matrix.shape[0]
    if n > DENSE:
        raise InvalidInputError(
            f"The eigenvectors of the graph must be found by iteration for more than {DENSE} rows, "
            f"got {n} rows and: {error}. Rows that are all alike, or far apart, may be the cause."
        ) from error
    values, vectors = np.linalg.eigh(matrix.toarray())
    order = np.argsort(np.abs(values) if which == "LM" else values, kind="stable")
    chosen = order[:k] if which == "SA" else order[-k:]
    return values[chosen], vectors[:, chosen]
