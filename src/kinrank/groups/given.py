"""What is given to be grouped: ids of rows, and rows that have a direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, shown
from kinrank.validation import as_labels

_BLOCK = 8192  # rows that are looked at at a time


def as_row_ids(ids: Any, n: int) -> npt.NDArray[Any]:
    """Ids of rows, each once; None numbers them."""
    if ids is None:
        return np.arange(n)
    values = whole_numbers(as_labels("ids", ids, n, "rows", kinds="iuU"))
    unique, counts = np.unique(values, return_counts=True)
    if len(unique) < n:
        twice = unique[int(np.argmax(counts > 1))]
        raise InvalidInputError(
            f"`ids` must be different from each other, got {shown(twice.item())} more than once."
        )
    return values


def whole_numbers(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Ids that are numbers in int64; text as it is."""
    if ids.dtype.kind == "U":
        return ids
    if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(
            f"`ids` must be below 2^63 where they are numbers, got {ids.max()}: give them as text."
        )
    return ids.astype(np.int64)


def refuse_zero_rows(vectors: npt.NDArray[Any]) -> None:
    """Refuse rows of zeros, which have no direction."""
    blocks = (vectors[low : low + _BLOCK] for low in range(0, len(vectors), _BLOCK))
    is_zero = np.concatenate([~np.any(block, axis=1) for block in blocks])
    if is_zero.any():
        raise InvalidInputError(
            f"Row {int(np.argmax(is_zero))} of `vectors` is a zero vector, which is like no other "
            "row. Remove it."
        )
