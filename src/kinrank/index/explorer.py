"""One query looked at closely: all rows ranked for it under any parameters, and its local cluster.

``Explorer`` is a snapshot of an index, for the service's page. Under other parameters the stages
are computed again (``kinrank.index.refit``): over all rows, or at once over the rows around the
query.

A *position* counts the gallery rows in the order of ``Explorer.ids``. A *row* is where the index
keeps it; ``state.position[position]`` leads from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.filters import Filter, PerQuery
from kinrank.index.engine import Engine
from kinrank.index.explain import Explanation, explain, weights_of
from kinrank.index.ids import Ids
from kinrank.index.item_queries import ItemQueries, rank_items
from kinrank.index.refit import Refit, Refits
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.search.exact import dense_search
from kinrank.types import Floats, Ints, Longs

_MOST_RANKED = 1000  # rows that are ranked by what a person called right and wrong


@dataclass(frozen=True, eq=False)
class Query:
    """A row of the index that stands as the query, or a vector from outside.

    vector : (1, d) float32, scaled as the index keeps vectors
    position : of the row in ``Explorer.ids``; -1 for a vector from outside
    """

    vector: Floats
    position: int


@dataclass(frozen=True, eq=False)
class RankedRows:
    """All gallery rows but the query itself, nearest first.

    order : (n,) int64, their positions
    distances : of the first of them, as many as were ranked; the others follow by plain distance
    around : how many rows around the query the stages were computed for; 0 for all rows
    """

    order: Longs
    distances: Floats
    around: int = 0

    @property
    def whole(self) -> bool:
        """Whether all rows were ranked, with stages of all rows."""
        return not self.around and len(self.distances) == len(self.order)

    @property
    def scope(self) -> str:
        """What was ranked, in words."""
        if self.around:
            return f"{self.around:,} rows around it"
        return "all rows" if self.whole else f"the {len(self.distances):,} nearest rows"

    def average_precision(self, relevant: npt.NDArray[np.bool_]) -> float | None:
        """Average precision of this order; None if no row is relevant.

        relevant : (n_gallery,) by position, whether a row shows the query's item
        """
        ranks = np.flatnonzero(relevant[self.order]) + 1
        if len(ranks) == 0:
            return None
        return float(np.mean(np.arange(1, len(ranks) + 1) / ranks))


@dataclass(frozen=True)
class ClusterMember:
    """A row of a local cluster.

    position : in ``Explorer.ids``; -1 for the query; from the number of ids on for context rows
    confident : whether it is one of the query's confident neighbours xi
    similarity, smoothed : its weight in the query's row of F, before and after smoothing
    """

    position: int
    confident: bool
    similarity: float
    smoothed: float


@dataclass(frozen=True)
class LocalCluster:
    """The members of a query's cluster, and the edges of the affinity graph between them.

    edges : (number of a member, number of another, weight); numbers count ``members``
    """

    members: list[ClusterMember]
    edges: list[tuple[int, int, float]]


class Explorer:
    """The rows of an index as they are now; made by ``Index.explorer``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._state = engine.state
        self._refits = Refits(engine.state)

    def __len__(self) -> int:
        """How many rows the graph has, those of the context too."""
        return len(self._state)

    @property
    def ids(self) -> Ids:
        """(n_gallery,) ids of the gallery rows."""
        return self._state.ids

    @property
    def method(self) -> CASMethod:
        """The method of the index as the user gave it, for vectors that are projected already."""
        return self._state.unresolved.replace(whiten=None)

    def prepare(self) -> None:
        """Do what a first query under other parameters would wait for, on a thread of its own."""
        self._refits.prepare()

    def position(self, item: Any) -> int:
        """Where the id ``item`` is in ``ids``; raises if it is not there."""
        return int(self._state.id_table.rows([item])[0])

    def vectors(self, positions: Any) -> Floats:
        """The vectors of rows as the index keeps them, (len(positions), d) float32."""
        vectors: Floats = self._state.vectors[self._state.position[positions]]
        return vectors

    def row_query(self, position: int) -> Query:
        """A row of the index as the query; it is left out of its results."""
        return Query(self.vectors([position]), position)

    def vector_query(self, vector: Any) -> Query:
        """A vector from outside, (1, d) as users give it, as the query."""
        return Query(self._state.scaling.apply("vector", vector), -1)

    def explain(self, query: Query, item: Any) -> Explanation:
        """Why the row with the id ``item`` has its distance from the query."""
        return explain(self.engine, query.vector, self.position(item))

    def plain(self, query: Query) -> RankedRows:
        """All rows by the distance of their vectors, over the largest."""
        squared = dense_search(query.vector, self._state.vectors)[0]
        return self._ordered(query, squared / max(float(squared.max()), 1e-30))

    def rank(self, query: Query) -> RankedRows:
        """All rows as the index ranks them."""
        return self._ranked(Refit(self.engine), query)

    def rank_marked(self, query: Query, right: list[Any], wrong: list[Any]) -> RankedRows:
        """Rows as the index ranks them for somebody who called some right and others wrong.

        right, wrong : ids. No more than 1,000 rows are ranked; the others follow by plain distance.
        """
        n_gallery = self._state.n_gallery
        items = ItemQueries.of(self.engine, query.vector, None, [right], [wrong])
        itself = np.arange(max(query.position, 0), query.position + 1, dtype=np.int32)
        without_itself = PerQuery.of_lists([itself], n_gallery, is_allow_list=False)
        ranking = rank_items(
            self.engine,
            items,
            min(_MOST_RANKED, n_gallery),
            Filter(1, n_gallery, (without_itself,)),
            Runner(1),
        )
        ranked = ranking.indices[0][ranking.indices[0] >= 0]
        by_plain_distance = self.plain(query).order
        others = by_plain_distance[~np.isin(by_plain_distance, ranked)]
        return RankedRows(np.concatenate([ranked, others]), ranking.distances[0, : len(ranked)])

    def rank_by(
        self, query: Query, method: CASMethod, *, whole: bool, threads: int | None = None
    ) -> RankedRows | None:
        """Rows as an index with other parameters would rank them.

        whole : compute the stages for all rows, however long that takes; else only around the
            query, unless they are there for all rows

        None where it cannot be told: see ``Refits.obstacle``, or neighbour lists are too short.
        """
        for_vectors = query.position < 0
        run = Runner.of(threads)
        if for_vectors and method.geodesic and not self._refits.has_own_paths(method):
            return None  # the lists of the index are too short for a query's edges
        if whole:
            refit = self._refits.over_all_rows(method, run, for_vectors=for_vectors)
        else:
            refit = self._kept_or_around(query, method, run, for_vectors=for_vectors)
        return None if refit is None else self._ranked(refit, query)

    def cluster(self, query: Query) -> LocalCluster:
        """The query's local cluster as the index computes it."""
        return _local_cluster(self.engine, query)

    def cluster_by(
        self, query: Query, method: CASMethod, *, threads: int | None = None
    ) -> LocalCluster | None:
        """The query's local cluster under other parameters; None where it cannot be told."""
        refit = self._kept_or_around(query, method.replace(geodesic=False), Runner.of(threads))
        return None if refit is None else _local_cluster(refit.engine, query)

    def _kept_or_around(
        self, query: Query, method: CASMethod, run: Runner, *, for_vectors: bool = False
    ) -> Refit | None:
        """The index under ``method``: over all rows if that is kept, else around the query.

        for_vectors : whether the ranking is for a vector that is no row of the index
        """
        refit = self._refits.kept(method, for_vectors=for_vectors)
        if refit is not None:
            return refit
        is_from_outside = query.position < 0
        if is_from_outside:
            starts = self.plain(query).order[: method.k1]
        else:
            starts = np.array([query.position])
        rows = self._state.position[starts]
        return self._refits.around_rows(method, rows, run, for_vectors=is_from_outside)

    def _ranked(self, refit: Refit, query: Query) -> RankedRows:
        """The rows as the engine of a refit ranks them."""
        state = refit.engine.state
        if query.position >= 0:
            distances = refit.distances(int(state.position[query.position]))
            return self._ordered(query, distances, refit.around)
        ranking = refit.engine.search(query.vector, state.n_gallery, Runner(1))
        is_result = ranking.indices[0] >= 0
        order = ranking.indices[0][is_result].astype(np.int64)
        return RankedRows(order, ranking.distances[0][is_result], refit.around)

    def _ordered(self, query: Query, distances: Floats, around: int = 0) -> RankedRows:
        """Gallery rows by their distances, (n,) by row, without the query; around : RankedRows."""
        by_position = distances[self._state.position[: self._state.n_gallery]].astype(np.float32)
        order = np.argsort(by_position, kind="stable")
        order = order[order != query.position]
        return RankedRows(order, by_position[order], around)


