"""What is known of the rows of an index beside their vectors: cameras, species, dates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.conditions import Condition, Different, ForAll
from kinrank.errors import InvalidInputError, UnknownNameError, shown
from kinrank.index.ids import Ids, IdTable
from kinrank.types import Ints
from kinrank.validation import as_array

Column: TypeAlias = npt.NDArray[Any]

_KINDS = {"U": "text", "i": "integers", "b": "True or False", "f": "numbers"}


@dataclass(frozen=True, eq=False)
class Attributes:
    """One value of each name for every gallery row, in the order of the ids."""

    columns: dict[str, Column] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any, n: int) -> Attributes:
        """What a user gave for ``n`` rows: a dict of lists; None for none."""
        if given is None:
            return cls()
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise InvalidInputError(
                f"`attributes` must be a dict of names to one value per row, got {shown(given)}."
            )
        columns = {name: as_column(f"attributes[{name!r}]", given[name]) for name in given}
        for name, column in columns.items():
            if len(column) != n:
                raise InvalidInputError(
                    f"`attributes[{name!r}]` must have one value per row ({n}), got {len(column)}."
                )
        return cls(columns)

    def column(self, name: str) -> Column:
        """The values of one name."""
        if name not in self.columns:
            raise UnknownNameError("attribute", name, list(self.columns))
        return self.columns[name]

    def changed(self, old: IdTable, ids: Ids, added: Ids, given: Any) -> Attributes:
        """Those of the rows ``ids`` after a change.

        old : the rows before; added : ids whose vectors came with it; given : attributes of these,
        which rows that were there may leave out
        """
        new = Attributes.of(given, len(added))
        for name in new.columns:
            self.column(name)
        places, at = old.find(ids), IdTable(added).find(ids)
        return Attributes(
            {
                name: _joined(name, column, new.columns.get(name), places, at)
                for name, column in self.columns.items()
            }
        )

    def where(self, wanted: Any) -> list[Condition]:
        """Rows whose values are those wanted, one or any of several for each name."""
        return [
            ForAll(np.isin(self.column(name), self._values("where", name, values)))
            for name, values in _mapping("where", wanted).items()
        ]

    def differ(self, of_queries: Any, n_queries: int) -> list[Condition]:
        """Rows whose values are other than the query's."""
        conditions: list[Condition] = []
        for name, values in _mapping("differ", of_queries).items():
            column, own = self.column(name), self._values("differ", name, values)
            if len(own) != n_queries:
                raise InvalidInputError(
                    f"`differ[{name!r}]` must be one value per query ({n_queries}), got {len(own)}."
                )
            known, codes = np.unique(column, return_inverse=True)
            at = np.minimum(np.searchsorted(known, own), len(known) - 1)
            numbers = np.where(known[at] == own, at, -1).astype(np.int32)
            conditions.append(Different(numbers, codes.astype(np.int32)))
        return conditions

    def _values(self, option: str, name: str, given: Any) -> Column:
        several = given if isinstance(given, (list, tuple, set, frozenset, np.ndarray)) else [given]
        if len(several) == 0:
            return self.column(name)[:0]
        values = as_column(f"{option}[{name!r}]", several)
        kind = self.column(name).dtype.kind
        if values.dtype.kind != kind and {values.dtype.kind, kind} != {"i", "f"}:
            raise InvalidInputError(
                f"`{option}[{name!r}]` must be {_KINDS[kind]}, as the attribute, "
                f"got {_KINDS[values.dtype.kind]}."
            )
        return values


def _mapping(name: str, given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"`{name}` must be a dict of attributes, got {shown(given)}.")
    return given


def as_column(name: str, given: Any) -> Column:
    """One value per row: all text, all integers, all True or False, or all numbers."""
    values = list(given) if isinstance(given, (set, frozenset)) else given
    array = as_array(name, values)
    kinds = {type(value) for value in values} if isinstance(values, (list, tuple)) else set()
    text, truth = kinds & {str, np.str_}, kinds & {bool, np.bool_}
    mixed = (text and kinds - {str, np.str_}) or (truth and kinds - {bool, np.bool_})
    if array.dtype.kind == "O" and {type(value) for value in array.ravel()} == {str}:
        array = array.astype(str)
    kind = array.dtype.kind.replace("u", "i")
    if array.ndim != 1 or mixed or kind not in _KINDS:
        raise InvalidInputError(
            f"`{name}` must be a list of text, of integers, of numbers or of True and False, got "
            + ("values of several kinds." if mixed or kind == "O" else f"{shown(given)}.")
        )
    if kind == "f" and not np.isfinite(array).all():
        raise InvalidInputError(f"`{name}` must be finite, got NaN or infinity.")
    if kind == "i" and len(array) and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"`{name}` must be integers of 64 bits, got {array.max()}.")
    kept = {"i": np.dtype(np.int64), "f": np.dtype(np.float64)}.get(kind, array.dtype)
    return np.asarray(array, kept)


def _joined(name: str, old: Column, new: Column | None, places: Ints, at: Ints) -> Column:
    """Values of rows that were at ``places`` before, or at ``at`` among the new ones."""
    fresh = (places < 0) if new is None else (at >= 0)
    if new is None:
        if fresh.any():
            raise InvalidInputError(
                f"`attributes` must have {name!r} for rows that are added, as the index has it, "
                "got none."
            )
        return old[places]
    if new.dtype.kind != old.dtype.kind:
        raise InvalidInputError(
            f"`attributes[{name!r}]` must be {_KINDS[old.dtype.kind]}, as in the index, "
            f"got {_KINDS[new.dtype.kind]}."
        )
    return np.where(fresh, new[np.maximum(at, 0)], old[np.maximum(places, 0)])
