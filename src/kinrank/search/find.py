"""Searchers over rows in arrays: exact, in cells, or by a searcher that users bring."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinrank import progress
from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.errors import InvalidInputError
from kinrank.kernels.scan import pair_distances
from kinrank.parallel import Out, Runner
from kinrank.search.cells import CellSearch, cell_count, far_rows, landmark_rows, measured_recall
from kinrank.search.exact import ExactSearch, exact_search, stacked, without_own_rows
from kinrank.search.searcher import Searcher, checked_search
from kinrank.search.stored import Stored, for_kernels, rows_between
from kinrank.search.tiles import squared_norms
from kinrank.types import Floats, Ints, Neighbors

FEW = 20_000  # rows up to which an approximate search is not worth its while
_BLOCK = 1024  # rows that a searcher of users is asked for at a time


@dataclass(frozen=True, eq=False)
class ApproximateSearch:
    """Cells where there are so many rows that they pay, an exact search for few.

    block : as of ``ExactSearch``; arrays : where long arrays lie
    """

    vectors: Stored
    run: Runner
    block: int | None = None
    arrays: Arrays = IN_MEMORY

    @cached_property
    def _cells(self) -> CellSearch:
        """The search in cells, which are made when it is first used."""
        return CellSearch(self.vectors, self.run, self.arrays)

    @property
    def _exact(self) -> ExactSearch:
        """The search that compares all rows."""
        return ExactSearch(self.vectors, self.run, self.block)

    def search(self, queries: Stored, k: int) -> Neighbors:
        """See Searcher."""
        if self._pays(len(queries), k):
            return self._cells.search(queries, k)
        return self._exact.search(queries, k)

    def neighbors(self, k: int) -> Neighbors:
        """See RowSearcher."""
        return self.neighbors_and_more(k, 0, k)[0]

    def neighbors_and_more(self, k: int, n_first: int, first_k: int) -> tuple[Neighbors, Neighbors]:
        """See RowSearcher. Where the first rows, which are ranked for, are few, these are exact.

        The recall of the rows that are searched in cells is told to ``progress``.
        """
        n = len(self.vectors)
        if n <= FEW or 4 * k > n:
            return self._exact.neighbors_and_more(k, n_first, first_k)
        cells = self._cells
        with progress.stage("neighbours", n):
            if self._pays(n_first, first_k):
                n_exact = 0
                longer = cells.first(n_first, first_k)
            else:
                n_exact = n_first
                norms = squared_norms(self.vectors)
                longer = self._exact.search_range(norms, 0, n_first, first_k)
            neighbors = stacked(longer, cells.rows(n_first, n, k), self.run)
        progress.tell("recall", measured_recall(self.vectors, neighbors, self.run, n_exact))
        return neighbors, longer

    def _pays(self, n_queries: int, k: int) -> bool:
        """Whether cells pay: making them costs as much as an exact search for some queries."""
        n = len(self.vectors)
        return n > FEW and n_queries > cell_count(n) and 4 * k < n


@dataclass(frozen=True, eq=False)
class GivenSearch:
    """A searcher that users bring chooses the neighbours; distances are computed from the rows.

    searcher : over the gallery, the rows from ``first`` on, which it counts from 0
    vectors : (n, d) queries and gallery; as_given : (n, d) the same in the searcher's own space, as
        rows may have been moved or scaled
    first : how many rows are queries of the call; the searcher does not know these
    """

    searcher: Searcher
    vectors: Stored
    as_given: Stored
    first: int
    run: Runner

    def search(self, queries: Stored, k: int) -> Neighbors:
        """See Searcher; the rows from ``first`` on are searched."""
        indices = np.empty((len(queries), k), np.int32)
        distances = np.empty((len(queries), k), np.float32)
        gallery = rows_between(self.vectors, self.first)
        for low in range(0, len(queries), _BLOCK):
            block = slice(low, min(low + _BLOCK, len(queries)))
            listed = self._chosen(queries[block], queries[block], gallery, k)
            indices[block] = listed.indices
            distances[block] = listed.distances
        return Neighbors(indices, distances)

    def neighbors(self, k: int) -> Neighbors:
        """See RowSearcher."""
        return self.neighbors_and_more(k, 0, k)[0]

    def neighbors_and_more(self, k: int, n_first: int, first_k: int) -> tuple[Neighbors, Neighbors]:
        """See RowSearcher."""
        n = len(self.vectors)
        with progress.stage("neighbours", n):
            longer = self._lists(0, n_first, first_k)
            return stacked(longer, self._lists(n_first, n, k), self.run), longer

    def _lists(self, low: int, high: int, k: int) -> Neighbors:
        """The ``k`` nearest of all rows for rows low to high, itself first."""
        indices = np.empty((high - low, k), np.int32)
        distances = np.empty((high - low, k), np.float32)
        queries = rows_between(self.vectors, 0, self.first)
        gallery = rows_between(self.vectors, self.first)
        for begin in range(low, high, _BLOCK):
            end = min(begin + _BLOCK, high)
            rows = self.vectors[begin:end]
            count = min(k, len(gallery))
            listed = self._chosen(self.as_given[begin:end], rows, gallery, count)
            candidates = [listed.indices + np.int32(self.first)]
            squared = [listed.distances]
            if self.first:
                near_queries = exact_search(rows, queries, min(k, self.first), self.run)
                candidates.append(near_queries.indices)
                squared.append(near_queries.distances)
            own_rows = np.arange(begin, end, dtype=np.int32)
            block = slice(begin - low, end - low)
            indices[block], distances[block] = _itself_first(
                np.concatenate(candidates, axis=1), np.concatenate(squared, axis=1), own_rows, k
            )
        listed_rows = rows_between(self.vectors, low, high)
        args = (for_kernels(listed_rows), landmark_rows(self.vectors), distances)
        farthest = self.run.fill("neighbours", far_rows, args, high - low, Out(np.float32))
        return Neighbors(indices, distances, farthest)

    def _chosen(self, queries: Floats, rows: Floats, gallery: Stored, k: int) -> Neighbors:
        """The ``k`` gallery rows that the searcher lists, ascending by (distance, index).

        queries : in the searcher's space; rows : the same in ours
        """
        n = len(gallery)
        listed = checked_search(self.searcher, queries, k).indices
        name = type(self.searcher).__name__
        if listed.dtype.kind not in "iu" or listed.max(initial=-1) >= n:
            raise InvalidInputError(
                f"`search` must list gallery rows by their numbers, 0 to {n - 1}; "
                f"{name} returned {listed.max() if listed.dtype.kind in 'iu' else listed.dtype}."
            )
        counts = (listed >= 0).sum(axis=1)
        if listed.shape[1] != k or counts.min() < k:
            raise InvalidInputError(
                f"`search` must find {k} rows for each query; {name} found "
                f"{min(listed.shape[1], counts.min())}. Search more of its lists (nprobe, "
                "ef_search), or exactly."
            )
        indices = np.sort(listed.astype(np.int32), axis=1)
        if (indices[:, 1:] == indices[:, :-1]).any():
            raise InvalidInputError(f"`search` must list a row once; {name} listed one twice.")
        owners = np.repeat(np.arange(len(rows)), k)
        squared = np.empty(len(rows) * k, np.float32)
        different, positions = np.unique(indices.ravel(), return_inverse=True)
        pair_distances(rows, owners, gallery[different], positions, squared)
        distances = squared.reshape(-1, k)
        order = np.argsort(distances, axis=1, kind="stable")
        return Neighbors(
            np.take_along_axis(indices, order, axis=1),
            np.take_along_axis(distances, order, axis=1),
        )


def _itself_first(indices: Ints, distances: Floats, own_rows: Ints, k: int) -> tuple[Ints, Floats]:
    """The first ``k`` of each list by (distance, index), the row itself in front."""
    # Before all others, even those that equal it.
    indices = np.concatenate([own_rows[:, None], indices], axis=1)
    distances = np.concatenate([np.full((len(own_rows), 1), -1, np.float32), distances], axis=1)
    is_repeated = indices == own_rows[:, None]
    is_repeated[:, 0] = False
    distances[is_repeated] = np.inf
    order = np.lexsort((indices, distances), axis=1)[:, :k]
    nearest = np.take_along_axis(distances, order, axis=1)
    return np.take_along_axis(indices, order, axis=1), np.maximum(nearest, 0)


def search_others(
    searcher: Searcher, queries: Stored, k: int, n: int, own_rows: Ints | None = None
) -> Neighbors:
    """The ``k`` nearest of ``n`` rows; own_rows : the row that each query is, which is left out."""
    if own_rows is None:
        return searcher.search(queries, k)
    return without_own_rows(searcher.search(queries, min(k + 1, n)), own_rows, k)
