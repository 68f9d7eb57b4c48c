"""One query looked at closely: all rows ranked for it under any parameters, and its local cluster.

``Explorer`` is a snapshot of an index. Other parameters run the stages again (``refit``): over all
rows, or first of all over the rows around the query.
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
from kinrank.index.refit import Refit, Refits
from kinrank.index.several import Items, rank_items
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.search.exact import dense_search
from kinrank.types import Floats, Ints, Longs

_MOST_RANKED = 1000  # rows that are ranked by what a person said


@dataclass(frozen=True, eq=False)
class Query:
    """vector : (1, d), as the index keeps them; position : of the row in the ids, -1 for none."""

    vector: Floats
    position: int


@dataclass(frozen=True, eq=False)
class RankedRows:
    """All gallery rows but the query itself, nearest first.

    order : (n,) positions in the ids; distances : of the first of them, as many as were ranked
    around : how many rows the stages ran for; 0 for all that were ranked
    """

    order: Longs
    distances: Floats
    around: int = 0

    @property
    def whole(self) -> bool:
        """Whether all rows were ranked."""
        return not self.around and len(self.distances) == len(self.order)

    @property
    def scope(self) -> str:
        """What was ranked, in words."""
        if self.around:
            return f"{self.around:,} rows around it"
        return "all rows" if self.whole else f"the {len(self.distances):,} nearest rows"

    def average_precision(self, relevant: npt.NDArray[np.bool_]) -> float | None:
        """relevant : (n,) by position; None if no row is."""
        ranks = np.flatnonzero(relevant[self.order]) + 1
        return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else None


@dataclass(frozen=True)
class ClusterMember:
    """position : in the ids, -1 for the query; similarity, smoothed : its weight in F and after."""

    position: int
    confident: bool
    similarity: float
    smoothed: float


@dataclass(frozen=True)
class LocalCluster:
    """edges : of the affinity graph: the numbers of two members, and a weight."""

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
        """(n,) of the gallery rows."""
        return self._state.ids

    @property
    def method(self) -> CASMethod:
        """The method of the index, as it was given, for rows that are already whitened."""
        return self._state.asked.replace(whiten=None)

    def prepare(self) -> None:
        """Do what other parameters would wait for, once, on a thread of its own."""
        self._refits.prepare()

    def position(self, item: Any) -> int:
        """Where an id is in ``ids``."""
        return int(self._state.table.rows([item])[0])

    def vectors(self, positions: Any) -> Floats:
        """As the index keeps them, (n, d)."""
        vectors: Floats = self._state.vectors[self._state.position[positions]]
        return vectors

    def row_query(self, position: int) -> Query:
        """A row that asks for the others."""
        return Query(self.vectors([position]), position)

    def vector_query(self, vector: Any) -> Query:
        """A vector from outside, (1, d)."""
        return Query(self._state.scaling.apply("vector", vector), -1)

    def explain(self, query: Query, item: Any) -> Explanation:
        """Why an item has its distance from the query."""
        return explain(self.engine, query.vector, self.position(item))

    def plain(self, query: Query) -> RankedRows:
        """By the distance of the vectors."""
        squared = dense_search(query.vector, self._state.vectors)[0]
        return self._ordered(query, squared / max(float(squared.max()), 1e-30))

    def rank(self, query: Query) -> RankedRows:
        """As the index answers."""
        return self._ranked(Refit(self.engine), query)

    def rank_marked(self, query: Query, right: list[Any], wrong: list[Any]) -> RankedRows:
        """As the index answers to who said which ids are right and wrong; the others behind."""
        n_gallery = self._state.n_gallery
        items = Items.of(self.engine, query.vector, None, [right], [wrong])
        itself = np.arange(max(query.position, 0), query.position + 1, dtype=np.int32)
        rule = PerQuery.of_lists([itself], n_gallery, is_allow_list=False)
        ranking = rank_items(
            self.engine,
            items,
            min(_MOST_RANKED, n_gallery),
            Filter(1, n_gallery, (rule,)),
            Runner(1),
        )
        first = ranking.indices[0][ranking.indices[0] >= 0]
        others = self.plain(query).order
        order = np.concatenate([first, others[~np.isin(others, first)]])
        return RankedRows(order, ranking.distances[0, : len(first)])

    def rank_by(
        self, query: Query, method: CASMethod, *, whole: bool, threads: int | None = None
    ) -> RankedRows | None:
        """As an index with other parameters would answer; None where that cannot be told.

        whole : rank all rows, however long it takes
        """
        outside = query.position < 0
        run = Runner.of(threads)
        if outside and method.geodesic and not self._refits.own_paths(method):
            return None  # the lists of the index are too short for a query's edges
        if whole:
            refit = self._refits.make(method, run, outside=outside)
        else:
            refit = self._known(query, method, run, outside=outside)
        return None if refit is None else self._ranked(refit, query)

    def cluster(self, query: Query) -> LocalCluster:
        """The query's local cluster."""
        return _cluster(self.engine, query)

    def cluster_by(
        self, query: Query, method: CASMethod, *, threads: int | None = None
    ) -> LocalCluster | None:
        """The same with other parameters; None where that cannot be told."""
        refit = self._known(query, method.replace(geodesic=False), Runner.of(threads))
        return None if refit is None else _cluster(refit.engine, query)

    def _known(
        self, query: Query, method: CASMethod, run: Runner, *, outside: bool = False
    ) -> Refit | None:
        """All rows under ``method`` if that was made before, else those around the query."""
        refit = self._refits.known(method, outside=outside)
        if refit is not None:
            return refit
        nearest = query.position < 0
        starts = self.plain(query).order[: method.k1] if nearest else np.array([query.position])
        return self._refits.near(method, self._state.position[starts], run, outside=nearest)

    def _ranked(self, refit: Refit, query: Query) -> RankedRows:
        state = refit.engine.state
        if query.position >= 0:
            distances = refit.distances(int(state.position[query.position]))
            return self._ordered(query, distances, refit.around)
        answer = refit.engine.search(query.vector, state.n_gallery, Runner(1))
        known = answer.indices[0] >= 0
        order = answer.indices[0][known].astype(np.int64)
        return RankedRows(order, answer.distances[0][known], refit.around)

    def _ordered(self, query: Query, distances: Floats, around: int = 0) -> RankedRows:
        """distances : (n,) by row."""
        by_position = distances[self._state.position[: self._state.n_gallery]].astype(np.float32)
        order = np.argsort(by_position, kind="stable")
        order = order[order != query.position]
        return RankedRows(order, by_position[order], around)


