"""What a caller asks of results: which gallery rows they may be, and how near.

``Conditions`` are made once, by the function that the caller called, and turned into a ``Filter``
when the number of queries and the gallery are known. A new kind of condition is a field here, its
``Rule``, and a parameter of ``Index.search``; the service and the command line read the fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, shown
from kinrank.filters import ByMatrix, Filter, Mask, NotItself, PerQuery, Rule, SameForAll
from kinrank.types import Ints, Ranking
from kinrank.validation import as_array, as_matrix, check_float, refuse_last_nulls

RowsOfIds: TypeAlias = Callable[[Any], Ints]  # gallery rows by their ids
# What the values of a condition are, for whoever reads them from a body or a command line.
ConditionKind: TypeAlias = Literal["ids", "wanted values", "values per query", "distance"]

_LIST_TYPES = (list, tuple, set, frozenset, np.ndarray)  # what the ids of one query may be


class AttributeRules(Protocol):
    """The attributes of an index, as far as conditions need them."""

    def where(self, wanted: Any) -> list[Rule]:
        """Rows that have the wanted values."""

    def differ(self, of_queries: Any, n_queries: int) -> list[Rule]:
        """Rows whose values are other than the query's."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Conditions:
    """What a caller asks of results, as it was given; see ``Index.search`` for the forms.

    allowed, exclude : rows that alone may be results, rows that may not
    where : attributes that results must have
    differ : attributes that results must not share with the query
    threshold : the largest distance of a result
    """

    allowed: Any = field(
        default=None, metadata={"kind": "ids", "help": "rows that alone may be answers"}
    )
    exclude: Any = field(
        default=None, metadata={"kind": "ids", "help": "rows that may not be answers"}
    )
    where: Any = field(
        default=None,
        metadata={
            "kind": "wanted values",
            "help": "attributes that answers must have: a value, any of several, or a range",
        },
    )
    differ: Any = field(
        default=None,
        metadata={
            "kind": "values per query",
            "help": "attributes that answers must not share: a value for each query",
        },
    )
    threshold: float | None = field(
        default=None, metadata={"kind": "distance", "help": "the largest distance of an answer"}
    )

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_float("threshold", self.threshold, -math.inf)

    def filter(
        self,
        n_queries: int,
        n_gallery: int,
        *,
        rows_of_ids: RowsOfIds | None = None,
        attributes: AttributeRules | None = None,
        among_themselves: bool = False,
    ) -> Filter | None:
        """Which gallery rows may be results of which query; None for all.

        rows_of_ids : from ids to rows; None takes row numbers
        attributes : of the gallery rows, for ``where`` and ``differ``
        among_themselves : the queries are the gallery rows, and no row is a result of itself
        """
        rules: list[Rule] = []
        if attributes is not None:
            rules += attributes.where(self.where)
            rules += attributes.differ(self.differ, n_queries)
        elif self.where is not None or self.differ is not None:
            raise InvalidInputError(
                "`where` and `differ` need attributes, which only an index has: "
                "CAS().fit(gallery, attributes={...}).search(queries, where=...)."
            )
        if among_themselves:
            rules.append(NotItself(n_gallery))
        for name, rows in (("allowed", self.allowed), ("exclude", self.exclude)):
            if rows is not None:
                to_rows = rows_of_ids or partial(_row_numbers, name, n_gallery)
                rules.append(_rule_of_rows(name, rows, n_queries, n_gallery, to_rows))
        return Filter(n_queries, n_gallery, tuple(rules)) if rules else None

    def filter_of_arrays(self, queries: Any, gallery: Any) -> Filter | None:
        """The filter of a re-ranking; gallery : None where the queries are the gallery."""
        if gallery is None:
            n = len(as_matrix("vectors", queries))
            return self.filter(n, n, among_themselves=True)
        if self.allowed is None and self.exclude is None:
            return None
        n_queries = len(as_matrix("queries", queries))
        return self.filter(n_queries, len(as_matrix("gallery", gallery)))

    def near_enough(self, ranking: Ranking) -> Ranking:
        """The results up to the threshold."""
        return ranking if self.threshold is None else ranking.within(self.threshold)


