"""From neighbours to everything an index knows: the stages of the method, kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kinrank import progress
from kinrank.graph import clusters
from kinrank.graph.build import affinity
from kinrank.graph.layout import Layout
from kinrank.graph.matrix import transposed
from kinrank.index.columns import Columns
from kinrank.index.frame import Frame
from kinrank.index.ids import Ids
from kinrank.index.settings import half_length, needs_f
from kinrank.index.state import State
from kinrank.methods.cas import CAS
from kinrank.parallel import Runner
from kinrank.stages import smooth
from kinrank.stages.distance import Distances, ListDistances, VectorDistances
from kinrank.stages.product import product
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
    method, n, lists = given.method, len(neighbors), neighbors.indices
    distances = distances_of(neighbors, vectors)
    with progress.stage("clusters", n):
        xi = clusters.reciprocal(lists, method.k2, run)
        half = clusters.reciprocal(lists, half_length(method), run)
        pattern = method._clusters(distances, run)
    with progress.stage("graph", n):
        graph = method._graph(distances, xi, run)
    with progress.stage("diffusion", n):
        f = smooth.unit_rows(
            method._diffuse(distances, graph, pattern, str(method.regularizer), run)
        )
    with progress.stage("smoothing", n):
        hat = method._smooth(f, xi, distances, run)
    with progress.stage("enhancement", n):
        tilde = method._enhance(hat, xi, distances, run)
    with progress.stage("propagation", n):
        p, prime = propagate(method, tilde, layout, run)
        last = Columns.of(prime, run)
    return State(
        given.asked, method, given.frame, given.ids, layout.names, vectors, neighbors, xi, half,
        graph.w, degrees(graph.w), walk_norms(neighbors, method), f if needs_f(method) else None,
        hat, tilde, p, last.columns, last.entropies, last.norms,
        given.centres, given.cell, given.recall,
    )  # fmt: skip


def distances_of(neighbors: Neighbors, vectors: Floats) -> Distances:
    """The source of distances that the stages take."""
    if len(vectors):
        return VectorDistances.of(neighbors, neighbors, vectors)
    return ListDistances(neighbors)


def propagate(
    method: CAS, tilde: SparseRows, layout: Layout, run: Runner
) -> tuple[SparseRows | None, SparseRows]:
    """P, where answers need it, and F'."""
    keep = int(method.keep or 0)
    if method.propagation == "transpose":
        p = product("propagation", transposed(tilde, run), tilde, run, keep, layout)
        return None, product("propagation", p, tilde, run)
    p = product("propagation", tilde, tilde, run, keep, layout)
    return p, product("propagation", p, p, run)


def degrees(w: SparseRows) -> Floats:
    """Row sums of the graph."""
    owner = np.repeat(np.arange(len(w)), w.lengths)
    return np.bincount(owner, weights=w.values, minlength=len(w)).astype(np.float32)


def walk_norms(neighbors: Neighbors, method: CAS) -> Floats:
    """Sums of the affinities to the rows of the walk."""
    weights = affinity(neighbors, 1, int(method.walk_k or 1), method.sigma)
    norms: Floats = weights.sum(axis=1, dtype=np.float64).astype(np.float32)
    return norms
