"""What users say of the rows of an index beside their vectors: cameras, species, dates.

An attribute has a name and one value for every gallery row, by index. All its values are of one
kind: text, integers, numbers, or True and False; numpy's kinds are "U", "i", "f" and "b".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.conditions import Range, refuse_pair
from kinrank.errors import InvalidInputError, UnknownNameError, shown
from kinrank.filters import Different, Mask, Rule, SameForAll
from kinrank.index.ids import Ids, IdTable
from kinrank.types import Ints
from kinrank.validation import as_array, text_of_objects

Column: TypeAlias = npt.NDArray[Any]

_KINDS = {"U": "text", "i": "integers", "b": "True or False", "f": "numbers"}


@dataclass(frozen=True, eq=False)
class Attributes:
    """The attributes of the gallery rows; columns : by name, (n_gallery,) values by index."""

    columns: dict[str, Column] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any, n: int) -> Attributes:
        """From what a user gave for ``n`` rows, checked: a dict of lists by name; None for none."""
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
        """The values of the attribute ``name``; raises if there is none."""
        if not self.columns:
            raise InvalidInputError(
                f"This index has no attributes, so there is no {shown(name)}. Attributes are given "
                "when an index is made: fit(gallery, attributes={...})."
            )
        if name not in self.columns:
            raise UnknownNameError("attribute", name, list(self.columns))
        return self.columns[name]

    def read_only(self) -> dict[str, Column]:
        """The values by name, in arrays that cannot be written to."""
        return {name: locked(column) for name, column in self.columns.items()}

    def with_values(self, rows: Ints, given: Any) -> Attributes:
        """The attributes with other values for some rows.

        rows : (m,) gallery indices
        given : a dict of m values by name, as a user gives it; names that are left out stay
        """
        new = Attributes.of(given, len(rows))
        columns = dict(self.columns)
        for name, values in new.columns.items():
            old_values = self.column(name)
            if len(rows) == 0:
                continue  # a list of nothing is of no kind
            new_values = _of_kind(name, values, old_values.dtype.kind)
            # Text may be longer than all that was there.
            column = old_values.astype(np.promote_types(old_values.dtype, new_values.dtype))
            column[rows] = new_values
            columns[name] = column
        return Attributes(columns)

    def changed(self, old: IdTable, ids: Ids, added: Ids, given: Any) -> Attributes:
        """The attributes of the gallery rows after a change.

        old : finds the indices that ids had before
        ids : (n_new,) of the gallery rows after the change
        added : ids of rows whose vectors came with the change, new ones or those of an update
        given : a dict of values of these by name, as a user gives it; an update may leave names out
        """
        new = Attributes.of(given, len(added))
        for name in new.columns:
            self.column(name)  # raises for a name that the index does not have
        old_rows = old.find(ids)
        added_rows = IdTable(added).find(ids)
        return Attributes(
            {
                name: _joined(name, column, new.columns.get(name), old_rows, added_rows)
                for name, column in self.columns.items()
            }
        )

    def where(self, wanted: Any) -> list[Rule]:
        """The rules of ``Index.search(where=...)``: rows that have the values that are wanted.

        wanted : by name a value, several of which any will do, or a range
        """
        return [
            SameForAll(self._matches(name, values))
            for name, values in _mapping("where", wanted).items()
        ]

    def _matches(self, name: str, wanted: Any) -> Mask:
        """(n_gallery,) which rows have a wanted value of one attribute; wanted : see ``where``."""
        column = self.column(name)
        option = f"where[{name!r}]"
        if not isinstance(wanted, Mapping):
            refuse_pair(option, wanted)
            values, is_possible = self._values("where", name, wanted)
            return np.isin(column, values[is_possible])
        between = Range.of(option, wanted)
        kind = column.dtype.kind
        if kind == "b" or between.of_text != (kind == "U"):
            expected = "a range of text" if kind == "U" else "a range of numbers"
            if kind == "b":
                expected = "True or False"
            raise InvalidInputError(
                f"`{option}` must be {expected}, as the attribute, got {shown(dict(wanted))}."
            )
        return between.mask(column)

    def differ(self, of_queries: Any, n_queries: int) -> list[Rule]:
        """The rules of ``Index.search(differ=...)``: rows whose values are not those of the query.

        of_queries : by name one value for each query
        """
        rules: list[Rule] = []
        for name, given in _mapping("differ", of_queries).items():
            column = self.column(name)
            values, is_possible = self._values("differ", name, given)
            if len(values) != n_queries:
                raise InvalidInputError(
                    f"`differ[{name!r}]` must be one value per query ({n_queries}), "
                    f"got {len(values)}."
                )
            # Values as numbers, -1 for one that no row has.
            distinct, row_codes = np.unique(column, return_inverse=True)
            code = np.minimum(np.searchsorted(distinct, values), len(distinct) - 1)
            query_codes = np.where(is_possible & (distinct[code] == values), code, -1)
            rules.append(Different(query_codes.astype(np.int32), row_codes.astype(np.int32)))
        return rules

    def _values(self, option: str, name: str, given: Any) -> tuple[Column, Mask]:
        """Values that a user gave for a condition, in the dtype of the attribute ``name``.

        option : the parameter of ``Index.search``, for messages; given : one value or several

        Returns the values, and which of them the attribute can have at all.
        """
        if isinstance(given, np.ndarray):
            several: Any = np.atleast_1d(given)
        else:
            several = given if isinstance(given, (list, tuple, set, frozenset)) else [given]
        column = self.column(name)
        if len(several) == 0:
            return column[:0], np.empty(0, np.bool_)
        values = as_column(f"{option}[{name!r}]", several)
        kind = column.dtype.kind
        if values.dtype.kind != kind and {values.dtype.kind, kind} != {"i", "f"}:
            raise InvalidInputError(
                f"`{option}[{name!r}]` must be {_KINDS[kind]}, as the attribute, "
                f"got {_KINDS[values.dtype.kind]}."
            )
        return _as_numbers(values, kind)


def locked(array: Column) -> Column:
    """The same values, which cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _as_numbers(values: Column, kind: str) -> tuple[Column, Mask]:
    """Values as integers or numbers, and which of them stay exactly what they were.

    Beyond 2^53 not every integer is a float64: a comparison of both would round.

    kind : "i" for int64, "f" for float64; other kinds are left as they are
    """
    if kind == "i" and values.dtype.kind == "f":
        whole = (values == np.floor(values)) & (values >= -(2.0**63)) & (values < 2.0**63)
        return np.where(whole, values, 0).astype(np.int64), whole
    if kind == "f" and values.dtype.kind == "i":
        floats = values.astype(np.float64)
        in_range = floats < 2.0**63
        back = np.where(in_range, floats, 0).astype(np.int64)
        return floats, in_range & (back == values)
    return values, np.ones(len(values), np.bool_)


