"""Rankings for queries that are not in the graph, each on its own.

One search goes through three steps for each query: its nearest rows (``kinrank.index.search``), the
stages of CAS with it (``kinrank.index.query``), and a ranking by d*, the mix of the divergence d'
of encodings and the plain distance d. A ranking is *certain* if no row that is not among the
nearest listed ones can be a result; a query that is not certain is ranked again with longer lists.

Vectors of queries are (n_queries, d) float32 here, scaled as the index keeps its own. Rows are
counted as in ``state``; ``Ranking.indices`` are gallery indices. A workspace has arrays as long as
there are rows, which kernels need for each query; it is used by one thread at a time. ``run`` says
how many threads work, and changes no result.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from kinrank.conditions import AttributeRules
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
from kinrank.index.search import RowSearch, StoreAttributes, StoreSearch
from kinrank.index.state import State
from kinrank.kernels.overlay import Workspace, free_workspace
from kinrank.kernels.path_answer import answer_by_path, near_divergences
from kinrank.kernels.query import farthest_rows
from kinrank.kernels.ranking import answer_rows
from kinrank.kernels.records import FetchedDistances, FilterLists, QueryLists
from kinrank.kernels.scan import pair_distances
from kinrank.parallel import Runner, thread_count
from kinrank.search.searcher import FilteringStore
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking

_BLOCK = 64  # queries that are computed together: their stages take more memory than their results
_MOST_FETCHED = 4096  # allowed rows of a store, to rank them alone
_NO_ROWS = np.empty(0, np.int32)
_NO_DISTANCES = np.empty(0, np.float32)


class Engine:
    """A state with what queries need beside it.

    state : everything that is known of the rows
    searcher : finds the nearest rows of a query, among vectors or in a store
    attributes : of the gallery rows, for filters
    queue : where requests wait for a core

    It also has workspaces, which searches share.
    """

    def __init__(
        self, state: State, searcher: RowSearch, attributes: Attributes | None = None
    ) -> None:
        self.state = state
        self.attributes = attributes or Attributes()
        self.searcher = searcher
        self._spaces: list[Workspace] = []
        self.queue = RequestQueue(thread_count())

    def with_attributes(self, attributes: Attributes) -> Engine:
        """The same with other attributes; it shares the workspaces and the request queue."""
        other = copy(self)
        other.attributes = attributes
        return other

    @property
    def attribute_rules(self) -> AttributeRules:
        """What ``where`` and ``differ`` are asked of: attributes here, and those of a store."""
        store = self.searcher.store if isinstance(self.searcher, StoreSearch) else None
        if isinstance(store, FilteringStore):
            return StoreAttributes(self.attributes, store, self.state.id_table)
        return self.attributes

    def workspace(self) -> free_workspace:
        """A workspace that nobody else uses inside ``with``."""
        return free_workspace(len(self.state), self._spaces)

    def search(
        self,
        queries: Floats,
        k: int,
        run: Runner,
        row_filter: Filter | None = None,
        *,
        plain: bool = False,
    ) -> Ranking:
        """The first ``k`` gallery rows of each query; waits until a core is free.

        Requests of one query each, without a filter, may be computed together while they wait.

        row_filter : which rows may be results of which query; None for all
        plain : rank by the plain distance, without re-ranking or waiting
        """
        if plain:
            return self._search_plain(queries, k, run, row_filter)
        in_memory = not isinstance(self.searcher, StoreSearch)
        can_join_others = row_filter is None and len(queries) == 1 and in_memory
        request = Request(queries, k if can_join_others else None)
        try:
            self.queue.wait(request)
            if len(request.batch) == 1:
                return self.search_now(queries, k, run, row_filter)
            if request.batch:  # of this request and others; if empty, another thread computed this
                self._search_batch(request.batch, k, run)
        finally:
            self.queue.finish(request)
        return request.result()

    def nearest(self, queries: Floats, length: int, run: Runner) -> Neighbors:
        """The nearest rows of each query by vectors, as many as there are up to ``length``."""
        return self.searcher.search(queries, length, run)

    def farthest(self, nearest: Neighbors) -> Floats:
        """About the largest squared distance from each query to any row, (n_queries,) float32.

        Estimated from those of its nearest rows; never less than the distance of a row from which
        its stages are made. nearest : the nearest rows of the queries
        """
        neighbors = self.state.neighbors
        farthest: Floats = farthest_rows(
            nearest.indices,
            nearest.distances,
            nearest.counts,
            neighbors.farthest,
            neighbors.k - 1,
        )
        return farthest

    def squared_distances(self, queries: Floats, query_positions: Longs, rows: Ints) -> Floats:
        """Squared plain distances of p pairs, (p,) float32; infinite to rows that a store lost.

        query_positions, rows : (p,) which of ``queries``, and which row of the index, each pair has
        """
        if isinstance(self.searcher, StoreSearch):
            return self.searcher.squared(queries, query_positions, rows)
        squared = np.empty(len(rows), np.float32)
        pair_distances(queries, query_positions, self.state.vectors, rows, squared)
        return squared

    def squared_distance(self, query: Floats, row: int) -> Floats:
        """The squared distance from one query to a row, (1,); raises if a store lost the row."""
        distance = self.squared_distances(query, np.zeros(1, np.int64), np.array([row], np.int32))
        if np.isinf(distance[0]):
            lost_id = self.state.ids[self.state.order[row]].item()
            raise UnknownIdError(f"The store has no row with the id {lost_id!r} any more.")
        return distance

    def encode(self, queries: Floats, nearest: Neighbors, space: Workspace) -> QueryStages:
        """The stages of queries, up to their encodings F'.

        nearest : their nearest rows, lists at least as long as those of rows without the row itself
        """
        distances = _DistancesOfQueries(self, queries, nearest)
        return encode_queries(self.state, nearest, distances, space)

    def first_edges(self, nearest: Neighbors, encoding: Overlay, space: Workspace) -> Floats:
        """d' from queries to their geodesic_k - 1 nearest rows, with which their paths begin.

        encoding : F' of the queries. Returns (n_queries, geodesic_k - 1) float32.
        """
        count = self.state.method.geodesic_k - 1
        edges: Floats = near_divergences(
            0,
            len(nearest),
            np.ascontiguousarray(nearest.indices[:, :count]),
            nearest.counts,
            *encoding[1:],
            self.state.answerable,
            space,
        )
        return edges

    @property
    def can_fetch(self) -> bool:
        """Whether distances that no list has can be had; not of a store with ``refine=False``."""
        return not isinstance(self.searcher, StoreSearch) or self.searcher.refine

    def list_length(self, k: int) -> int:
        """How many nearest rows make it likely that the first ``k`` results are certain."""
        state = self.state
        length = (k + k // 4 + 16) * len(state) / max(state.n_gallery, 1)
        return min(len(state), max(state.neighbors.k - 1, int(length)))

    def search_now(
        self, queries: Floats, k: int, run: Runner, row_filter: Filter | None = None
    ) -> Ranking:
        """As ``search``, without waiting."""
        if row_filter is None:
            return self.rank_unfiltered(queries, k, run)
        if self.state.paths is not None:  # they lead through rows that are not allowed
            rankings = _RankingsOfQueries(self, queries, run, plain=False)
            return row_filter.rank(k, RankAndDrop(row_filter, rankings.rank))
        return row_filter.rank(k, _FilteredQueries(self, queries, run, row_filter))

    def _search_batch(self, batch: list[Request], k: int, run: Runner) -> None:
        """Compute requests of one query each, on the thread of the first of them."""
        try:
            ranking = self.search_now(joined_queries(batch), k, run.cut(None, threads=1))
        except BaseException as error:  # noqa: BLE001  every request raises it
            hand_out_error(batch, error)
        else:
            hand_out(batch, ranking)

    def rank_unfiltered(self, queries: Floats, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of each query, of all rows."""
        n = len(self.state)
        length = self.list_length(k)
        ranking = Ranking(
            np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        )
        is_certain = self.rank_from_lists(queries, length, ranking, run)
        if length < n and self.searcher.exact and not all(is_certain.tolist()):
            for query in np.flatnonzero(~is_certain):  # with the distances to all rows
                line = slice(query, query + 1)
                line_of_ranking = Ranking(ranking.indices[line], ranking.distances[line])
                self.rank_from_lists(queries[line], n, line_of_ranking, run)
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

        ranking : (n_queries, k), whose arrays are written to
        query_filter : which rows may be results of each query; None for all

        Returns (n_queries,) which of them are certain.
        """
        n = len(queries)
        nearest = self.nearest(queries, length, run)
        if n == 1 and query_filter is None:
            return self._rank_block(queries, nearest, no_filter(1), ranking)
        blocks = run.cut(min(_BLOCK, -(-n // run.threads)))
        certain_of_blocks = blocks.map(
            "answers",
            lambda low, high: self._rank_block(
                queries[low:high],
                nearest[low:high],
                no_filter(high - low) if query_filter is None else query_filter.lists(low, high),
                Ranking(ranking.indices[low:high], ranking.distances[low:high]),
            ),
            n,
        )
        return np.concatenate(certain_of_blocks)

    def _rank_block(
        self, queries: Floats, nearest: Neighbors, lists: FilterLists, ranking: Ranking
    ) -> Mask:
        """Fill in the ranking of a few queries; returns which of them are certain.

        A row whose plain distance is in no list is ranked by a lower bound. If it could be a
        result, its distance is fetched, and the queries are ranked again.

        lists : which rows may be results, for each query
        """
        with self.workspace() as space:
            stages = self.encode(queries, nearest, space)
            query_lists = QueryLists(
                queries, nearest.indices, nearest.distances, nearest.counts, stages.farthest
            )
            edges = None
            if self.state.paths is not None:
                edges = self.first_edges(nearest, stages.encoding, space)
            ready = _EncodedQueries(self.state, query_lists, lists, stages.encoding, edges)
            is_certain, indptr, unknown_rows = ready.rank(
                _nothing_fetched(len(queries)), ranking, space
            )
            if len(unknown_rows) and self.can_fetch:
                query_positions = np.repeat(np.arange(len(queries)), np.diff(indptr))
                squared = self.squared_distances(queries, query_positions, unknown_rows)
                fetched = FetchedDistances(indptr, unknown_rows, squared)
                is_certain, _, _ = ready.rank(fetched, ranking, space)
        return is_certain

    def _search_plain(
        self, queries: Floats, k: int, run: Runner, row_filter: Filter | None = None
    ) -> Ranking:
        """The first ``k`` gallery rows of each query by the plain distance d."""
        if row_filter is not None:
            rankings = _RankingsOfQueries(self, queries, run, plain=True)
            return row_filter.rank(k, RankAndDrop(row_filter, rankings.rank))
        state = self.state
        has_context = len(state) > state.n_gallery
        # The scale of a query is estimated from the lists that its stages are made from: shorter
        # ones would give other distances.
        length = self.list_length(k) if has_context else max(k, state.neighbors.k - 1)
        nearest = self.nearest(queries, length, run)
        if has_context and self._lacks_gallery_rows(nearest, k):
            nearest = self.nearest(queries, len(state), run)
        indices = np.where(nearest.indices >= 0, state.order[nearest.indices], -1)
        farthest = np.maximum(self.farthest(nearest), np.finfo(np.float32).tiny)[:, None]
        distances = (np.minimum(nearest.distances, farthest) / farthest).astype(np.float32)
        if state.method.fusion == "euclidean":
            distances = np.sqrt(distances)
        ranking = empty_ranking(len(indices), k)
        is_result = (indices >= 0) & (indices < state.n_gallery)
        for query in range(len(indices)):
            columns = np.flatnonzero(is_result[query])[:k]
            ranking.indices[query, : len(columns)] = indices[query, columns]
            ranking.distances[query, : len(columns)] = distances[query, columns]
        return ranking

    def _lacks_gallery_rows(self, nearest: Neighbors, k: int) -> bool:
        """Whether a list has fewer than ``k`` rows of the gallery: others are of the context."""
        in_gallery = self.state.order[nearest.indices] < self.state.n_gallery
        return bool(((in_gallery & (nearest.indices >= 0)).sum(axis=1) < k).any())


def _nothing_fetched(n_queries: int) -> FetchedDistances:
    """No fetched distance for any of some queries."""
    return FetchedDistances(no_filter(n_queries).indptr, _NO_ROWS, _NO_DISTANCES)


@dataclass(frozen=True, eq=False)
class _EncodedQueries:
    """A few queries that are ready to be ranked.

    lists : their nearest rows; filter_lists : which rows may be results
    encoding : F' of the queries, and of the rows that are others with them
    edges : d' to the nearest rows, with which paths begin; None where rows are ranked by d' itself
    """

    state: State
    lists: QueryLists
    filter_lists: FilterLists
    encoding: Overlay
    edges: Floats | None

    def rank(
        self, fetched: FetchedDistances, ranking: Ranking, space: Workspace
    ) -> tuple[Mask, Longs, Ints]:
        """Fill in the ranking of these queries, (n_queries, k).

        fetched : plain distances to rows that are not in the lists

        Returns which queries are certain, and the rows whose plain distance is missing: query t
        lacks those of rows[indptr[t] : indptr[t + 1]].
        """
        n_queries = len(self.lists.vectors)
        is_certain: Mask
        indptr: Longs
        rows: Ints
        if self.edges is None:
            is_certain, indptr, rows = answer_rows(
                0,
                n_queries,
                self.lists,
                fetched,
                self.filter_lists,
                *self.encoding[1:],
                self.state.answerable,
                ranking.indices,
                ranking.distances,
                space,
            )
        else:
            is_certain, indptr, rows = answer_by_path(
                0,
                n_queries,
                self.lists,
                fetched,
                self.edges,
                self.state.path_graph,
                ranking.indices,
                ranking.distances,
                space,
            )
        return is_certain, indptr, rows


@dataclass(frozen=True, eq=False)
class _RankingsOfQueries:
    """Rankings without a filter, for ``RankAndDrop``, which drops from them what is not allowed."""

    engine: Engine
    queries: Floats
    run: Runner
    plain: bool

    def rank(self, query_positions: Longs | None, depth: int) -> Ranking:
        """The first ``depth`` rows of the queries at these positions; None for all queries."""
        queries = self.queries if query_positions is None else self.queries[query_positions]
        if self.plain:
            return self.engine.search(queries, depth, self.run, plain=True)
        return self.engine.rank_unfiltered(queries, depth, self.run)


@dataclass(frozen=True, eq=False)
class _FilteredQueries:
    """Queries under a filter that the kernels apply while they rank; a ``FilteredSearch``."""

    engine: Engine
    queries: Floats
    run: Runner
    row_filter: Filter

    def rank_dropping(self, k: int, depth: int) -> tuple[Ranking, Longs]:
        """Rank all queries from lists for ``depth`` results; excluded rows are left out.

        Returns the first ``k`` of each query, and the positions of the queries that may lack
        results.
        """
        every_query = np.arange(len(self.queries))
        length = self.engine.list_length(depth)
        return self._rank(every_query, k, length, by_allow_list=False)

    def rank_allowed(self, query_positions: Longs, k: int) -> Ranking:
        """The first ``k`` of the rows that are allowed, for the queries at ``query_positions``.

        A few allowed rows are ranked alone, and a store is asked for the distance of each. A store
        may allow many: then all of its rows are listed, and those that are not allowed left out.
        """
        has_few = np.ones(len(query_positions), np.bool_)
        if isinstance(self.engine.searcher, StoreSearch):
            n_allowed = [len(self.row_filter.allowed_rows(int(query))) for query in query_positions]
            has_few = np.array(n_allowed) <= _MOST_FETCHED
        ranking = empty_ranking(len(query_positions), k)
        if has_few.any():
            # Lists serve the stages alone here: all allowed rows are compared, whatever they hold.
            length = self.engine.list_length(1)
            of_few, _ = self._rank(query_positions[has_few], k, length, by_allow_list=True)
            ranking.indices[has_few] = of_few.indices
            ranking.distances[has_few] = of_few.distances
        if not has_few.all():
            length = len(self.engine.state)
            of_many, _ = self._rank(query_positions[~has_few], k, length, by_allow_list=False)
            ranking.indices[~has_few] = of_many.indices
            ranking.distances[~has_few] = of_many.distances
        return ranking

    def _rank(
        self, query_positions: Longs, k: int, length: int, *, by_allow_list: bool
    ) -> tuple[Ranking, Longs]:
        """Rank the queries at ``query_positions`` from lists of ``length`` nearest rows.

        by_allow_list : look at the allowed rows alone, or leave out the excluded ones
        Returns the first ``k``, and the positions of the queries for which lists may be too short.
        """
        ranking = empty_ranking(len(query_positions), k)
        position = self.engine.state.position
        query_filter = QueryFilter(self.row_filter, query_positions, position, by_allow_list)
        is_certain = self.engine.rank_from_lists(
            self.queries[query_positions], length, ranking, self.run, query_filter
        )
        lacks_results = ranking.indices[:, -1] < 0
        if self.engine.searcher.exact:
            lacks_results = ~is_certain
        return ranking, query_positions[lacks_results]


@dataclass(frozen=True, eq=False)
class _DistancesOfQueries:
    """Plain distances from queries to rows: from their lists of nearest rows where these have them.

    Others are computed; where a store may not be asked, they are infinite.
    """

    engine: Engine
    queries: Floats
    nearest: Neighbors

    def squared(self, query_positions: Longs, rows: Ints) -> Floats:
        """Squared distances of p pairs, (p,) float32.

        query_positions, rows : (p,) which of the queries, and which row of the index, each pair has
        """
        is_listed = self.nearest.indices[query_positions] == rows[:, None]
        listed = np.where(is_listed, self.nearest.distances[query_positions], np.float32(np.inf))
        squared: Floats = listed.min(axis=1)
        missing = np.flatnonzero(~is_listed.any(axis=1))
        if len(missing) and self.engine.can_fetch:
            squared[missing] = self.engine.squared_distances(
                self.queries, query_positions[missing], rows[missing]
            )
        return squared