def _cluster(engine: Engine, query: Query) -> LocalCluster:
    state = engine.state
    nearest = engine.nearest(query.vector, state.neighbors.k - 1, Runner(1))
    with engine.workspace() as space:
        stages = engine.encode(query.vector, nearest, space)
    confident = set(stages.confident.ids.tolist())
    smoothed = weights_of(stages.smoothed.rows)  # on more rows than the cluster for "aqe"
    index_of_row: Ints = np.append(state.order, np.int32(-1))  # the query is behind all rows
    members: dict[int, ClusterMember] = {}
    for row, weight in weights_of(stages.similarity.rows).items():
        index = int(index_of_row[row])
        if index != query.position or row == len(state):  # a row that asks stands for itself
            after = smoothed.get(row, 0.0)
            members[row] = ClusterMember(index, row in confident, weight, after)
    number = {row: at for at, row in enumerate(members)}
    edges = []
    for row in members:
        if row == len(state):
            continue
        of_row = slice(state.w.indptr[row], state.w.indptr[row + 1])
        weights = state.w.values[of_row].tolist()
        for other, weight in zip(state.w.indices[of_row].tolist(), weights, strict=True):
            if other > row and other in number:
                edges.append((number[row], number[other], weight))
    return LocalCluster(list(members.values()), edges)
