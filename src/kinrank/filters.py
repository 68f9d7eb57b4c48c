"""Which gallery rows may be answers to which query; all others stay in the graph.

Nothing here is as large as queries times gallery unless the user gave it so: conditions are kept as
they were given, and asked for the rows of a few queries at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.types import Ints, Longs, Ranking
from kinrank.validation import as_array

Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = Callable[[Any], Ints]  # gallery rows by their ids

_CELLS = 1 << 22  # of rankings of the whole gallery that are held at a time
_DEEPER = 1.5  # times as many results as a filter would need if it were blind to distances
_SPARE = 16
_DEEP = 4  # rankings of more than one gallery row in so many are made of all allowed rows
_DIRECT = 16  # and so are those of fewer allowed rows than so many times the results
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
class Listed:
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

    def part(self, queries: Longs, rows: Longs) -> Listed:
        new = np.full(self.n, -1, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        lists = [np.sort(new[self.named(int(query))]) for query in queries]
        return listed_rows([ids[ids >= 0] for ids in lists], len(rows), self.wanted)

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
            if isinstance(condition, Listed) and condition.wanted:
                named: Ints = condition.named(query)
                return np.asarray(named[self.allows(np.array([query]), named[None])[0]])
        return np.flatnonzero(self.mask(query)).astype(np.int32)

    def barred(self, query: int) -> Ints:
        """The rows that may not be answers to a query."""
        if all(isinstance(one, Listed) and not one.wanted for one in self.conditions):
            named = [one.named(query) for one in self.conditions if isinstance(one, Listed)]
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
        indices[none], distances[none] = -1, np.inf
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
            found, lacking = empty_ranking(self.n_queries, k), np.arange(self.n_queries)
        size = max(1, _CELLS // self.n)
        for low in range(0, len(lacking), size):
            some = lacking[low : low + size]
            whole = self.strike(rank(some, self.n), k, some)
            found.indices[some], found.distances[some] = whole.indices, whole.distances
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
    out.indices[:, : ranking.k], out.distances[:, : ranking.k] = ranking.indices, ranking.distances
    return out


def short_lists(ranking: Ranking) -> Longs:
    """The queries whose last place is empty."""
    if ranking.k == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(ranking.indices[:, -1] < 0)


def filter_of(
    n_queries: int, n: int, allowed: Any = None, exclude: Any = None, *,
    places: Places | None = None, more: Sequence[Condition] = (),
) -> Filter | None:  # fmt: skip
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
        return listed_rows([np.unique(_places(places, ids)) for ids in lists], n, wanted)
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
    mask[_places(places, array)] = wanted
    return ForAll(mask)


def _places(places: Places, ids: Any) -> Ints:
    ids = list(ids) if isinstance(ids, (set, frozenset)) else ids
    return places(ids) if len(ids) else np.empty(0, np.int32)


def _lists(given: Any) -> list[Any] | None:
    """One list of ids for each query, if that is what was given."""
    several = (list, tuple, set, frozenset, np.ndarray)
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 2 and given.dtype.kind in "iuUO" else None
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], several):
        masks = all(as_array("mask", row).dtype.kind == "b" for row in given if len(row))
        empty = not any(len(row) for row in given)
        return None if masks and not empty else list(given)
    return None


def listed_rows(lists: list[Ints], n: int, wanted: bool) -> Listed:
    """Ascending rows of each query, which alone may be answers or may not."""
    indptr = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(ids) for ids in lists], out=indptr[1:])
    ids = np.concatenate([*lists, np.empty(0, np.int32)]).astype(np.int32)
    return Listed(indptr, ids, n, wanted)


def _of_sparse(name: str, given: Any, n_queries: int, n: int) -> Listed:
    if given.shape != (n_queries, n):
        raise InvalidInputError(
            f"`{name}` must be a sparse matrix of shape ({n_queries}, {n}), got {given.shape}."
        )
    matrix = given.tocsr(copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    indptr, ids = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Listed(indptr, ids, n, name == "allowed")


def _row_numbers(name: str, n: int, ids: Any) -> Ints:
    array = as_array(name, ids)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"`{name}` must be numbers of gallery rows or a mask of them, got dtype {array.dtype}."
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
