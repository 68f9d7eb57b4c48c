"""The reasons why a gallery row may or may not be an answer to a query, as they were given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, shown
from kinrank.types import Ints, Longs
from kinrank.validation import refuse_last_nulls

Mask: TypeAlias = npt.NDArray[np.bool_]

_NAMED = 256  # rows taken from all queries that may all be near a query


class Condition(Protocol):
    """One reason why a gallery row may or may not be an answer.

    share : about how much of the gallery it keeps
    listed : the most rows that it takes from any query, where it names them one by one
    """

    @property
    def share(self) -> float: ...

    @property
    def listed(self) -> int: ...

    def keeps(self, queries: Longs, rows: Ints) -> Mask:
        """Which of ``rows``, (m, K), the ``m`` queries may have."""

    def mask(self, query: int) -> Mask:
        """(n,) which gallery rows a query may have."""

    def part(self, queries: Longs, rows: Longs) -> Condition:
        """The same for some queries and some gallery rows, which are numbered anew."""


@dataclass(frozen=True, eq=False)
class ForAll:
    """The same rows for every query."""

    rows: Mask

    @cached_property
    def share(self) -> float:
        return 1.0 if self.listed else float(self.rows.mean())

    @cached_property
    def listed(self) -> int:
        taken = len(self.rows) - int(np.count_nonzero(self.rows))
        return taken if taken <= min(_NAMED, len(self.rows) - 1) else 0

    def keeps(self, queries: Longs, rows: Ints) -> Mask:  # noqa: ARG002
        return self.rows[rows]

    def mask(self, query: int) -> Mask:  # noqa: ARG002
        return self.rows

    def part(self, queries: Longs, rows: Longs) -> ForAll:  # noqa: ARG002
        return ForAll(self.rows[rows])


@dataclass(frozen=True, eq=False)
class ByMatrix:
    """A mask that the user made, (n_queries, n)."""

    rows: Mask
    wanted: bool
    listed: int = 0

    @cached_property
    def share(self) -> float:
        kept = float(self.rows.mean())
        return kept if self.wanted else 1 - kept

    def keeps(self, queries: Longs, rows: Ints) -> Mask:
        return np.asarray(self.rows[queries[:, None], rows] == self.wanted)

    def mask(self, query: int) -> Mask:
        return np.asarray(self.rows[query] == self.wanted)

    def part(self, queries: Longs, rows: Longs) -> ByMatrix:
        return ByMatrix(self.rows[np.ix_(queries, rows)], self.wanted)


@dataclass(frozen=True, eq=False)
class PerQuery:
    """Rows that are named for each query; wanted : these alone, or all but these.

    indptr : (n_queries + 1,); ids : ascending for each query
    """

    indptr: Longs
    ids: Ints
    n: int
    wanted: bool

    @property
    def share(self) -> float:
        kept = len(self.ids) / max(self.n * (len(self.indptr) - 1), 1)
        return kept if self.wanted else 1.0

    @property
    def listed(self) -> int:
        return 0 if self.wanted else int(np.diff(self.indptr).max(initial=0))

    @cached_property
    def _keys(self) -> Longs:
        owners = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return owners * self.n + self.ids

    def keeps(self, queries: Longs, rows: Ints) -> Mask:
        if len(self.ids) == 0:
            return np.full(rows.shape, not self.wanted)
        wanted = queries[:, None] * self.n + rows
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.asarray((self._keys[at] == wanted) == self.wanted)

    def mask(self, query: int) -> Mask:
        out = np.full(self.n, not self.wanted)
        out[self.named(query)] = self.wanted
        return out

    def part(self, queries: Longs, rows: Longs) -> PerQuery:
        new = np.full(self.n, -1, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        lists = [np.sort(new[self.named(int(query))]) for query in queries]
        return rows_per_query([ids[ids >= 0] for ids in lists], len(rows), self.wanted)

    def named(self, query: int) -> Ints:
        """The rows of one query."""
        return self.ids[self.indptr[query] : self.indptr[query + 1]]


@dataclass(frozen=True, eq=False)
class Different:
    """Rows whose value is another than the query's; both as numbers, -1 for none that is there."""

    of_queries: Ints
    of_rows: Ints
    listed: int = 0

    @cached_property
    def share(self) -> float:
        counts = np.bincount(self.of_rows)
        known = self.of_queries[self.of_queries >= 0]
        return 1 - float(counts[known].sum()) / max(len(self.of_queries) * len(self.of_rows), 1)

    def keeps(self, queries: Longs, rows: Ints) -> Mask:
        return np.asarray(self.of_rows[rows] != self.of_queries[queries][:, None])

    def mask(self, query: int) -> Mask:
        return np.asarray(self.of_rows != self.of_queries[query])

    def part(self, queries: Longs, rows: Longs) -> Different:
        return Different(self.of_queries[queries], self.of_rows[rows])


