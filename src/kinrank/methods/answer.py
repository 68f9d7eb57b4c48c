"""From scores to a ranking: scored rows first, all others behind, ordered by distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.filters import Filter, empty_ranking, first_answer
from kinrank.kernels.answer import first_candidates, first_positive
from kinrank.ordering import ascending
from kinrank.parallel import ALONE, Runner
from kinrank.search.exact import dense_search, few
from kinrank.search.stored import Stored
from kinrank.stages.distances import Distances
from kinrank.stages.divergence import Divergence
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking, SparseRows

Dense = Callable[[Ints], Floats]


@dataclass(frozen=True, eq=False)
class Scored:
    """The rows of each query that have a score, nearest first, not yet filled up to k.

    indices, values : (n_queries, k); counts : (n_queries,) how many of them are known
    allowed : which gallery rows may be answers
    """

    indices: Ints
    values: Floats
    counts: Longs
    allowed: Filter | None = None

    @classmethod
    def empty(cls, n_queries: int, k: int, allowed: Filter | None = None) -> Scored:
        none = empty_ranking(n_queries, k)
        return cls(none.indices, none.distances, np.zeros(n_queries, np.int64), allowed)

    def filled(
        self,
        dense: Dense,
        n_gallery: int,
        run: Runner,
        rest: float | None,
        lists: Ints | None = None,
    ) -> Ranking:
        """With the rows that have no score behind, nearest first, at the value ``rest``.

        dense : the original distances of a few queries to the whole gallery
        rest : None counts on from the last value, one by one
        lists : the nearest gallery rows of each query as far as they are known (-1: none)
        """
        k = self.indices.shape[1]
        short = np.flatnonzero(self.counts < k).astype(np.int32)
        for row in short:
            known = self.counts[row]
            self.values[row, known:] = np.arange(known, k) if rest is None else rest
        if lists is not None:
            short = np.array(
                [row for row in short if not self._fill(int(row), lists[row])], np.int32
            )

        def fill(low: int, high: int) -> None:
            for row, distances in zip(short[low:high], dense(short[low:high]), strict=True):
                self._fill(int(row), ascending(distances), every=True)

        few(run, max(len(short), 1), n_gallery).map("ranking", fill, len(short))
        return Ranking(self.indices, self.values)

    def _fill(self, row: int, order: npt.NDArray[Any], *, every: bool = False) -> bool:
        """Put the rows of ``order`` that are not there yet behind; whether they suffice.

        every : these are all rows, so that nothing else can be put behind them
        """
        known = self.counts[row]
        order = order[order >= 0]
        if self.allowed is not None:
            order = order[self.allowed.allows(np.array([row]), order[None])[0]]
        fresh = order[~np.isin(order, self.indices[row, :known])]
        missing = self.indices.shape[1] - known
        if len(fresh) < missing and not every:
            return False
        self.indices[row, known : known + len(fresh)] = fresh[:missing]
        self.values[row, known + len(fresh) :] = np.inf
        return True


def rank_candidates(
    near: SparseRows,
    lists: Neighbors,
    dense: Dense,
    k: int,
    rest: float,
    run: Runner,
    allowed: Filter | None = None,
) -> Ranking:
    """The candidates of each query with values below ``rest``, then all others by their distance.

    near : (n_queries, n), rows from n_queries on are gallery rows (all, where these are the
        queries); lists : the queries' nearest
    """
    n_queries = len(near)
    n = near.n_columns
    first = first_answer(n_queries, allowed)
    scored = Scored.empty(n_queries, k, allowed)
    if allowed is not None:
        near = near.with_data(_allowed_values(near, first, allowed))
    run.map(
        "ranking",
        lambda a, b: first_candidates(
            a,
            b,
            0,
            near.indptr,
            near.indices,
            near.values,
            first,
            np.float32(rest),
            np.arange(n, dtype=np.int32),
            scored.indices,
            scored.values,
            scored.counts,
        ),
        n_queries,
    )
    known = np.maximum(lists.indices[:n_queries] - np.int32(first), -1)
    return scored.filled(dense, n - first, run, rest, known)


def _allowed_values(near: SparseRows, first: int, allowed: Filter) -> Floats:
    """The values of candidates, infinite for those that may not be answers."""
    values = near.values.copy()
    for query in range(len(near)):
        part = slice(near.indptr[query], near.indptr[query + 1])
        rows = np.maximum(near.indices[part] - np.int32(first), -1)
        values[part][~allowed.allows(np.array([query]), rows[None])[0]] = np.inf
    return values


def rank_by_divergence(
    divergence: Divergence,
    distances: Distances,
    n_queries: int,
    k: int,
    run: Runner,
    allowed: Filter | None = None,
) -> Ranking:
    """The rows that share something with the query, then all others by their distance."""
    lists = distances.neighbors.indices[:, :0]  # rows that share nothing are not asked for
    first = first_answer(n_queries, allowed)
    near = divergence.to_candidates(n_queries, lists, run, first=first)
    dense = partial(distances.dense, first=first, run=ALONE)
    return rank_candidates(near, distances.query_lists, dense, k, 1.0, run, allowed)


def rank_scores(
    rows: Callable[[int, int], Floats],
    queries: Stored,
    gallery: Stored,
    k: int,
    run: Runner,
    together: int = 1,
    allowed: Filter | None = None,
) -> Ranking:
    """The largest positive scores that ``rows(low, high)`` computes, the others by their distance.

    together : queries that cost no more than one of them
    """
    n_queries = len(queries)
    n_gallery = len(gallery)
    scored = Scored.empty(n_queries, k, allowed)

    def block(low: int, high: int) -> None:
        part = slice(low, high)
        scores = np.ascontiguousarray(rows(low, high))
        if allowed is not None:
            for query, row in enumerate(scores, start=low):
                row[~allowed.mask(query)] = 0
        first_positive(scores, scored.indices[part], scored.values[part], scored.counts[part])

    few(run, n_queries, n_gallery, together).map("ranking", block, n_queries)
    return scored.filled(lambda q: dense_search(queries[q], gallery), n_gallery, run, 0.0)


def reorder_first(first: Neighbors, row: int, scores: Floats) -> None:
    """Put the first rows of one query into the order of their new scores, highest first.

    The others keep their order and lie as far behind the last of them as their similarity lies
    below that of the list's last; first : squared distances of unit vectors, which are replaced
    """
    m = len(scores)
    order = ascending(-scores)
    behind = (first.distances[row, m:] - first.distances[row, m - 1]) / 2
    first.indices[row, :m] = first.indices[row, :m][order]
    first.distances[row, :m] = -scores[order]
    first.distances[row, m:] = behind - scores[order[-1]]


def rank_dense(
    n_queries: int,
    n_gallery: int,
    k: int,
    run: Runner,
    rows: Callable[[int, int], Floats],
    allowed: Filter | None = None,
) -> Ranking:
    """The first ``k`` of distances that ``rows(low, high)`` computes, (high - low, n_gallery)."""
    found = empty_ranking(n_queries, k)

    def block(low: int, high: int) -> None:
        for row, values in enumerate(rows(low, high), start=low):
            put_first(found, row, values, allowed)

    few(run, n_queries, n_gallery).map("ranking", block, n_queries)
    return found


def put_first(found: Ranking, row: int, values: Floats, allowed: Filter | None) -> None:
    """The first rows of one query by its distances from the whole gallery."""
    if allowed is None:
        order = ascending(values, found.k)
        found.indices[row] = order
        found.distances[row] = values[order]
        return
    rows = allowed.allowed_rows(row)
    order = ascending(values[rows], found.k)
    found.indices[row, : len(order)] = rows[order]
    found.distances[row, : len(order)] = values[rows[order]]