def _local_cluster(engine: Engine, query: Query) -> LocalCluster:
    """The cluster of a query as an engine computes it, and its edges in the affinity graph."""
    state = engine.state
    query_row = len(state)  # a query has the number behind all rows
    nearest = engine.nearest(query.vector, state.neighbors.k - 1, Runner(1))
    with engine.workspace() as space:
        stages = engine.encode(query.vector, nearest, space)
    confident = set(stages.confident.ids.tolist())
    smoothed = weights_of(stages.smoothed.rows)  # on more rows than the cluster for "aqe"
    position_of_row: Ints = np.append(state.order, np.int32(-1))
    members: dict[int, ClusterMember] = {}
    for row, weight in weights_of(stages.similarity.rows).items():
        position = int(position_of_row[row])
        # A row of the index that stands as the query is not its own member a second time.
        if position != query.position or row == query_row:
            weight_after = smoothed.get(row, 0.0)
            members[row] = ClusterMember(position, row in confident, weight, weight_after)
    return LocalCluster(list(members.values()), _edges_between(engine, list(members)))


def _edges_between(engine: Engine, rows: list[int]) -> list[tuple[int, int, float]]:
    """The edges of the affinity graph between some rows, each once.

    rows : of the index; the number behind all rows, which stands for the query, has no edges here
    Returns (number of a row in ``rows``, number of another, weight).
    """
    affinity = engine.state.affinity
    numbers = {row: number for number, row in enumerate(rows)}
    edges = []
    for row in rows:
        if row == len(engine.state):
            continue
        entries = slice(affinity.indptr[row], affinity.indptr[row + 1])
        weights = affinity.values[entries].tolist()
        for other, weight in zip(affinity.indices[entries].tolist(), weights, strict=True):
            if other > row and other in numbers:
                edges.append((numbers[row], numbers[other], weight))
    return edges
