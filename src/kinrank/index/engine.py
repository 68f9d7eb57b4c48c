"""Rankings for queries that are not in the graph, each on its own."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from kinrank.errors import UnknownIdError
from kinrank.filters import Filter, Mask, RankAndDrop, empty_ranking
from kinrank.index.attributes import Attributes
from kinrank.index.filter_lists import QueryFilter, no_filter
from kinrank.index.query import Overlay, QueryStages, encode_queries
from kinrank.index.request_queue import (
    Request,
    RequestQueue,
    hand_out,
    hand_out_error,
    joined_queries,
)
from kinrank.index.search import RowSearch, StoreSearch
from kinrank.index.state import State
from kinrank.kernels.overlay import Workspace, lent_space
from kinrank.kernels.path_answer import answer_by_path, near_divergences
from kinrank.kernels.query import farthest_rows
from kinrank.kernels.ranking import answer_rows
from kinrank.kernels.records import FetchedDistances, FilterLists, QueryLists
from kinrank.kernels.scan import pair_distances
from kinrank.parallel import Runner, thread_count
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking

_BLOCK = 64  # queries that are computed together: what is made for one is larger than its results
# Up to so many allowed rows of a store are fetched, to rank them alone.
_MOST_FETCHED = 4096
_NO_ROWS = np.empty(0, np.int32)
_NO_DISTANCES = np.empty(0, np.float32)


class Engine:
    """A state with what queries need beside it: a search, attributes and workspaces."""

    def __init__(
        self, state: State, searcher: RowSearch, attributes: Attributes | None = None
    ) -> None:
        self.state = state
        self.attributes = attributes or Attributes()
        self.searcher = searcher
        self._spaces: list[Workspace] = []
        self._queue = RequestQueue(thread_count())

    def with_attributes(self, attributes: Attributes) -> Engine:
        """The same with other attributes; it shares the workspaces and the request queue."""
        other = copy(self)
        other.attributes = attributes
        return other

    def workspace(self) -> lent_space:
        """A workspace that nobody else uses inside ``with``."""
        return lent_space(len(self.state), self._spaces)

    def search(
        self,
        queries: Floats,
        k: int,
        run: Runner,
        row_filter: Filter | None = None,
        *,
        plain: bool = False,
    ) -> Ranking:
        """The first ``k`` gallery rows of each query; queries : scaled as the rows are.

        plain : by the distance of the vectors, without re-ranking
        """
        if plain:
            return self._search_plain(queries, k, run, row_filter)
        in_memory = not isinstance(self.searcher, StoreSearch)
        can_join_others = row_filter is None and len(queries) == 1 and in_memory
        request = Request(queries, k if can_join_others else None)
        try:
            self._queue.wait(request)
            if len(request.batch) == 1:
                return self._rank(queries, k, run, row_filter)
            if request.batch:
                self._rank_batch(request.batch, k, run)
        finally:
            self._queue.finish(request)
        return request.result()

    def nearest(self, queries: Floats, length: int, run: Runner) -> Neighbors:
        """The nearest rows of each query, as many as there are up to ``length``."""
        return self.searcher.search(queries, length, run)

    def farthest(self, near: Neighbors) -> Floats:
        """About the largest squared distance from each query to any row, (n_queries,).

        Estimated from the farthest rows of its nearest ones; never less than the distance of any
        row that its list is made from.
        """
        neighbors = self.state.neighbors
        farthest: Floats = farthest_rows(
            near.indices, near.distances, near.counts, neighbors.farthest, neighbors.k - 1
        )
        return farthest

    def squared_distances(self, queries: Floats, owners: Longs, rows: Ints) -> Floats:
        """Squared distances from ``queries[owners]`` to rows; infinite to rows a store lost."""
        if isinstance(self.searcher, StoreSearch):
            return self.searcher.squared(queries, owners, rows)
        out = np.empty(len(rows), np.float32)
        pair_distances(queries, owners, self.state.vectors, rows, out)
        return out

    def squared_distance(self, query: Floats, row: int) -> Floats:
        """The squared distance from a query, (1, d), to a row, (1,)."""
        owners = np.zeros(1, np.int64)
        distance = self.squared_distances(query, owners, np.array([row], np.int32))
        if np.isinf(distance[0]):
            lost = self.state.ids[self.state.order[row]].item()
            raise UnknownIdError(f"The store has no row with the id {lost!r} any more.")
        return distance

    def encode(self, queries: Floats, near: Neighbors, space: Workspace) -> QueryStages:
        """The stages of queries; near : at least as long as the lists of rows."""
        return encode_queries(self.state, near, _DistancesOfQueries(self, queries, near), space)

    def first_edges(self, near: Neighbors, encoding: Overlay, space: Workspace) -> Floats:
        """d' from queries to their nearest rows, with which their paths begin."""
        count = self.state.method.geodesic_k - 1
        edges: Floats = near_divergences(
            0,
            len(near),
            np.ascontiguousarray(near.indices[:, :count]),
            near.counts,
            *encoding[1:],
            self.state.answerable,
            space,
        )
        return edges

    @property
    def can_fetch(self) -> bool:
        """Whether distances that are in no list can be had: a store may be asked not to."""
        return not isinstance(self.searcher, StoreSearch) or self.searcher.refine

    def list_length(self, k: int) -> int:
        """How many neighbours make it likely that the first ``k`` results are certain."""
        state = self.state
        length = (k + k // 4 + 16) * len(state) / max(state.n_gallery, 1)
        return min(len(state), max(state.neighbors.k - 1, int(length)))

    def _rank(
        self, queries: Floats, k: int, run: Runner, row_filter: Filter | None = None
    ) -> Ranking:
        if row_filter is None:
            return self.rank_unfiltered(queries, k, run)
        if self.state.paths is not None:  # they lead through rows that are not allowed
            rankings = _RankingsOfQueries(self, queries, run, plain=False)
            return row_filter.rank(k, RankAndDrop(row_filter, rankings.rank))
        return row_filter.rank(k, _FilteredQueries(self, queries, run, row_filter))

    def _rank_batch(self, batch: list[Request], k: int, run: Runner) -> None:
        """Compute requests of one query each, on the thread of the first of them."""
        try:
            ranking = self._rank(joined_queries(batch), k, run.cut(None, threads=1))
        except BaseException as error:  # noqa: BLE001  every request raises it
            hand_out_error(batch, error)
        else:
            hand_out(batch, ranking)

    def rank_unfiltered(self, queries: Floats, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of each query."""
        n = len(self.state)
        length = self.list_length(k)
        ranking = Ranking(
            np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        )
        is_certain = self.rank_from_lists(queries, length, ranking, run)
        if length < n and self.searcher.exact and not all(is_certain.tolist()):
            for query in np.flatnonzero(~is_certain):  # with the distances to all rows
                line = slice(query, query + 1)
                alone = Ranking(ranking.indices[line], ranking.distances[line])
                self.rank_from_lists(queries[line], n, alone, run)
        return ranking

    def rank_from_lists(
        self,
        queries: Floats,
        length: int,
        ranking: Ranking,
        run: Runner,
        query_filter: QueryFilter | None = None,
    ) -> Mask:
        """Fill in a ranking from the ``length`` nearest rows of each query.

        Returns which queries are certain: no row that is not listed can be among the first k.
        """
        n = len(queries)
        near = self.nearest(queries, length, run)
        if n == 1 and query_filter is None:
            return self._rank_block(queries, near, no_filter(1), ranking)

        def rank_part(low: int, high: int) -> Mask:
            part = slice(low, high)
            return self._rank_block(
                queries[part],
                near[part],
                no_filter(high - low) if query_filter is None else query_filter.lists(low, high),
                Ranking(ranking.indices[part], ranking.distances[part]),
            )

        blocks = run.cut(min(_BLOCK, -(-n // run.threads)))
        return np.concatenate(blocks.map("answers", rank_part, n))

    def _rank_block(
        self, queries: Floats, near: Neighbors, lists: FilterLists, ranking: Ranking
    ) -> Mask:
        """Fill in the ranking of a few queries; which of them are certain.

        A row whose plain distance nobody knows is ranked by a lower bound. If it could be a
        result, its distance is fetched, and the queries are ranked again.
        """
        n = len(queries)
        state = self.state
        with self.workspace() as space:
            stages = self.encode(queries, near, space)
            query_lists = QueryLists(
                queries, near.indices, near.distances, near.counts, stages.farthest
            )
            edges = None
            if state.paths is not None:
                edges = self.first_edges(near, stages.encoding, space)

            def rank(fetched: FetchedDistances) -> tuple[Mask, Longs, Ints]:
                certain: Mask
                unknown_ptr: Longs
                unknown_rows: Ints
                if edges is None:
                    certain, unknown_ptr, unknown_rows = answer_rows(
                        0,
                        n,
                        query_lists,
                        fetched,
                        lists,
                        *stages.encoding[1:],
                        state.answerable,
                        ranking.indices,
                        ranking.distances,
                        space,
                    )
                else:
                    certain, unknown_ptr, unknown_rows = answer_by_path(
                        0,
                        n,
                        query_lists,
                        fetched,
                        edges,
                        state.path_graph,
                        ranking.indices,
                        ranking.distances,
                        space,
                    )
                return certain, unknown_ptr, unknown_rows

            nothing = FetchedDistances(no_filter(n).indptr, _NO_ROWS, _NO_DISTANCES)
            is_certain, indptr, unknown = rank(nothing)
            if len(unknown) and self.can_fetch:
                owners = np.repeat(np.arange(n), np.diff(indptr))
                squared = self.squared_distances(queries, owners, unknown)
                is_certain, _, _ = rank(FetchedDistances(indptr, unknown, squared))
        return is_certain

    def _search_plain(
        self, queries: Floats, k: int, run: Runner, row_filter: Filter | None = None
    ) -> Ranking:
        """The first ``k`` gallery rows of each query by the distance of the vectors."""
        if row_filter is not None:
            rankings = _RankingsOfQueries(self, queries, run, plain=True)
            return row_filter.rank(k, RankAndDrop(row_filter, rankings.rank))
        state = self.state
        has_context = len(state) > state.n_gallery
        # The scale of a query is estimated from the lists that its stages are made from: shorter
        # ones would give other distances.
        length = self.list_length(k) if has_context else max(k, state.neighbors.k - 1)
        near = self.nearest(queries, length, run)
        if has_context and self._lacks_gallery_rows(near, k):
            near = self.nearest(queries, len(state), run)
        indices = np.where(near.indices >= 0, state.order[near.indices], -1)
        farthest = np.maximum(self.farthest(near), np.finfo(np.float32).tiny)[:, None]
        distances = (np.minimum(near.distances, farthest) / farthest).astype(np.float32)
        if state.method.fusion == "euclidean":
            distances = np.sqrt(distances)
        ranking = empty_ranking(len(indices), k)
        is_result = (indices >= 0) & (indices < state.n_gallery)
        for query in range(len(indices)):
            results = np.flatnonzero(is_result[query])[:k]
            ranking.indices[query, : len(results)] = indices[query, results]
            ranking.distances[query, : len(results)] = distances[query, results]
        return ranking

    def _lacks_gallery_rows(self, near: Neighbors, k: int) -> bool:
        """Whether a list has less than ``k`` rows of the gallery, and rows of the context."""
        in_gallery = self.state.order[near.indices] < self.state.n_gallery
        return bool(((in_gallery & (near.indices >= 0)).sum(axis=1) < k).any())


@dataclass(frozen=True, eq=False)
class _RankingsOfQueries:
    """Rankings that know nothing of a filter, for ``RankAndDrop``."""

    engine: Engine
    queries: Floats
    run: Runner
    plain: bool

    def rank(self, part: Longs | None, depth: int) -> Ranking:
        """The first ``depth`` rows of some queries; None for all."""
        queries = self.queries if part is None else self.queries[part]
        if self.plain:
            return self.engine.search(queries, depth, self.run, plain=True)
        return self.engine.rank_unfiltered(queries, depth, self.run)


@dataclass(frozen=True, eq=False)
class _FilteredQueries:
    """Queries under a filter, which the kernels apply while they rank; a ``FilteredSearch``."""

    engine: Engine
    queries: Floats
    run: Runner
    row_filter: Filter

    def rank_dropping(self, k: int, depth: int) -> tuple[Ranking, Longs]:
        """See ``FilteredSearch``."""
        everyone = np.arange(len(self.queries))
        length = self.engine.list_length(depth)
        return self._rank(everyone, k, length, allow=False)

    def rank_allowed(self, queries: Longs, k: int) -> Ranking:
        """See ``FilteredSearch``; of a store, few allowed rows are fetched, many are searched."""
        has_few = np.ones(len(queries), np.bool_)
        if isinstance(self.engine.searcher, StoreSearch):
            counts = [len(self.row_filter.allowed_rows(int(query))) for query in queries]
            has_few = np.array(counts) <= _MOST_FETCHED
        ranking = empty_ranking(len(queries), k)
        if has_few.any():
            length = self.engine.list_length(1)
            ranked, _ = self._rank(queries[has_few], k, length, allow=True)
            ranking.indices[has_few] = ranked.indices
            ranking.distances[has_few] = ranked.distances
        if not has_few.all():
            length = len(self.engine.state)
            ranked, _ = self._rank(queries[~has_few], k, length, allow=False)
            ranking.indices[~has_few] = ranked.indices
            ranking.distances[~has_few] = ranked.distances
        return ranking

    def _rank(self, numbers: Longs, k: int, length: int, *, allow: bool) -> tuple[Ranking, Longs]:
        """The ranking of some queries, and those for which lists of ``length`` may be too short."""
        ranking = empty_ranking(len(numbers), k)
        query_filter = QueryFilter(self.row_filter, numbers, self.engine.state.position, allow)
        is_certain = self.engine.rank_from_lists(
            self.queries[numbers], length, ranking, self.run, query_filter
        )
        lacking = ~is_certain if self.engine.searcher.exact else ranking.indices[:, -1] < 0
        return ranking, numbers[lacking]


@dataclass(frozen=True, eq=False)
class _DistancesOfQueries:
    """Plain distances from queries to rows, from their lists where these have them."""

    engine: Engine
    queries: Floats
    near: Neighbors

    def squared(self, owners: Longs, rows: Ints) -> Floats:
        """From the queries ``owners`` to ``rows``, both (p,)."""
        is_listed = self.near.indices[owners] == rows[:, None]
        listed = np.where(is_listed, self.near.distances[owners], np.float32(np.inf))
        squared: Floats = listed.min(axis=1)
        missing = np.flatnonzero(~is_listed.any(axis=1))
        if len(missing) and self.engine.can_fetch:
            squared[missing] = self.engine.squared_distances(
                self.queries, owners[missing], rows[missing]
            )
        return squared
