"""From scores to a ranking: rows with a score first, the others behind them by their distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.filters import Filter, empty_ranking, first_answer
from kinrank.kernels.answer import first_candidates, first_positive
from kinrank.ordering import ascending
from kinrank.parallel import ALONE, Runner
from kinrank.search.exact import dense_blocks, dense_search
from kinrank.search.stored import Stored
from kinrank.stages.distances import Distances
from kinrank.stages.divergence import Divergence
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking, SparseRows

# The original distances of some queries, by their numbers, to the whole gallery.
GalleryDistances: TypeAlias = Callable[[Ints], Floats]
# Scores or distances of the queries low to high to the whole gallery, (high - low, n_gallery).
BlockOfValues: TypeAlias = Callable[[int, int], Floats]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of each query that have a score, best first, in the first places of a ranking.

    indices, values : (n_queries, k); counts : (n_queries,) how many places are taken
    row_filter : which gallery rows may be results
    """

    indices: Ints
    values: Floats
    counts: Longs
    row_filter: Filter | None = None

    @classmethod
    def empty(cls, n_queries: int, k: int, row_filter: Filter | None = None) -> ScoredRows:
        """No place is taken yet."""
        ranking = empty_ranking(n_queries, k)
        counts = np.zeros(n_queries, np.int64)
        return cls(ranking.indices, ranking.distances, counts, row_filter)

    def then_nearest(
        self,
        distances: GalleryDistances,
        n_gallery: int,
        run: Runner,
        lists: Ints | None = None,
        value: float | None = None,
    ) -> Ranking:
        """The whole ranking: behind the rows with a score come the nearest of the others.

        A list of near rows serves where it holds enough of them. For the queries that lack results
        after that, the whole gallery is put in order.

        lists : gallery rows near each query, nearest first, -1 for none
        value : of a row without a score; None where the places have their values already
        """
        k = self.indices.shape[1]
        if value is not None:
            self.values[np.arange(k) >= self.counts[:, None]] = value
        lacking = np.flatnonzero(self.counts < k).astype(np.int32)
        if lists is not None:
            is_full = [self._append(query, lists[query]) for query in lacking.tolist()]
            lacking = lacking[~np.array(is_full, np.bool_)]
        blocks = dense_blocks(run, max(len(lacking), 1), n_gallery)
        blocks.map("ranking", self._append_gallery, len(lacking), lacking, distances)
        return Ranking(self.indices, self.values)

    def _append_gallery(
        self, low: int, high: int, lacking: Ints, distances: GalleryDistances
    ) -> None:
        """Give the queries lacking[low:high] the nearest rows of the whole gallery."""
        queries = lacking[low:high]
        for query, to_gallery in zip(queries.tolist(), distances(queries), strict=True):
            self._append(query, ascending(to_gallery), is_whole_gallery=True)

    def _append(
        self, query: int, rows: npt.NDArray[Any], *, is_whole_gallery: bool = False
    ) -> bool:
        """Put rows, nearest first, into the places that are left; False if they do not suffice.

        Then nothing is changed, unless there are no other rows: places stay empty.
        """
        count = self.counts[query]
        rows = rows[rows >= 0]
        if self.row_filter is not None:
            rows = rows[self.row_filter.allows(np.array([query]), rows[None])[0]]
        rows = rows[~np.isin(rows, self.indices[query, :count])]
        n_places = self.indices.shape[1] - count
        if len(rows) < n_places and not is_whole_gallery:
            return False
        end = count + min(len(rows), n_places)
        self.indices[query, count:end] = rows[:n_places]
        self.values[query, end:] = np.inf
        return True


def rank_candidates(
    candidates: SparseRows,
    lists: Neighbors,
    distances: GalleryDistances,
    k: int,
    background: float,
    run: Runner,
    row_filter: Filter | None = None,
) -> Ranking:
    """The candidates with values below ``background``, then all other rows by their distance.

    candidates : (n_queries, n), rows from n_queries on are gallery rows (all, where these are the
        queries); lists : the nearest rows of the queries
    """
    n_queries = len(candidates)
    n = candidates.n_columns
    first = first_answer(n_queries, row_filter)
    scored = ScoredRows.empty(n_queries, k, row_filter)
    if row_filter is not None:
        candidates = candidates.with_data(_allowed_values(candidates, first, row_filter))
    run.map(
        "ranking",
        first_candidates,
        n_queries,
        0,
        candidates.indptr,
        candidates.indices,
        candidates.values,
        first,
        np.float32(background),
        np.arange(n, dtype=np.int32),
        scored.indices,
        scored.values,
        scored.counts,
    )
    near_rows = np.maximum(lists.indices[:n_queries] - np.int32(first), -1)
    return scored.then_nearest(distances, n - first, run, near_rows, background)


