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

_LEAST_VECTORS = 20
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
            inner[at, : at + 1] = inner[: at + 1, at] = _orthogonalize(image, basis[: at + 1])
            rest = _extend(basis, at, image, float(np.abs(inner).max()))
        values, vectors = np.linalg.eigh(inner)
        order = np.argsort({"LA": values, "LM": np.abs(values), "SA": -values}[which])
        residual = rest * np.abs(vectors[-1])
        sharp = residual <= max(tol, _SMALL) * np.maximum(np.abs(values), 1e-10)
        done = int(sharp[order[-k:]].sum())
        if done == k:
            chosen = np.sort(order[-k:])
            return values[chosen], basis[:size].T @ vectors[:, chosen]
        kept = size // 2 if k == 1 else k + min(done, (size - k) // 2)
        chosen = order[-kept:]
        basis[:kept] = vectors[:, chosen].T @ basis[:size]
        basis[kept] = basis[size]
        inner[:] = 0
        inner[range(kept), range(kept)] = values[chosen]
    raise InvalidInputError(
        f"The eigenvalues of this graph of {n} rows were not found in {_RESTARTS} rounds of "
        "Lanczos' method. Rows that are all alike, or far apart, may be the cause."
    )


def _orthogonalize(vector: Doubles, basis: Doubles) -> Doubles:
    """Take from ``vector`` what it has in common with the basis; returns how much that was."""
    common = basis @ vector
    vector -= common @ basis
    again = basis @ vector
    vector -= again @ basis
    total: Doubles = common + again
    return total


def _extend(basis: Doubles, at: int, image: Doubles, scale: float) -> float:
    """Put the image's direction behind vector ``at``; returns its length.

    Where nothing is left of it, any direction goes on: the vectors so far span all that they reach.
    """
    rest = length = float(np.linalg.norm(image))
    if rest <= _SMALL * scale:
        image[:] = np.random.default_rng(at).normal(size=len(image))
        _orthogonalize(image, basis[: at + 1])
        rest = 0.0
        length = float(np.linalg.norm(image))
    basis[at + 1] = image / max(length, 1e-300)
    return rest
