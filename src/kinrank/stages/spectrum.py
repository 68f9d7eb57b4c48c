"""Extreme eigenvalues of sparse symmetric matrices, by Lanczos' method with thick restarts.

Kesheng Wu, Horst Simon: Thick-Restart Lanczos Method for Large Symmetric Eigenvalue Problems, SIAM
J. Matrix Anal. Appl. 22, 2000. Every vector is made orthogonal to all others, twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.stages.sparse import Doubles

Which: TypeAlias = Literal["LA", "LM", "SA"]  # the largest, the largest by size, the least

_LEAST_VECTORS = 20  # of the basis
_RESTARTS = 1000
_SMALL = 1e-14  # of the size of the matrix: what rounding leaves of a vector


def extreme_value(
    multiply: Callable[[Doubles], Doubles], start: Doubles, which: Which, tol: float = 0.0
) -> float:
    """An extreme eigenvalue of the matrix that ``multiply`` applies."""
    return float(extreme_pairs(multiply, start, 1, which, tol)[0][0])


def extreme_pairs(
    multiply: Callable[[Doubles], Doubles], start: Doubles, k: int, which: Which, tol: float = 0.0
) -> tuple[Doubles, Doubles]:
    """The ``k`` extreme eigenvalues, and their eigenvectors as columns, (n, k).

    start : not 0; the same start gives the same bits; tol : the residual over the eigenvalue
    """
    n = len(start)
    size = min(n, max(2 * k + 1, _LEAST_VECTORS))
    basis = np.empty((size + 1, n))
    inner = np.zeros((size, size))
    kept = 0
    basis[0] = start / np.linalg.norm(start)
    for _ in range(_RESTARTS):
        for at in range(kept, size):
            image = multiply(basis[at])
            coefficients = _orthogonalize(image, basis[: at + 1])
            inner[at, : at + 1] = coefficients
            inner[: at + 1, at] = coefficients
            remainder = _extend(basis, at, image, float(np.abs(inner).max()))
        values, vectors = np.linalg.eigh(inner)
        order = np.argsort({"LA": values, "LM": np.abs(values), "SA": -values}[which])
        residual = remainder * np.abs(vectors[-1])
        is_converged = residual <= max(tol, _SMALL) * np.maximum(np.abs(values), 1e-10)
        converged = int(is_converged[order[-k:]].sum())
        if converged == k:
            extreme = np.sort(order[-k:])
            return values[extreme], basis[:size].T @ vectors[:, extreme]
        kept = size // 2 if k == 1 else k + min(converged, (size - k) // 2)
        extreme = order[-kept:]
        basis[:kept] = vectors[:, extreme].T @ basis[:size]
        basis[kept] = basis[size]
        inner[:] = 0
        inner[range(kept), range(kept)] = values[extreme]
    raise InvalidInputError(
        f"The eigenvalues of this graph of {n} rows were not found in {_RESTARTS} rounds of "
        "Lanczos' method. Rows that are all equal, or far apart, may be the cause."
    )


def _orthogonalize(vector: Doubles, basis: Doubles) -> Doubles:
    """Make ``vector`` orthogonal to the basis, in place; returns its coefficients there."""
    coefficients: Doubles = basis @ vector
    vector -= coefficients @ basis
    corrections: Doubles = basis @ vector  # what rounding left
    vector -= corrections @ basis
    return coefficients + corrections


def _extend(basis: Doubles, at: int, image: Doubles, scale: float) -> float:
    """basis[at + 1] becomes the direction of ``image``; returns the length of the image.

    scale : of the matrix. Where nothing is left of the image, which is then of length 0, any
    direction goes on: the matrix maps the span of the vectors so far into itself.
    """
    remainder = float(np.linalg.norm(image))
    length = remainder
    if remainder <= _SMALL * scale:
        image[:] = np.random.default_rng(at).normal(size=len(image))
        _orthogonalize(image, basis[: at + 1])
        remainder = 0.0
        length = float(np.linalg.norm(image))
    basis[at + 1] = image / max(length, 1e-300)
    return remainder
