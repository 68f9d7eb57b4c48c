"""What ``where=`` asks of the attributes that a store keeps: values or a range for each name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from kinrank.conditions import Range, refuse_pair
from kinrank.errors import InvalidInputError, shown

AttributeKind: TypeAlias = Literal["text", "integers", "numbers", "True or False"]

_EXACT = 2**53  # whole numbers below it are the same in float64
_COLLECTIONS = (list, tuple, set, frozenset)


@dataclass(frozen=True)
class Wanted:
    """What is asked of one attribute: one of several values, or a range.

    values : None for a range
    """

    name: str
    values: tuple[Any, ...] | None
    between: Range | None = None

    def allows(self, value: Any) -> bool:
        """Whether a row with this value may be an answer; None is no value."""
        kind = _kind_of(value)
        if kind is None:
            return False
        if self.values is not None:
            return any(_kind_of(other) == kind and other == value for other in self.values)
        assert self.between is not None
        low = self.between.low
        high = self.between.high
        if kind == "bool" or any(_kind_of(end) not in (None, kind) for end in (low, high)):
            return False
        return (low is None or value >= low) and (high is None or value <= high)

    def of_kind(self, kind: AttributeKind) -> Wanted:
        """The same in the words of a column whose kind is known: whole numbers for integers.

        An error if the column cannot have such values.
        """
        right = {"text": "text", "True or False": "bool"}.get(kind, "number")
        if self.values is None:
            assert self.between is not None
            ends = [end for end in (self.between.low, self.between.high) if end is not None]
            if right == "bool" or any(_kind_of(end) != right for end in ends):
                raise InvalidInputError(
                    f"`where[{self.name!r}]` must be "
                    + ("True or False" if right == "bool" else f"a range of {kind}")
                    + f", as the attribute, got a range with {shown(ends)}."
                )
            if kind == "integers":
                return replace(self, between=_whole_range(self.between))
            return self
        for value in self.values:
            if _kind_of(value) != right:
                raise InvalidInputError(
                    f"`where[{self.name!r}]` must be {kind}, as the attribute, got {shown(value)}."
                )
        if kind == "integers":
            whole = (value for value in self.values if value == math.floor(value))
            return replace(self, values=tuple(int(value) for value in whole))
        return self

    @property
    def numbers(self) -> list[Any]:
        """The numbers among its values or ends."""
        parts: Any = self.values
        if parts is None:
            assert self.between is not None
            parts = [end for end in _ends(self.between) if end is not None]
        return [part for part in parts if _kind_of(part) == "number"]

    @property
    def fits_float64(self) -> bool:
        """Whether an engine that counts in float64 compares its numbers as they are."""
        return all(math.isfinite(number) and abs(number) < _EXACT for number in self.numbers)

    @property
    def fits_float32(self) -> bool:
        """Whether its numbers are the same in float32."""
        with np.errstate(over="ignore"):
            return all(float(np.float32(number)) == number for number in self.numbers)


def wanted_of(where: Any) -> list[Wanted]:
    """What a user gave as ``where``."""
    if not isinstance(where, Mapping) or not all(isinstance(name, str) for name in where):
        raise InvalidInputError(f"`where` must be a dict of attributes, got {shown(where)}.")
    wanted = []
    for name, given in where.items():
        option = f"where[{name!r}]"
        if isinstance(given, Mapping):
            wanted.append(Wanted(name, None, Range.of(option, given)))
            continue
        refuse_pair(option, given)
        several = given.tolist() if isinstance(given, np.ndarray) else given
        values = tuple(several) if isinstance(several, _COLLECTIONS) else (several,)
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for value in plain:
            if _kind_of(value) is None:
                raise InvalidInputError(
                    f"`{option}` must be text, numbers or True and False, got {shown(value)}."
                )
        wanted.append(Wanted(name, plain))
    return wanted


def sql_condition(
    wanted: Wanted, column: str, literal: Callable[[Any], str], nothing: str = "1 = 0"
) -> str:
    """A condition as SQL says it.

    column : its name, quoted; literal : writes a value; nothing : what no row fulfils
    """
    if wanted.values is not None:
        if not wanted.values:
            return nothing
        return f"{column} IN ({', '.join(literal(value) for value in wanted.values)})"
    assert wanted.between is not None
    ends = ((">=", wanted.between.low), ("<=", wanted.between.high))
    parts = [f"{column} {sign} {literal(end)}" for sign, end in ends if end is not None]
    return " AND ".join(parts)


def sql_literal(value: Any) -> str:
    """A value in SQL: text in quotes, numbers as they are."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper() if isinstance(value, bool) else repr(value)


def _kind_of(value: Any) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, float, np.number)):
        return "number" if value == value else None  # noqa: PLR0124  NaN is no value
    return "text" if isinstance(value, str) else None


def _ends(between: Range) -> tuple[Any, Any]:
    return between.low, between.high


def _whole_range(between: Range) -> Range:
    """The same integers between whole ends; an end of infinity stays."""
    low = between.low
    high = between.high
    finite_low = low is not None and math.isfinite(low)
    finite_high = high is not None and math.isfinite(high)
    return Range(math.ceil(low) if finite_low else low, math.floor(high) if finite_high else high)
