"""Extreme eigenvalues of sparse symmetric matrices, by Lanczos' method with thick restarts.

Kesheng Wu, Horst Simon: Thick-Restart Lanczos Method for Large Symmetric Eigenvalue Problems, SIAM
J. Matrix Anal. Appl. 22, 2000. Every vector is made orthogonal to all others, twice.

The matrix A, n x n, is given as a function: ``multiply(x)`` is A x, x (n,) float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.stages.sparse import Doubles

Which: TypeAlias = Literal[
    "LA", "LM", "SA"
]  # the largest, the largest by absolute value, the least

_LEAST_VECTORS = 20  # of the basis
_RESTARTS = 1000
_SMALL = 1e-14  # of the size of the matrix: what rounding leaves of a vector


def extreme_value(
    multiply: Callable[[Doubles], Doubles], start: Doubles, which: Which, tol: float = 0.0
) -> float:
    """The most extreme eigenvalue of A; arguments as in ``extreme_pairs``."""
    return float(extreme_pairs(multiply, start, 1, which, tol)[0][0])


def extreme_pairs(
    multiply: Callable[[Doubles], Doubles], start: Doubles, k: int, which: Which, tol: float = 0.0
) -> tuple[Doubles, Doubles]:
    """The ``k`` extreme eigenvalues, (k,), ascending, and their eigenvectors as columns, (n, k).

    start : (n,) not 0; the same start gives the same bits
    which : "LA", the largest; "LM", the largest by absolute value; "SA", the least
    tol : how large the residual |A v - value v| may be, over |value|
    """
    n = len(start)
    basis_size = min(n, max(2 * k + 1, _LEAST_VECTORS))
    basis = np.empty((basis_size + 1, n))  # rows are orthonormal
    projected = np.zeros((basis_size, basis_size))
    n_kept = 0
    basis[0] = start / np.linalg.norm(start)
    for _ in range(_RESTARTS):
        for step in range(n_kept, basis_size):
            product = multiply(basis[step])
            coefficients = _orthogonalize(product, basis[: step + 1])
            projected[step, : step + 1] = coefficients
            projected[: step + 1, step] = coefficients
            remainder = _extend(basis, step, product, float(np.abs(projected).max()))
        values, vectors = np.linalg.eigh(projected)
        order = np.argsort({"LA": values, "LM": np.abs(values), "SA": -values}[which])
        residual = remainder * np.abs(vectors[-1])
        is_converged = residual <= max(tol, _SMALL) * np.maximum(np.abs(values), 1e-10)
        converged = int(is_converged[order[-k:]].sum())
        if converged == k:
            extreme = np.sort(order[-k:])
            return values[extreme], basis[:basis_size].T @ vectors[:, extreme]
        n_kept = basis_size // 2 if k == 1 else k + min(converged, (basis_size - k) // 2)
        extreme = order[-n_kept:]
        basis[:n_kept] = vectors[:, extreme].T @ basis[:basis_size]
        basis[n_kept] = basis[basis_size]
        projected[:] = 0
        projected[range(n_kept), range(n_kept)] = values[extreme]
    raise InvalidInputError(
        f"The eigenvalues of this graph of {n} rows were not found in {_RESTARTS} rounds of "
        "Lanczos' method. Rows that are all equal, or far apart, may be the cause."
    )


def _orthogonalize(vector: Doubles, basis: Doubles) -> Doubles:
    """Make ``vector`` orthogonal to the basis, (m, n), in place; returns its m coefficients."""
    coefficients: Doubles = basis @ vector
    vector -= coefficients @ basis
    corrections: Doubles = basis @ vector  # what rounding left
    vector -= corrections @ basis
    return coefficients + corrections


def _extend(basis: Doubles, last: int, vector: Doubles, scale: float) -> float:
    """basis[last + 1] becomes the direction of ``vector``, which is orthogonal to the rows before.

    scale : the size of the matrix; where the vector is only what rounding left, beside it, any
        direction goes on: the matrix maps the span of the vectors so far into itself
    Returns the length of the vector, or 0 then.
    """
    remainder = float(np.linalg.norm(vector))
    length = remainder
    if remainder <= _SMALL * scale:
        vector[:] = np.random.default_rng(last).normal(size=len(vector))
        _orthogonalize(vector, basis[: last + 1])
        remainder = 0.0
        length = float(np.linalg.norm(vector))
    basis[last + 1] = vector / max(length, 1e-300)
    return remainder
