"""From neighbours to everything an index knows: the stages of the method, kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kinrank import progress
from kinrank.graph.build import Graph, affinity
from kinrank.graph.layout import Layout
from kinrank.index.columns import Columns
from kinrank.index.frame import Frame
from kinrank.index.ids import Ids
from kinrank.index.settings import needs_f
from kinrank.index.state import State
from kinrank.methods.cas import CAS
from kinrank.parallel import Runner
from kinrank.stages.distance import Distances, ListDistances, VectorDistances
from kinrank.stages.pipeline import AllRows
from kinrank.types import Floats, Ints, Neighbors, SparseRows


@dataclass(frozen=True, eq=False)
class Given:
    """What an index is made from.

    asked, method : as given, and with sizes that fit the rows; neighbors : of [gallery; context]
    vectors : of the same rows, or (0, d) when they are in a store
    centres, cell, recall : of an approximate search
    """

    asked: CAS
    method: CAS
    frame: Frame
    ids: Ids
    neighbors: Neighbors
    vectors: Floats
    centres: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    cell: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    recall: float = 1.0


def build(given: Given, run: Runner) -> State:
    """All stages, over rows that are put side by side with their neighbours."""
    n = len(given.neighbors)
    with progress.stage("layout", n):
        known = given.neighbors
        layout = Layout.near(known.indices, min(given.method.k1 + 1, known.k), 0)
        neighbors = layout.neighbors(known)
        vectors = given.vectors[layout.names] if len(given.vectors) else given.vectors
        cell = given.cell[layout.names] if len(given.cell) else given.cell
    return stages(replace(given, cell=cell), layout, neighbors, vectors, run)


def stages(
    given: Given, layout: Layout, neighbors: Neighbors, vectors: Floats, run: Runner
) -> State:
    """All stages over rows in the order in which they are kept."""
    return KeptRows(given, layout, neighbors, vectors, run).state()


class KeptRows(AllRows):
    """The stages over rows in the order in which they are kept, and all that they make."""

    def __init__(
        self, given: Given, layout: Layout, neighbors: Neighbors, vectors: Floats, run: Runner
    ) -> None:
        source = distances_of(neighbors, vectors)
        super().__init__(given.method, source, layout, run, str(given.method.regularizer))
        self.given, self.vectors = given, vectors
        self.kept: dict[str, SparseRows] = {}

    def keep(self, name: str, rows: SparseRows) -> SparseRows:
        if name != "f" or needs_f(self.method):
            self.kept[name] = rows
        return rows

    def graph(self, xi: SparseRows) -> Graph:
        graph = super().graph(xi)
        self.kept["w"] = graph.w
        return graph

    def state(self) -> State:
        """Everything an index knows."""
        return self.with_columns(Columns.of(self.encode(), self.run))

    def with_columns(self, last: Columns) -> State:
        """Everything an index knows, F' by columns."""
        given, kept, n = self.given, self.kept, self.n
        unused = SparseRows(np.zeros(n + 1, np.int64), np.empty(0, np.int32), None, n)
        return State(
            given.asked, self.method, given.frame, given.ids, self.layout.names, self.vectors,
            self.neighbors, kept["xi"], kept.get("half", unused), kept["w"], degrees(kept["w"]),
            walk_norms(self.neighbors, self.method), kept.get("f"), kept["smoothed"],
            kept["enhanced"], kept.get("transition"), last.columns, last.entropies, last.norms,
            given.centres, given.cell, given.recall,
        )  # fmt: skip


def distances_of(neighbors: Neighbors, vectors: Floats) -> Distances:
    """The source of distances that the stages take."""
    if len(vectors):
        return VectorDistances.of(neighbors, neighbors, vectors)
    return ListDistances(neighbors)


def degrees(w: SparseRows) -> Floats:
    """Row sums of the graph."""
    owner = np.repeat(np.arange(len(w)), w.lengths)
    return np.bincount(owner, weights=w.values, minlength=len(w)).astype(np.float32)


def walk_norms(neighbors: Neighbors, method: CAS) -> Floats:
    """Sums of the affinities to the rows of the walk."""
    weights = affinity(neighbors, 1, int(method.walk_k or 1), method.sigma)
    norms: Floats = weights.sum(axis=1, dtype=np.float64).astype(np.float32)
    return norms
