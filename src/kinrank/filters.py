"""Which gallery rows may be answers to which query; all others stay in the graph.

Nothing here is as large as queries times gallery unless the user gave it so: conditions are kept as
they were given, and asked for the rows of a few queries at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from kinrank.conditions import (
    ByMatrix,
    Condition,
    ForAll,
    Mask,
    NotItself,
    PerQuery,
    rows_per_query,
)
from kinrank.errors import InvalidInputError, shown
from kinrank.types import Ints, Longs, Ranking
from kinrank.validation import as_array

Places: TypeAlias = Callable[[Any], Ints]  # gallery rows by their ids

_SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # what the ids of one query may be
_CELLS = 1 << 22  # of rankings of the whole gallery that are held at a time
_DEEPER = 1.5  # times as many results as a filter would need if it were blind to distances
_SPARE = 16
_DEEP = 4  # rankings of more than one gallery row in so many are made of all allowed rows
_DIRECT = 16  # and so are those of fewer allowed rows than so many times the results


@dataclass(frozen=True, eq=False)
class Filter:
    """All conditions together.

    n_queries : how many queries they were made for; n : rows of the gallery
    """

    n_queries: int
    n: int
    conditions: tuple[Condition, ...]

    @cached_property
    def own(self) -> bool:
        """Whether the queries are the gallery rows themselves."""
        return any(isinstance(condition, NotItself) for condition in self.conditions)

    def part(self, queries: Longs, rows: Longs, *, own: bool = False) -> Filter:
        """The same for some queries and some gallery rows; own : they are the same rows."""
        parts = [condition.part(queries, rows) for condition in self.conditions]
        more = [NotItself(len(rows))] if own else []
        return Filter(len(queries), len(rows), (*parts, *more))

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        """Which of ``rows``, (m, K) with -1 for none, may be answers to the ``m`` queries."""
        keep = rows >= 0
        for condition in self.conditions:
            keep &= condition.keeps(queries, np.where(rows >= 0, rows, np.int32(0)))
        return keep

    def rows(self, query: int) -> Ints:
        """The rows that may be answers to a query, ascending."""
        if self._common is not None:
            return self._common
        for condition in self.conditions:  # of a short list nothing as long as the gallery is made
            if isinstance(condition, PerQuery) and condition.wanted:
                named: Ints = condition.named(query)
                return np.asarray(named[self.allows(np.array([query]), named[None])[0]])
        return np.flatnonzero(self.mask(query)).astype(np.int32)

    def barred(self, query: int) -> Ints:
        """The rows that may not be answers to a query."""
        if all(isinstance(each, PerQuery) and not each.wanted for each in self.conditions):
            named = [each.named(query) for each in self.conditions if isinstance(each, PerQuery)]
            return named[0] if len(named) == 1 else np.concatenate(named)
        if self._common is not None:
            return self._never
        return np.flatnonzero(~self.mask(query)).astype(np.int32)

    def mask(self, query: int) -> Mask:
        """(n,) which rows may be answers to a query."""
        keep = np.ones(self.n, np.bool_)
        for condition in self.conditions:
            keep &= condition.mask(query)
        return keep

    @cached_property
    def _common(self) -> Ints | None:
        """The rows that may be answers, if they are the same for all queries."""
        if not all(isinstance(condition, ForAll) for condition in self.conditions):
            return None
        return np.flatnonzero(self.mask(0)).astype(np.int32)

    @cached_property
    def _never(self) -> Ints:
        return np.flatnonzero(~self.mask(0)).astype(np.int32)

    @cached_property
    def share(self) -> float:
        """About how much of the gallery may be an answer."""
        return float(np.prod([condition.share for condition in self.conditions]))

    @cached_property
    def listed(self) -> int:
        """The most rows that are taken from any query by name."""
        return sum(condition.listed for condition in self.conditions)

    def depth(self, k: int) -> int:
        """How many results are likely to hold ``k`` that are allowed; 0: rank allowed rows alone.

        Who has fewer than k among them is ranked again, by all rows that are allowed.
        """
        if self.share == 0:
            return 0
        wanted = k + self.listed
        if self.share < 1:
            wanted += int((_DEEPER / self.share - 1) * k) + _SPARE
        allowed = self.share * self.n
        return wanted if _DEEP * wanted < self.n and _DIRECT * wanted < allowed else 0

    def strike(self, found: Ranking, k: int, queries: Longs | None = None) -> Ranking:
        """The first ``k`` of what is allowed of a ranking of (some) queries, -1 behind it."""
        queries = np.arange(len(found)) if queries is None else queries
        keep = self.allows(queries, found.indices)
        order = np.argsort(~keep, axis=1, kind="stable")[:, :k]
        none = ~np.take_along_axis(keep, order, axis=1)
        indices = np.take_along_axis(found.indices, order, axis=1)
        distances = np.take_along_axis(found.distances, order, axis=1)
        indices[none] = -1
        distances[none] = np.inf
        return padded(Ranking(indices, distances), k)

    def ranked(self, k: int, rank: Callable[[Longs | None, int], Ranking]) -> Ranking:
        """The first ``k`` allowed rows of each query.

        rank : ``rank(queries, depth)``, the first rows of some queries; None are all of them
        """
        if self.share == 0:  # nobody
            return empty_ranking(self.n_queries, k)
        depth = self.depth(k)
        if depth:
            found = self.strike(rank(None, depth), k)
            lacking = short_lists(found)
        else:
            found = empty_ranking(self.n_queries, k)
            lacking = np.arange(self.n_queries)
        size = max(1, _CELLS // self.n)
        for low in range(0, len(lacking), size):
            some = lacking[low : low + size]
            whole = self.strike(rank(some, self.n), k, some)
            found.indices[some] = whole.indices
            found.distances[some] = whole.distances
        return found


def empty_ranking(n_queries: int, k: int) -> Ranking:
    """No results yet."""
    indices = np.full((n_queries, k), -1, np.int32)
    return Ranking(indices, np.full((n_queries, k), np.inf, np.float32))


def padded(ranking: Ranking, k: int) -> Ranking:
    """``k`` columns, -1 and infinity behind what is there."""
    if ranking.k >= k:
        return ranking
    out = empty_ranking(len(ranking), k)
    out.indices[:, : ranking.k] = ranking.indices
    out.distances[:, : ranking.k] = ranking.distances
    return out


def short_lists(ranking: Ranking) -> Longs:
    """The queries whose last place is empty."""
    if ranking.k == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(ranking.indices[:, -1] < 0)


def filter_of(
    n_queries: int,
    n: int,
    allowed: Any = None,
    exclude: Any = None,
    *,
    places: Places | None = None,
    more: Sequence[Condition] = (),
) -> Filter | None:
    """The filter that a user asks for; None for none.

    places : rows by their ids; None takes row numbers
    more : further conditions
    """
    conditions = list(more)
    for name, given in (("allowed", allowed), ("exclude", exclude)):
        if given is not None:
            find = places or partial(_row_numbers, name, n)
            conditions.append(_condition(name, given, n_queries, n, find))
    return Filter(n_queries, n, tuple(conditions)) if conditions else None


def _condition(name: str, given: Any, n_queries: int, n: int, places: Places) -> Condition:
    wanted = name == "allowed"
    if type(given).__module__.partition(".")[0] == "scipy":
        return _of_sparse(name, given, n_queries, n)
    lists = _lists(given)
    if lists is not None:
        if len(lists) != n_queries:
            raise InvalidInputError(
                f"`{name}` must be one list for each of the {n_queries} queries, got {len(lists)}."
            )
        return rows_per_query([_rows(places, ids, n, wanted) for ids in lists], n, wanted)
    array = as_array(name, list(given) if isinstance(given, (set, frozenset)) else given)
    if array.dtype.kind == "b":
        if array.shape == (n,):
            return ForAll(array if wanted else ~array)
        if array.shape == (n_queries, n):
            return ByMatrix(array, wanted)
        raise InvalidInputError(
            f"`{name}` must be a mask of shape ({n},), the gallery's rows, or ({n_queries}, {n}) "
            f"for each query, got {array.shape}."
        )
    if array.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must be a list of ids, one list of them for each query, or a mask, "
            f"got an array of shape {array.shape}."
        )
    mask = np.full(n, not wanted)
    mask[_rows(places, array, n, wanted)] = wanted
    return ForAll(mask)


def _rows(places: Places, ids: Any, n: int, wanted: bool) -> Ints:
    """Rows by their ids, ascending; None is no condition: all rows are allowed, none excluded."""
    if ids is None:
        return np.arange(n if wanted else 0, dtype=np.int32)
    ids = list(ids) if isinstance(ids, (set, frozenset)) else ids
    if isinstance(ids, (list, tuple, np.ndarray)) and np.size(np.asarray(ids, object)) == 0:
        return np.empty(0, np.int32)
    return np.unique(places(ids)).astype(np.int32)


def _lists(given: Any) -> list[Any] | None:
    """One list of ids for each query, if that is what was given."""
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 2 and given.dtype.kind in "iuUO" else None
    if not isinstance(given, (list, tuple)) or not any(isinstance(row, _SEVERAL) for row in given):
        return None
    filled = [row for row in given if isinstance(row, _SEVERAL) and len(row) > 0]
    masks = [row for row in filled if as_array("mask", row).dtype.kind == "b"]
    return None if filled and len(masks) == len(given) else list(given)


def _of_sparse(name: str, given: Any, n_queries: int, n: int) -> PerQuery:
    if given.shape != (n_queries, n):
        raise InvalidInputError(
            f"`{name}` must be a sparse matrix of shape ({n_queries}, {n}), got {given.shape}."
        )
    matrix = given.tocsr(copy=True)
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


def first_answer(n_queries: int, allowed: Filter | None) -> int:
    """The first row of [queries; gallery] that may be an answer; 0 where they are the same rows."""
    return 0 if allowed is not None and allowed.own else n_queries
