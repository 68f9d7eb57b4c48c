"""Ids that users give to rows: 64-bit integers or text, each once.

The *index* of a row is its place among the ids.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownIdError
from kinrank.types import Ints
from kinrank.validation import as_array, as_list, text_of_objects

Ids: TypeAlias = npt.NDArray[Any]


def as_ids(ids: Any, n: int | None = None, first: int = 0) -> Ids:
    """Ids as users give them, as an int64 or text array, (n,).

    Their type, dimensions and number are checked; duplicates are not looked for
    (``refuse_duplicates``).

    n : how many there must be; None for any number
    first : used only with ``ids`` None: the ids are then first, first + 1, ..., ``n`` of them
    """
    if ids is None:
        count = n or 0
        if count == 0:
            return np.empty(0, np.int64)
        if first + count - 1 > np.iinfo(np.int64).max:
            raise InvalidInputError(
                f"`ids` must be given: {count} more integers of 64 bits do not fit behind "
                f"{first - 1}, the largest so far."
            )
        return first + np.arange(count, dtype=np.int64)
    is_array = isinstance(ids, np.ndarray)
    values = as_array("ids", ids) if is_array else as_list("ids", ids, "a list or an array")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InvalidInputError(f"`ids` must be one-dimensional, got shape {values.shape}.")
    array = _as_text_or_integers(values)
    if array.ndim != 1:
        raise InvalidInputError(f"`ids` must be one-dimensional, got shape {array.shape}.")
    if n is not None and len(array) != n:
        raise InvalidInputError(f"`ids` must be one per row ({n}), got {len(array)}.")
    return array


def _as_text_or_integers(values: Any) -> Ids:
    """A list or an array as an array of text or of int64; raises for anything else, and a mix."""
    if len(values) == 0:
        return np.empty(0, np.int64)
    array = text_of_objects("ids", as_array("ids", values))
    # numpy makes the text "1" of the number 1 beside text, and 1 of True beside numbers.
    kinds = {_kind_of(value) for value in values} if isinstance(values, list) else set()
    is_mixed = len(kinds) > 1
    if array.dtype.kind == "U" and not is_mixed:
        return array
    if array.dtype.kind in "iu" and not is_mixed and array.max() <= np.iinfo(np.int64).max:
        return array.astype(np.int64)
    raise InvalidInputError(
        f"`ids` must be all text or all integers of 64 bits, got dtype {array.dtype}."
    )


def _kind_of(value: Any) -> type:
    """The type of one id: text, a truth value, or else (an integer)."""
    return next((kind for kind in (str, bool, np.bool_) if isinstance(value, kind)), int)


def refuse_duplicates(ids: Ids) -> Ids:
    """``ids`` itself; raises if one is there twice."""
    ascending = np.sort(ids)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated):
        raise InvalidInputError(
            f"`ids` must be different from each other, got {repeated[0].item()!r} more than once."
        )
    return ids


class IdTable:
    """Finds the index of an id: its place in ``ids``. Sorts them when it is first used."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _sorted(self) -> tuple[Ids, npt.NDArray[np.int64]]:
        """The ids in ascending order, and the index of each."""
        order = np.argsort(self.ids, kind="stable")
        return self.ids[order], order

    def rows(self, wanted: Any) -> Ints:
        """The index of each id, (m,) int32; raises on one that is unknown.

        wanted : ids as users give them
        """
        wanted = as_ids(wanted)
        indices = self.find(wanted)
        missing = wanted[indices < 0]
        if len(missing):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise UnknownIdError(f"There is no row with the id {missing[0].item()!r}{more}.")
        return indices

    def find(self, wanted: Ids) -> Ints:
        """The index of each id, (m,) int32, -1 where there is none; wanted : of ``as_ids``."""
        is_empty = len(wanted) == 0 or len(self.ids) == 0  # then nothing needs to be sorted
        if is_empty or (wanted.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            return np.full(len(wanted), -1, np.int32)
        ascending, indices = self._sorted
        place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
        return np.where(ascending[place] == wanted, indices[place], -1).astype(np.int32)


def ids_at(ids: Ids, indices: npt.NDArray[np.integer[Any]]) -> Ids:
    """The ids at some indices, in the shape of these; "" or -1 where an index is -1."""
    if indices.min(initial=0) >= 0:
        return ids.take(indices)
    is_filled = indices >= 0
    ids_of_indices = np.full(indices.shape, "" if ids.dtype.kind == "U" else -1, ids.dtype)
    ids_of_indices[is_filled] = ids[indices[is_filled]]
    return ids_of_indices


def joined(old: Ids, new: Ids) -> Ids:
    """The ids of old rows and then of new ones; raises if one repeats, or for text and numbers."""
    if len(old) and len(new) and (old.dtype.kind == "U") != (new.dtype.kind == "U"):
        kind = "text" if old.dtype.kind == "U" else "integers"
        raise InvalidInputError(f"The ids of this index are {kind}, and other ones were given.")
    return refuse_duplicates(np.concatenate([old, new]) if len(old) else new)
