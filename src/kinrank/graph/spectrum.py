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
    values: Doubles = _iterated(matrix, 1, which, start, tol, vectors=False)
    return values


def extreme_vectors(matrix: Any, k: int, which: str, start: Doubles) -> tuple[Doubles, Doubles]:
    """The ``k`` extreme eigenvalues, and their eigenvectors as columns, (n, k)."""
    pairs: tuple[Doubles, Doubles] = _iterated(matrix, k, which, start, 0.0, vectors=True)
    return pairs


def _iterated(matrix: Any, k: int, which: str, start: Doubles, tol: float, *, vectors: bool) -> Any:
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        return eigsh(matrix, k=k, which=which, v0=start, tol=tol, return_eigenvectors=vectors)
    except ArpackError as error:
        pairs = _dense(matrix, k, which, error)
        return pairs if vectors else pairs[0]


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