def _allowed_values(candidates: SparseRows, first: int, row_filter: Filter) -> Floats:
    """The values of candidates, infinite for those that may not be results."""
    values = candidates.values.copy()
    for query in range(len(candidates)):
        entries = slice(candidates.indptr[query], candidates.indptr[query + 1])
        rows = np.maximum(candidates.indices[entries] - np.int32(first), -1)
        values[entries][~row_filter.allows(np.array([query]), rows[None])[0]] = np.inf
    return values


def rank_by_divergence(
    divergence: Divergence,
    distances: Distances,
    n_queries: int,
    k: int,
    run: Runner,
    row_filter: Filter | None = None,
) -> Ranking:
    """The rows that share something with the query, then all others by their distance."""
    no_lists = distances.neighbors.indices[:, :0]  # rows that share nothing are not candidates
    first = first_answer(n_queries, row_filter)
    candidates = divergence.to_candidates(n_queries, no_lists, run, first=first)
    to_gallery = partial(distances.to_all, first=first, run=ALONE)
    return rank_candidates(candidates, distances.query_lists, to_gallery, k, 1.0, run, row_filter)


def rank_scores(
    scores: BlockOfValues,
    queries: Stored,
    gallery: Stored,
    k: int,
    run: Runner,
    together: int = 1,
    row_filter: Filter | None = None,
) -> Ranking:
    """The rows with the largest positive scores, then all others by their distance.

    together : queries that cost no more than one of them
    """
    n_queries = len(queries)
    n_gallery = len(gallery)
    scored = ScoredRows.empty(n_queries, k, row_filter)
    blocks = dense_blocks(run, n_queries, n_gallery, together)
    blocks.map("ranking", _put_scores, n_queries, scores, scored)
    return scored.then_nearest(
        lambda numbers: dense_search(queries[numbers], gallery), n_gallery, run, value=0.0
    )


def _put_scores(low: int, high: int, scores: BlockOfValues, scored: ScoredRows) -> None:
    block_scores = np.ascontiguousarray(scores(low, high))
    if scored.row_filter is not None:
        for query, query_scores in enumerate(block_scores, start=low):
            query_scores[~scored.row_filter.mask(query)] = 0
    block = slice(low, high)
    first_positive(block_scores, scored.indices[block], scored.values[block], scored.counts[block])


def rank_dense(
    distances: BlockOfValues,
    n_queries: int,
    n_gallery: int,
    k: int,
    run: Runner,
    row_filter: Filter | None = None,
) -> Ranking:
    """The first ``k`` rows by distances that are computed from each query to the whole gallery."""
    ranking = empty_ranking(n_queries, k)
    blocks = dense_blocks(run, n_queries, n_gallery)
    blocks.map("ranking", _put_distances, n_queries, distances, ranking, row_filter)
    return ranking


def _put_distances(
    low: int, high: int, distances: BlockOfValues, ranking: Ranking, row_filter: Filter | None
) -> None:
    for query, to_gallery in enumerate(distances(low, high), start=low):
        put_nearest_rows(ranking, query, to_gallery, row_filter)


def put_nearest_rows(
    ranking: Ranking, query: int, distances: Floats, row_filter: Filter | None
) -> None:
    """Fill in the results of one query by its distances to the whole gallery."""
    if row_filter is None:
        order = ascending(distances, ranking.k)
        ranking.indices[query] = order
        ranking.distances[query] = distances[order]
        return
    rows = row_filter.allowed_rows(query)
    nearest = rows[ascending(distances[rows], ranking.k)]
    ranking.indices[query, : len(nearest)] = nearest
    ranking.distances[query, : len(nearest)] = distances[nearest]


def reorder_first(lists: Neighbors, query: int, scores: Floats) -> None:
    """Put the first rows of one list into the order of their new scores, highest first.

    The others keep their order and lie as far behind the last of them as their similarity lies
    below that of the list's last; lists : squared distances of unit vectors, which are replaced
    """
    m = len(scores)
    order = ascending(-scores)
    behind = (lists.distances[query, m:] - lists.distances[query, m - 1]) / 2
    lists.indices[query, :m] = lists.indices[query, :m][order]
    lists.distances[query, :m] = -scores[order]
    lists.distances[query, m:] = behind - scores[order[-1]]
