"""Neighbours and distances that a user brings."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.kernels.lists import cleaned_lists
from kinrank.parallel import ALONE, Out
from kinrank.stages.distance import Distances, ListDistances, MatrixDistances
from kinrank.types import Floats, Neighbors
from kinrank.validation import as_array, as_matrix


def given_distances(distances: Any, indices: Any, *, squared: bool, farthest: Any) -> Distances:
    """Check what was given and bring it into the form the stages take."""
    matrix = as_matrix("distances", distances).astype(np.float32)
    if np.isnan(matrix).any() or (matrix < 0).any():
        raise InvalidInputError("`distances` must not be negative or NaN, got such a value.")
    if not squared:
        matrix = matrix * matrix
    if indices is not None:
        return _from_lists(matrix, indices, squared, farthest)
    if matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(
            f"`distances` must be (n, n) when no `indices` are given, got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise InvalidInputError("`distances` must be finite, got infinity.")
    if farthest is not None:
        raise InvalidInputError("`farthest` must be left out with a full matrix of distances.")
    return _from_matrix(matrix)


def _from_matrix(matrix: Floats) -> MatrixDistances:
    """Full lists from a full matrix; the row itself first, ties by lower index."""
    n = len(matrix)
    ranked = matrix.copy()
    ranked[np.arange(n), np.arange(n)] = -1
    order = np.argsort(ranked, axis=1, kind="stable").astype(np.int32)
    sorted_d = np.take_along_axis(matrix, order, axis=1)
    sorted_d[:, 0] = 0
    return MatrixDistances(Neighbors(order, sorted_d, matrix.max(axis=1)), matrix)


def _from_lists(matrix: Floats, indices: Any, squared: bool, farthest: Any) -> ListDistances:
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
    far = _farthest(farthest, n, squared)
    order = np.lexsort((lists, np.where(np.isfinite(matrix), matrix, np.inf)), axis=1)
    lists = np.take_along_axis(lists, order, axis=1)
    matrix = np.take_along_axis(matrix, order, axis=1)
    args = (np.ascontiguousarray(lists, np.int32), np.ascontiguousarray(matrix))
    outs = (Out(np.int32, lists.shape[1] + 1), Out(np.float32, lists.shape[1] + 1), Out(np.int64))
    ids, values, counts = ALONE.fill("neighbours", cleaned_lists, args, n, *outs)
    kept = slice(int(counts.min()))
    own = (np.ascontiguousarray(ids[:, kept]), np.ascontiguousarray(values[:, kept]))
    return ListDistances(Neighbors(*own, far))


def _farthest(farthest: Any, n: int, squared: bool) -> Floats:
    if farthest is None:
        raise InvalidInputError(
            "`farthest` must be given with `indices`: the largest distance from each row to any "
            "other, (n,) or one number (for unit vectors 2 is near it for squared distances, "
            "1.414 for plain ones)."
        )
    far = np.broadcast_to(as_array("farthest", farthest).astype(np.float32), (n,)).copy()
    if not np.isfinite(far).all() or (far <= 0).any():
        raise InvalidInputError("`farthest` must be positive and finite, got other values.")
    return far if squared else far * far
