"""From scores to a ranking: scored rows first, all others behind, ordered by distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.kernels.answer import first_candidates, first_positive
from kinrank.ordering import ascending
from kinrank.parallel import ALONE, Runner
from kinrank.search.exact import SearchResult, dense_search, few
from kinrank.search.stored import Stored
from kinrank.stages.distance import Distances
from kinrank.stages.diverge import Divergence
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking, SparseRows

Dense = Callable[[Ints], Floats]


@dataclass(frozen=True, eq=False)
class Scored:
    """The rows of each query that have a score, nearest first, not yet filled up to k.

    indices, values : (n_queries, k); counts : (n_queries,) how many of them are known
    """

    indices: Ints
    values: Floats
    counts: Longs

    @classmethod
    def empty(cls, n_queries: int, k: int) -> Scored:
        """Nothing known yet."""
        return cls(
            np.full((n_queries, k), -1, np.int32),
            np.full((n_queries, k), np.inf, np.float32),
            np.zeros(n_queries, np.int64),
        )

    def filled(
        self, dense: Dense, n_gallery: int, run: Runner, rest: float | None,
        lists: Ints | None = None,
    ) -> Ranking:  # fmt: skip
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
                self._fill(int(row), ascending(distances))

        few(run, max(len(short), 1), n_gallery).map("ranking", fill, len(short))
        return Ranking(self.indices, self.values)

    def _fill(self, row: int, order: npt.NDArray[Any]) -> bool:
        """Put the rows of ``order`` that are not there yet behind; whether they suffice."""
        known = self.counts[row]
        order = order[order >= 0]
        fresh = order[~np.isin(order, self.indices[row, :known])]
        missing = self.indices.shape[1] - known
        if len(fresh) < missing:
            return False
        self.indices[row, known:] = fresh[:missing]
        return True


def rank_candidates(
    near: SparseRows, lists: Neighbors, dense: Dense, k: int, rest: float, run: Runner
) -> Ranking:
    """The candidates of each query with values below ``rest``, then all others by their distance.

    near : (n_queries, n), rows from n_queries on are gallery rows; lists : the queries' nearest
    """
    first, n = len(near), near.n_columns
    scored = Scored.empty(first, k)
    out = (scored.indices, scored.values, scored.counts)
    args = (0, near.csr, first, np.float32(rest), np.arange(n, dtype=np.int32), *out)
    run.map("ranking", lambda a, b: first_candidates(a, b, *args), first)
    known = np.maximum(lists.indices - np.int32(first), -1)
    return scored.filled(dense, n - first, run, rest, known)


def rank_by_divergence(
    divergence: Divergence, distances: Distances, n_queries: int, k: int, run: Runner
) -> Ranking:
    """The rows that share something with the query, then all others by their distance."""
    lists = distances.neighbors.indices[:, :0]  # rows that share nothing are not asked for
    near = divergence.near(n_queries, lists, run)
    dense = partial(distances.dense, first=n_queries, run=ALONE)
    return rank_candidates(near, distances.query_lists, dense, k, 1.0, run)


def rank_scores(
    rows: Callable[[int, int], Floats], queries: Stored, gallery: Stored, k: int, run: Runner,
    together: int = 1,
) -> Ranking:  # fmt: skip
    """The largest positive scores that ``rows(low, high)`` computes, the others by their distance.

    together : queries that cost no more than one of them
    """
    n_queries, n_gallery = len(queries), len(gallery)
    scored = Scored.empty(n_queries, k)

    def block(low: int, high: int) -> None:
        part = slice(low, high)
        out = (scored.indices[part], scored.values[part], scored.counts[part])
        first_positive(np.ascontiguousarray(rows(low, high)), *out)

    few(run, n_queries, n_gallery, together).map("ranking", block, n_queries)
    return scored.filled(lambda q: dense_search(queries[q], gallery), n_gallery, run, 0.0)


def reorder_first(first: SearchResult, row: int, scores: Floats) -> None:
    """Put the first rows of one query into the order of their new scores, highest first.

    The others keep their order and lie as far behind the last of them as their similarity lies
    below that of the list's last; first : squared distances of unit vectors, which are replaced
    """
    m = len(scores)
    order = ascending(-scores)
    behind = (first.values[row, m:] - first.values[row, m - 1]) / 2
    first.indices[row, :m] = first.indices[row, :m][order]
    first.values[row, :m] = -scores[order]
    first.values[row, m:] = behind - scores[order[-1]]


def rank_dense(
    n_queries: int, n_gallery: int, k: int, run: Runner, rows: Callable[[int, int], Floats]
) -> Ranking:
    """The first ``k`` of distances that ``rows(low, high)`` computes, (high - low, n_gallery)."""
    found = Ranking(np.empty((n_queries, k), np.int32), np.empty((n_queries, k), np.float32))

    def block(low: int, high: int) -> None:
        for row, values in enumerate(rows(low, high), start=low):
            order = ascending(values, k)
            found.indices[row], found.distances[row] = order, values[order]

    few(run, n_queries, n_gallery).map("ranking", block, n_queries)
    return found
