"""Neighbours and distances that a user brings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.kernels.lists import cleaned_lists
from kinrank.parallel import ALONE, Out
from kinrank.stages.distances import Distances, ListDistances, MatrixDistances
from kinrank.types import Floats, Neighbors
from kinrank.validation import LARGEST, SAFE_EXPONENT, as_array, as_matrix, check_bool

_SMALLEST = 2.0**-60  # that the largest distance may be: its square still fits float32


def precomputed_distances(
    distances: Any, indices: Any, *, squared: bool, farthest: Any, exponent: int | None = None
) -> Distances:
    """Check the distances that a user brought and bring them into the form the stages take.

    distances : (n, n), or (n, K) with ``indices``, the rows they lead to; squared : whether they
        are
    farthest : the largest distance of each row, (n,) or one number; with ``indices`` alone
    exponent : of the power of two that the rows themselves were divided by; None for one that
        suits the distances
    """
    given = as_matrix("distances", distances)
    if np.isnan(given).any() or (given < 0).any():
        raise InvalidInputError("`distances` has a value that is negative or NaN.")
    power = 2 if check_bool("squared", squared) else 1
    exponent = _common_exponent(given, power) if exponent is None else exponent * power
    matrix = _divided("distances", given, exponent, power)
    if not squared:
        matrix = matrix * matrix
    if indices is not None:
        return _from_lists(matrix, indices, farthest, exponent, power)
    if matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(
            f"`distances` must be (n, n) when no `indices` are given, got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise InvalidInputError("`distances` must be finite, got infinity.")
    if farthest is not None:
        raise InvalidInputError("A full matrix of distances needs no `farthest`: leave it out.")
    return _from_matrix(matrix)


def _common_exponent(matrix: npt.NDArray[Any], power: int) -> int:
    """The power of two to divide by, 0 when distances are of ordinary size."""
    exponent = math.frexp(float(np.max(matrix, where=np.isfinite(matrix), initial=0)))[1]
    return exponent if abs(exponent) > power * SAFE_EXPONENT else 0


def _divided(name: str, values: npt.NDArray[Any], exponent: int, power: int) -> Floats:
    """Distances over 2**exponent, as float32 whose squares fit too; that changes no ranking.

    power : 2 where the values are squares, else 1
    """
    given_largest = float(np.max(values, where=np.isfinite(values), initial=0))
    with np.errstate(over="ignore"):  # of what is refused
        divided = np.ldexp(values.astype(np.float64), -exponent) if exponent else values
        largest = np.ldexp(given_largest, -exponent)
        low = np.ldexp(_SMALLEST**power, exponent)
        high = np.ldexp(LARGEST**power, exponent)
    if largest > LARGEST**power or 0 < largest < _SMALLEST**power:
        raise InvalidInputError(
            f"`{name}` must have a largest value between {low:.2g} and {high:.2g}, so that squares "
            f"fit float32, got {given_largest:.2g}."
        )
    return divided.astype(np.float32)


def _from_matrix(matrix: Floats) -> MatrixDistances:
    """Full lists from a full matrix; the row itself first, ties by lower index."""
    n = len(matrix)
    ranked = matrix.copy()
    ranked[np.arange(n), np.arange(n)] = -1
    order = np.argsort(ranked, axis=1, kind="stable").astype(np.int32)
    sorted_d = np.take_along_axis(matrix, order, axis=1)
    sorted_d[:, 0] = 0
    return MatrixDistances(Neighbors(order, sorted_d, matrix.max(axis=1)), matrix)


def _from_lists(
    matrix: Floats, indices: Any, farthest: Any, exponent: int, power: int
) -> ListDistances:
    """Lists of squared distances that a user brought, checked and sorted.

    exponent, power : by which ``matrix`` was divided, and ``farthest`` has to be; see ``_divided``
    """
    lists = as_array("indices", indices)
    if lists.dtype.kind not in "iu" or lists.shape != matrix.shape:
        raise InvalidInputError(
            f"`indices` must be integers of the shape of `distances` {matrix.shape}, "
            f"got {lists.dtype} {lists.shape}."
        )
    n = len(lists)
    if lists.min() < -1 or lists.max() >= n:
        raise InvalidInputError(
            f"`indices` must be row numbers below {n} (or -1 for none), "
            f"got {lists.min()} to {lists.max()}."
        )
    largest = _farthest(farthest, n, exponent, power)
    order = np.lexsort((lists, np.where(np.isfinite(matrix), matrix, np.inf)), axis=1)
    lists = np.take_along_axis(lists, order, axis=1)
    matrix = np.take_along_axis(matrix, order, axis=1)
    args = (np.ascontiguousarray(lists, np.int32), np.ascontiguousarray(matrix))
    width = lists.shape[1] + 1
    ids, values, counts = ALONE.fill(
        "neighbours",
        cleaned_lists,
        args,
        n,
        Out(np.int32, width),
        Out(np.float32, width),
        Out(np.int64),
    )
    kept = slice(max(int(counts.max()), 2))  # at least one neighbour, even if it is none
    return ListDistances(
        Neighbors(
            np.ascontiguousarray(ids[:, kept]), np.ascontiguousarray(values[:, kept]), largest
        )
    )


def _farthest(farthest: Any, n: int, exponent: int, power: int) -> Floats:
    """(n,) the largest squared distance of each row, from what a user brought."""
    if farthest is None:
        raise InvalidInputError(
            "`farthest` must be given with `indices`: the largest distance from each row to any "
            "other, (n,) or one number (for unit vectors 2 is near it for squared distances, "
            "1.414 for plain ones)."
        )
    given = as_array("farthest", farthest)
    if given.dtype.kind not in "fiu" or given.shape not in ((), (1,), (n,)):
        raise InvalidInputError(
            f"`farthest` must be one number or one for each of the {n} rows, "
            f"got {given.dtype} of shape {given.shape}."
        )
    if not np.isfinite(given).all() or (given <= 0).any():
        raise InvalidInputError("`farthest` has a value that is not positive and finite.")
    largest = np.broadcast_to(_divided("farthest", given, exponent, power), (n,)).copy()
    if power == 1:
        largest = largest * largest
    return np.maximum(largest, np.finfo(np.float32).tiny)