@dataclass(frozen=True, eq=False)
class NotItself:
    """Query i is gallery row i, which is no answer to itself."""

    n: int
    share: float = 1.0
    listed: int = 1

    def keeps(self, queries: Longs, rows: Ints) -> Mask:
        return np.asarray(rows != queries[:, None])

    def mask(self, query: int) -> Mask:
        return np.asarray(np.arange(self.n) != query)

    def part(self, queries: Longs, rows: Longs) -> NotItself:  # noqa: ARG002
        return NotItself(len(rows))


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, both among them; None for no end."""

    low: Any
    high: Any

    @classmethod
    def of(cls, name: str, given: Mapping[Any, Any]) -> Range:
        """``{"min": 0, "max": 0.5}``, of which one may be missing or None."""
        unknown = [key for key in given if key not in ("min", "max")]
        low, high = (_bound(name, given.get(end)) for end in ("min", "max"))
        if unknown or (low is None and high is None):
            raise InvalidInputError(
                f"`{name}` as a range must have 'min', 'max' or both, such as "
                f"{{'min': 0, 'max': 0.5}}, got {shown(dict(given))}."
            )
        text = [isinstance(bound, str) for bound in (low, high) if bound is not None]
        if len(set(text)) > 1 or (len(text) == 2 and low > high):
            raise InvalidInputError(
                f"`{name}` as a range must have a 'min' that is not above its 'max', "
                f"got {shown(dict(given))}."
            )
        return cls(low, high)

    @property
    def of_text(self) -> bool:
        """Whether its ends are text."""
        return isinstance(self.low if self.high is None else self.high, str)

    def mask(self, column: npt.NDArray[Any]) -> Mask:
        """Which values lie in it. Numbers are compared exactly, whatever their types are."""
        out = np.ones(len(column), np.bool_)
        if self.low is not None:
            out &= _not_below(column, self.low)
        if self.high is not None:
            out &= _not_above(column, self.high)
        return out


def _not_below(column: npt.NDArray[Any], low: Any) -> Mask:
    if column.dtype.kind == "i":
        limits = np.iinfo(column.dtype)
        if low > limits.max:
            return np.zeros(len(column), np.bool_)
        return np.asarray(column >= (limits.min if low <= limits.min else math.ceil(low)))
    if column.dtype.kind == "f":
        nearest = _nearest_float(low)
        return np.asarray(column >= nearest if nearest >= low else column > nearest)
    return np.asarray(column >= low)


def _not_above(column: npt.NDArray[Any], high: Any) -> Mask:
    if column.dtype.kind == "i":
        limits = np.iinfo(column.dtype)
        if high < limits.min:
            return np.zeros(len(column), np.bool_)
        return np.asarray(column <= (limits.max if high >= limits.max else math.floor(high)))
    if column.dtype.kind == "f":
        nearest = _nearest_float(high)
        return np.asarray(column <= nearest if nearest <= high else column < nearest)
    return np.asarray(column <= high)


def _nearest_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # of an integer or a fraction
        return math.inf if number > 0 else -math.inf


def _bound(name: str, given: Any) -> Any:
    """An end of a range: a number or text."""
    if isinstance(given, (np.generic, np.ndarray)) and given.ndim == 0:
        given = given.item()
    if isinstance(given, str):
        refuse_last_nulls(name, given)
        return given
    number = isinstance(given, Real) and not isinstance(given, bool)
    if given is None or (number and given == given):  # noqa: PLR0124 - not NaN
        return given
    raise InvalidInputError(
        f"`{name}` as a range must have numbers or text as its ends, got {shown(given)}."
    )


def refuse_pair(name: str, given: Any) -> None:
    """Refuse a tuple of two numbers, which could be meant as a range or as two values."""
    numbers = isinstance(given, tuple) and all(
        isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) for value in given
    )
    if numbers and len(given) == 2:
        low, high = given
        raise InvalidInputError(
            f"`{name}` must be a list of values or a range, got the tuple {shown(given)}, which "
            f"could be both: write {{'min': {low}, 'max': {high}}} for all values from one to the "
            f"other, or [{low}, {high}] for these two."
        )


def rows_per_query(lists: list[Ints], n: int, wanted: bool) -> PerQuery:
    """Ascending rows of each query, which alone may be answers or may not."""
    indptr = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(ids) for ids in lists], out=indptr[1:])
    ids = np.concatenate([*lists, np.empty(0, np.int32)]).astype(np.int32)
    return PerQuery(indptr, ids, n, wanted)