def _mapping(name: str, given: Any) -> Mapping[str, Any]:
    """What a user gave for the parameter ``name``, which must be a dict; None is an empty one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"`{name}` must be a dict of attributes, got {shown(given)}.")
    return given


def as_column(name: str, given: Any) -> Column:
    """What a user gave as values of one kind, as an array (n,); raises for a mix.

    Integers become int64 and numbers float64. name : of the parameter, for messages
    """
    values = list(given) if isinstance(given, (set, frozenset)) else given
    array = text_of_objects(name, as_array(name, values))
    kinds = {_kind_of(value) for value in values} if isinstance(values, (list, tuple)) else set()
    kind = array.dtype.kind.replace("u", "i")
    is_mixed = len(kinds) > 1 and not kinds <= {"i", "f"}
    if array.ndim != 1 or is_mixed or kind not in _KINDS:
        raise InvalidInputError(
            f"`{name}` must be a list of text, of integers of 64 bits, of numbers or of True and "
            "False, got " + ("values of several kinds." if is_mixed else f"{shown(given)}.")
        )
    if kind == "f":
        if not np.isfinite(array).all():
            raise InvalidInputError(f"`{name}` must be finite, got NaN or infinity.")
        _refuse_rounded(name, array, values)
    if kind == "i" and len(array) and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"`{name}` must be integers of 64 bits, got {array.max()}.")
    dtype = {"i": np.dtype(np.int64), "f": np.dtype(np.float64)}.get(kind, array.dtype)
    return np.asarray(array, dtype)


def _kind_of(value: Any) -> str:
    """The kind of one value of a list, as numpy names it; "O" for any other object."""
    if isinstance(value, (bool, np.bool_)):
        return "b"
    if isinstance(value, Integral):
        return "i"
    if isinstance(value, Real):
        return "f"
    return "U" if isinstance(value, str) else "O"


def _refuse_rounded(name: str, array: Column, given: Any) -> None:
    """Raise if an integer became another number beside floats; array : of the list ``given``."""
    if not isinstance(given, (list, tuple)):
        return
    for number, value in zip(array.tolist(), given, strict=True):
        if isinstance(value, Integral) and int(value) != number:
            raise InvalidInputError(
                f"`{name}` must be all integers, or numbers that float64 can hold, got {value} "
                "beside other numbers."
            )


def _of_kind(name: str, values: Column, kind: str) -> Column:
    """New values of an attribute in the kind of its old ones; raises if they are of another."""
    if kind == "f" and values.dtype.kind == "i":
        numbers, is_exact = _as_numbers(values, kind)
        if is_exact.all():
            return numbers
    if values.dtype.kind != kind:
        raise InvalidInputError(
            f"`attributes[{name!r}]` must be {_KINDS[kind]}, as in the index, "
            f"got {_KINDS[values.dtype.kind]}."
        )
    return values


def _joined(name: str, old: Column, new: Column | None, old_rows: Ints, added_rows: Ints) -> Column:
    """The values of one attribute after a change, (n_new,).

    name : of the attribute, for messages
    old : (n_old,) the values before; new : (n_added,) of rows whose vectors came, None for none
    old_rows, added_rows : (n_new,) where each row was before, and where it is among those whose
        vectors came; -1 for nowhere
    """
    is_new = (old_rows < 0) if new is None else (added_rows >= 0)
    if new is None:
        if is_new.any():
            raise InvalidInputError(
                f"`attributes` must have {name!r} for rows that are added, as the index has it, "
                "got none."
            )
        return old[old_rows]
    new = _of_kind(name, new, old.dtype.kind)
    return np.where(is_new, new[np.maximum(added_rows, 0)], old[np.maximum(old_rows, 0)])