def _rule_of_rows(name: str, value: Any, n_queries: int, n: int, rows_of_ids: RowsOfIds) -> Rule:
    """The rule of ``allowed`` or ``exclude``: ids, ids for each query, or a mask."""
    is_allow_list = name == "allowed"
    if type(value).__module__.partition(".")[0] == "scipy":
        return _rule_of_sparse(name, value, n_queries, n)
    lists = _lists_per_query(value)
    if lists is not None:
        if len(lists) != n_queries:
            raise InvalidInputError(
                f"`{name}` must be one list for each of the {n_queries} queries, got {len(lists)}."
            )
        rows = [_rows(rows_of_ids, ids, n, is_allow_list) for ids in lists]
        return PerQuery.of_lists(rows, n, is_allow_list=is_allow_list)
    array = as_array(name, list(value) if isinstance(value, (set, frozenset)) else value)
    if array.dtype.kind == "b":
        if array.shape == (n,):
            return SameForAll(array if is_allow_list else ~array)
        if array.shape == (n_queries, n):
            return ByMatrix(array, is_allow_list)
        raise InvalidInputError(
            f"`{name}` must be a mask of shape ({n},), the gallery's rows, or ({n_queries}, {n}) "
            f"for each query, got {array.shape}."
        )
    if array.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must be a list of ids, one list of them for each query, or a mask, "
            f"got an array of shape {array.shape}."
        )
    mask = np.full(n, not is_allow_list)
    mask[_rows(rows_of_ids, array, n, is_allow_list)] = is_allow_list
    return SameForAll(mask)


def _rows(rows_of_ids: RowsOfIds, ids: Any, n: int, is_allow_list: bool) -> Ints:
    """Rows by their ids, ascending; None stands for all rows that are allowed, none excluded."""
    if ids is None:
        return np.arange(n if is_allow_list else 0, dtype=np.int32)
    ids = list(ids) if isinstance(ids, (set, frozenset)) else ids
    if isinstance(ids, (list, tuple, np.ndarray)) and np.size(np.asarray(ids, object)) == 0:
        return np.empty(0, np.int32)
    return np.unique(rows_of_ids(ids)).astype(np.int32)


def _lists_per_query(value: Any) -> list[Any] | None:
    """One list of ids for each query; None if the value is something else."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim == 2 and value.dtype.kind in "iuUO" else None
    if not isinstance(value, (list, tuple)) or not any(
        isinstance(row, _LIST_TYPES) for row in value
    ):
        return None
    lists = [row for row in value if isinstance(row, _LIST_TYPES) and len(row) > 0]
    masks = [row for row in lists if as_array("mask", row).dtype.kind == "b"]
    is_matrix = len(lists) > 0 and len(masks) == len(value)
    return None if is_matrix else list(value)


def _rule_of_sparse(name: str, value: Any, n_queries: int, n: int) -> PerQuery:
    if value.shape != (n_queries, n):
        raise InvalidInputError(
            f"`{name}` must be a sparse matrix of shape ({n_queries}, {n}), got {value.shape}."
        )
    matrix = value.tocsr(copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    indptr = matrix.indptr.astype(np.int64)
    ids = matrix.indices.astype(np.int32)
    return PerQuery(indptr, ids, n, name == "allowed")


def _row_numbers(name: str, n: int, ids: Any) -> Ints:
    array = as_array(name, ids)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must be numbers of gallery rows or a mask of them, got {shown(ids)}."
        )
    outside = array[(array < 0) | (array >= n)]
    if len(outside):
        raise InvalidInputError(
            f"`{name}` must be numbers of gallery rows, 0 to {n - 1}, got {outside[0]}."
        )
    return array.astype(np.int32)


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, both among them; None for no end."""

    low: Any
    high: Any

    @classmethod
    def of(cls, name: str, value: Mapping[Any, Any]) -> Range:
        """``{"min": 0, "max": 0.5}``, of which one may be missing or None."""
        unknown = [key for key in value if key not in ("min", "max")]
        low = _bound(name, value.get("min"))
        high = _bound(name, value.get("max"))
        if unknown or (low is None and high is None):
            raise InvalidInputError(
                f"`{name}` as a range must have 'min', 'max' or both, such as "
                f"{{'min': 0, 'max': 0.5}}, got {shown(dict(value))}."
            )
        text = [isinstance(bound, str) for bound in (low, high) if bound is not None]
        if len(set(text)) > 1 or (len(text) == 2 and low > high):
            raise InvalidInputError(
                f"`{name}` as a range must have a 'min' that is not above its 'max', "
                f"got {shown(dict(value))}."
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


def _bound(name: str, value: Any) -> Any:
    """An end of a range: a number or text."""
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, str):
        refuse_last_nulls(name, value)
        return value
    number = isinstance(value, Real) and not isinstance(value, bool)
    if value is None or (number and value == value):  # noqa: PLR0124 - not NaN
        return value
    raise InvalidInputError(
        f"`{name}` as a range must have numbers or text as its ends, got {shown(value)}."
    )


def refuse_pair(name: str, value: Any) -> None:
    """Refuse a tuple of two numbers, which could be meant as a range or as two values."""
    numbers = isinstance(value, tuple) and all(
        isinstance(number, Real) and not isinstance(number, (bool, np.bool_)) for number in value
    )
    if numbers and len(value) == 2:
        low, high = value
        raise InvalidInputError(
            f"`{name}` must be a list of values or a range, got the tuple {shown(value)}, which "
            f"could be both: write {{'min': {low}, 'max': {high}}} for all values from one to the "
            f"other, or [{low}, {high}] for these two."
        )
