"""Which gallery rows may be results of which query, as the stages of a ranking use it.

``conditions`` makes a filter from what a caller gave. All rows stay in the graph: a filter only
says which of them may be listed. Nothing here is as large as queries times gallery unless the
caller gave it so: rules are kept as they were given, and evaluated for a few queries at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.types import Floats, Ints, Longs, Ranking

Mask: TypeAlias = npt.NDArray[np.bool_]

# A common exclusion of up to this many rows is treated as if a query could have all of them among
# its nearest: it needs that many results more, whatever share of the gallery they are.
_FEW_EXCLUDED = 256
_CELLS = 1 << 22  # entries of rankings of the whole gallery that are held at a time
_DEPTH_FACTOR = 1.5  # how much deeper to rank than needed if the filter were blind to distances
_SPARE_RESULTS = 16
# Rank the allowed rows directly where a deeper ranking would list more than a quarter of the
# gallery, or where there are fewer allowed rows than 16 times its length.
_LARGEST_DEPTH = 1 / 4
_ROWS_PER_RESULT = 16


class Rule(Protocol):
    """One reason why a gallery row may or may not be a result.

    share : about which share of the gallery it allows
    most_excluded : the largest number of rows that it excludes from any query, where it excludes
        rows one by one; else 0
    """

    @property
    def share(self) -> float: ...

    @property
    def most_excluded(self) -> int: ...

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        """Which of ``rows``, (m, K), may be results of the ``m`` queries."""

    def mask(self, query: int) -> Mask:
        """(n,) which gallery rows may be results of a query."""

    def restricted(self, queries: Longs, rows: Longs) -> Rule:
        """The same rule for some queries and some gallery rows, which are numbered anew."""


@dataclass(frozen=True, eq=False)
class SameForAll:
    """The same rows for every query; allowed : (n,)."""

    allowed: Mask

    @cached_property
    def share(self) -> float:
        return 1.0 if self.most_excluded else float(self.allowed.mean())

    @cached_property
    def most_excluded(self) -> int:
        excluded = len(self.allowed) - int(np.count_nonzero(self.allowed))
        return excluded if excluded <= min(_FEW_EXCLUDED, len(self.allowed) - 1) else 0

    def allows(self, queries: Longs, rows: Ints) -> Mask:  # noqa: ARG002
        return self.allowed[rows]

    def mask(self, query: int) -> Mask:  # noqa: ARG002
        return self.allowed

    def restricted(self, queries: Longs, rows: Longs) -> SameForAll:  # noqa: ARG002
        return SameForAll(self.allowed[rows])


@dataclass(frozen=True, eq=False)
class ByMatrix:
    """A mask that the caller made, (n_queries, n).

    is_allow_list : whether True stands for rows that may be results, or for those that may not
    """

    marked: Mask
    is_allow_list: bool
    most_excluded: int = 0

    @cached_property
    def share(self) -> float:
        marked = float(self.marked.mean())
        return marked if self.is_allow_list else 1 - marked

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        return np.asarray(self.marked[queries[:, None], rows] == self.is_allow_list)

    def mask(self, query: int) -> Mask:
        return np.asarray(self.marked[query] == self.is_allow_list)

    def restricted(self, queries: Longs, rows: Longs) -> ByMatrix:
        return ByMatrix(self.marked[np.ix_(queries, rows)], self.is_allow_list)


@dataclass(frozen=True, eq=False)
class PerQuery:
    """A list of rows for each query.

    indptr, rows : the rows of query i are rows[indptr[i] : indptr[i + 1]], ascending
    n : rows of the gallery
    is_allow_list : whether these alone may be results, or all but these
    """

    indptr: Longs
    rows: Ints
    n: int
    is_allow_list: bool

    @classmethod
    def of_lists(cls, lists: list[Ints], n: int, *, is_allow_list: bool) -> PerQuery:
        """From the ascending rows of each query."""
        indptr = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(rows) for rows in lists], out=indptr[1:])
        rows = np.concatenate([*lists, np.empty(0, np.int32)]).astype(np.int32)
        return cls(indptr, rows, n, is_allow_list)

    @property
    def share(self) -> float:
        listed = len(self.rows) / max(self.n * (len(self.indptr) - 1), 1)
        return listed if self.is_allow_list else 1.0

    @property
    def most_excluded(self) -> int:
        return 0 if self.is_allow_list else int(np.diff(self.indptr).max(initial=0))

    @cached_property
    def _sorted_keys(self) -> Longs:
        """Query and row of each entry as one number, ascending."""
        owners = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return owners * self.n + self.rows

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        if len(self.rows) == 0:
            return np.full(rows.shape, not self.is_allow_list)
        keys = queries[:, None] * self.n + rows
        at = np.minimum(np.searchsorted(self._sorted_keys, keys), len(self._sorted_keys) - 1)
        return np.asarray((self._sorted_keys[at] == keys) == self.is_allow_list)

    def mask(self, query: int) -> Mask:
        allowed = np.full(self.n, not self.is_allow_list)
        allowed[self.rows_of(query)] = self.is_allow_list
        return allowed

    def restricted(self, queries: Longs, rows: Longs) -> PerQuery:
        new_number = np.full(self.n, -1, np.int32)
        new_number[rows] = np.arange(len(rows), dtype=np.int32)
        renumbered = [np.sort(new_number[self.rows_of(int(query))]) for query in queries]
        lists = [numbers[numbers >= 0] for numbers in renumbered]
        return PerQuery.of_lists(lists, len(rows), is_allow_list=self.is_allow_list)

    def rows_of(self, query: int) -> Ints:
        """The listed rows of one query."""
        return self.rows[self.indptr[query] : self.indptr[query + 1]]


@dataclass(frozen=True, eq=False)
class Different:
    """Rows whose value is another than the query's.

    query_codes, row_codes : a number for each value; -1 for a value that no row has
    """

    query_codes: Ints
    row_codes: Ints
    most_excluded: int = 0

    @cached_property
    def share(self) -> float:
        counts = np.bincount(self.row_codes)
        present = self.query_codes[self.query_codes >= 0]
        pairs = len(self.query_codes) * len(self.row_codes)
        return 1 - float(counts[present].sum()) / max(pairs, 1)

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        return np.asarray(self.row_codes[rows] != self.query_codes[queries][:, None])

    def mask(self, query: int) -> Mask:
        return np.asarray(self.row_codes != self.query_codes[query])

    def restricted(self, queries: Longs, rows: Longs) -> Different:
        return Different(self.query_codes[queries], self.row_codes[rows])


@dataclass(frozen=True, eq=False)
class NotItself:
    """The queries are the gallery rows, and no row is a result of itself."""

    n: int
    share: float = 1.0
    most_excluded: int = 1

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        return np.asarray(rows != queries[:, None])

    def mask(self, query: int) -> Mask:
        return np.asarray(np.arange(self.n) != query)

    def restricted(self, queries: Longs, rows: Longs) -> NotItself:  # noqa: ARG002
        return NotItself(len(rows))


class FilteredSearch(Protocol):
    """What ``Filter.rank`` needs of a search: two ways to find results that are allowed."""

    def rank_dropping(self, k: int, depth: int) -> tuple[Ranking, Longs]:
        """The first ``k`` allowed rows of every query, from a ranking of ``depth`` rows.

        Returns the ranking and the queries for which that may not be enough.
        """

    def rank_allowed(self, queries: Longs, k: int) -> Ranking:
        """The first ``k`` allowed rows of some queries, with all allowed rows looked at."""


@dataclass(frozen=True, eq=False)
class Filter:
    """All rules together: a row may be a result if every rule allows it.

    n_queries : how many queries it was made for; n_gallery : rows of the gallery
    """

    n_queries: int
    n_gallery: int
    rules: tuple[Rule, ...]

    @cached_property
    def among_themselves(self) -> bool:
        """Whether the queries are the gallery rows."""
        return any(isinstance(rule, NotItself) for rule in self.rules)

    def restricted(self, queries: Longs, rows: Longs) -> Filter:
        """The same for some queries and some gallery rows, which are numbered anew."""
        rules = tuple(rule.restricted(queries, rows) for rule in self.rules)
        return Filter(len(queries), len(rows), rules)

    def allows(self, queries: Longs, rows: Ints) -> Mask:
        """Which of ``rows``, (m, K) with -1 for none, may be results of the ``m`` queries."""
        allowed = rows >= 0
        for rule in self.rules:
            allowed &= rule.allows(queries, np.where(rows >= 0, rows, np.int32(0)))
        return allowed

    def allowed_rows(self, query: int) -> Ints:
        """The rows that may be results of a query, ascending."""
        if self._same_for_all:
            return self._common_allowed
        for rule in self.rules:  # of a short list nothing as long as the gallery is made
            if isinstance(rule, PerQuery) and rule.is_allow_list:
                listed: Ints = rule.rows_of(query)
                return np.asarray(listed[self.allows(np.array([query]), listed[None])[0]])
        return np.flatnonzero(self.mask(query)).astype(np.int32)

    def excluded_rows(self, query: int) -> Ints:
        """The rows that may not be results of a query."""
        if all(isinstance(rule, PerQuery) and not rule.is_allow_list for rule in self.rules):
            lists = [rule.rows_of(query) for rule in self.rules if isinstance(rule, PerQuery)]
            return lists[0] if len(lists) == 1 else np.concatenate(lists)
        if self._same_for_all:
            return self._common_excluded
        return np.flatnonzero(~self.mask(query)).astype(np.int32)

    def mask(self, query: int) -> Mask:
        """(n_gallery,) which rows may be results of a query."""
        allowed = np.ones(self.n_gallery, np.bool_)
        for rule in self.rules:
            allowed &= rule.mask(query)
        return allowed

    @cached_property
    def _same_for_all(self) -> bool:
        return all(isinstance(rule, SameForAll) for rule in self.rules)

    @cached_property
    def _common_allowed(self) -> Ints:
        return np.flatnonzero(self.mask(0)).astype(np.int32)

    @cached_property
    def _common_excluded(self) -> Ints:
        return np.flatnonzero(~self.mask(0)).astype(np.int32)

    @cached_property
    def share(self) -> float:
        """About which share of the gallery is allowed."""
        return float(np.prod([rule.share for rule in self.rules]))

    @cached_property
    def most_excluded(self) -> int:
        """The largest number of rows that are excluded one by one from any query."""
        return sum(rule.most_excluded for rule in self.rules)

    def depth(self, k: int) -> int:
        """How deep a ranking is likely to hold ``k`` allowed rows.

        0 where it is better to rank the allowed rows alone.
        """
        if self.share == 0:
            return 0
        depth = k + self.most_excluded
        if self.share < 1:
            depth += int((_DEPTH_FACTOR / self.share - 1) * k) + _SPARE_RESULTS
        allowed = self.share * self.n_gallery
        too_deep = depth >= _LARGEST_DEPTH * self.n_gallery or _ROWS_PER_RESULT * depth >= allowed
        return 0 if too_deep else depth

    def drop_others(self, ranking: Ranking, k: int, queries: Longs | None = None) -> Ranking:
        """The first ``k`` allowed rows of a ranking, -1 behind them.

        queries : whose ranking it is; None for all
        """
        queries = np.arange(len(ranking)) if queries is None else queries
        out = empty_ranking(len(ranking), k)
        size = max(1, _CELLS // max(ranking.k, 1))
        for low in range(0, len(ranking), size):
            block = slice(low, low + size)
            self.drop_into(
                ranking.indices[block],
                ranking.distances[block],
                queries[block],
                out.indices[block],
                out.distances[block],
            )
        return out

    def drop_into(
        self, indices: Ints, distances: Floats, queries: Longs, out_indices: Ints, out: Floats
    ) -> None:
        """Write the first allowed rows of some rankings, -1 and infinity behind them.

        indices, distances : (m, K) of ``queries``; out_indices, out : (m, k) the output
        """
        allowed = self.allows(queries, indices)
        k = min(out.shape[1], indices.shape[1])
        order = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
        is_empty = ~np.take_along_axis(allowed, order, axis=1)
        out_indices[:, :k] = np.take_along_axis(indices, order, axis=1)
        out[:, :k] = np.take_along_axis(distances, order, axis=1)
        out_indices[:, :k][is_empty] = -1
        out[:, :k][is_empty] = np.inf
        out_indices[:, k:] = -1
        out[:, k:] = np.inf

    def rank(self, k: int, search: FilteredSearch) -> Ranking:
        """The first ``k`` allowed rows of each query.

        A ranking that is deeper than ``k`` usually holds enough of them. Queries for which it does
        not are ranked again, among all allowed rows.
        """
        ranking = empty_ranking(self.n_queries, k)
        if self.share == 0:
            return ranking
        lacking = np.arange(self.n_queries)
        depth = self.depth(k)
        if depth:
            ranking, lacking = search.rank_dropping(k, depth)
        if len(lacking):
            again = search.rank_allowed(lacking, k)
            # Of a run in files, what a stage made is not written to.
            ranking = Ranking(np.array(ranking.indices), np.array(ranking.distances))
            ranking.indices[lacking] = again.indices
            ranking.distances[lacking] = again.distances
        return ranking


@dataclass(frozen=True, eq=False)
class RankAndDrop:
    """A ``FilteredSearch`` over rankings that know nothing of the filter.

    rank : ``rank(queries, depth)``, the first rows of some queries; None stands for all queries
    """

    row_filter: Filter
    rank: Callable[[Longs | None, int], Ranking]

    def rank_dropping(self, k: int, depth: int) -> tuple[Ranking, Longs]:
        """See ``FilteredSearch``."""
        ranking = self.row_filter.drop_others(self.rank(None, depth), k)
        return ranking, short_lists(ranking)

    def rank_allowed(self, queries: Longs, k: int) -> Ranking:
        """See ``FilteredSearch``: the whole gallery is ranked, for a few queries at a time."""
        n_gallery = self.row_filter.n_gallery
        size = max(1, _CELLS // n_gallery)
        ranking = empty_ranking(len(queries), k)
        for low in range(0, len(queries), size):
            part = queries[low : low + size]
            whole = self.row_filter.drop_others(self.rank(part, n_gallery), k, part)
            ranking.indices[low : low + size] = whole.indices
            ranking.distances[low : low + size] = whole.distances
        return ranking


def empty_ranking(n_queries: int, k: int) -> Ranking:
    """No results yet: -1 and infinity everywhere."""
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


def first_answer(n_queries: int, row_filter: Filter | None) -> int:
    """The first row of [queries; gallery] that may be a result; 0 where they are the same rows."""
    return 0 if row_filter is not None and row_filter.among_themselves else n_queries
