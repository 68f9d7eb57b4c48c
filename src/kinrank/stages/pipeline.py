"""The stages of CAS and their order, written once.

    stage          reads                                   makes
    clusters       lists of neighbours                     xi, C: confident neighbours, clusters
    graph          lists, xi                               W, S: affinity, normalised
    diffusion      S (or distances), C                     F: similarity on the clusters
    smoothing      F, xi, lists                            smoothed F
    enhancement    smoothed F, xi, lists                   enhanced F
    propagation    enhanced F                              P and F': transition, encoding

``Pipeline`` says the order and what the parameters choose; a subclass says how a stage is computed:
``AllRows`` here for every row, others in ``kinrank.index`` for the rows that a change reaches and
for queries that are not rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from kinrank import progress
from kinrank.graph import clusters
from kinrank.graph.build import Graph, build_graph
from kinrank.graph.layout import Layout
from kinrank.graph.matrix import transposed
from kinrank.parallel import Runner
from kinrank.stages import dense, diffuse, propagate, smooth
from kinrank.stages.diffuse import Polynomial
from kinrank.stages.distance import Distances
from kinrank.stages.product import product
from kinrank.types import SparseRows

R = TypeVar("R")  # the rows of a stage
G = TypeVar("G")  # the graph


class Pipeline(ABC, Generic[R, G]):
    """The order of the stages; ``method`` has the parameters of ``kinrank.CAS``, resolved."""

    method: Any
    n: int  # how many rows are computed

    def encode(self) -> R:
        """All stages, one after the other; returns F'. ``keep`` is shown what each makes."""
        method, n = self.method, self.n
        with progress.stage("clusters", n):
            xi = self.keep("xi", self.confident())
            members = self.clusters()
        with progress.stage("graph", n):
            graph = self.graph(xi)
        with progress.stage("diffusion", n):
            f = self.keep("f", self.similarity(graph, members))
            del members, graph
        with progress.stage("smoothing", n):
            f = self.keep("smoothed", self.smooth(f, xi))
        with progress.stage("enhancement", n):
            f = self.keep("enhanced", self.enhance(f, xi) if method.enhancement else f)
        with progress.stage("propagation", n):
            return self.propagate(f)

    def keep(self, name: str, rows: R) -> R:
        """What a stage made, for those who want it later."""
        del name
        return rows

    def confident(self) -> R:
        """Xi: the confident neighbours."""
        return self.reciprocal(self.method.k2)

    def clusters(self) -> R:
        """C: the rows that a row may be similar to."""
        method = self.method
        if method.clusters == "knn":
            return self.nearest(full_length(method))
        full = self.reciprocal(full_length(method))
        return full if method.clusters == "reciprocal" else self.expand(full)

    def similarity(self, graph: G, members: R) -> R:
        """F on the clusters, rows of L1 norm 1."""
        if self.method.similarity == "original":
            return self.unit_rows(self.affinity(members))
        return self.unit_rows(self.diffuse(graph, members))

    def smooth(self, f: R, xi: R) -> R:
        """F smoothed by what the neighbours say."""
        method = self.method
        if method.smoothing is None:
            return f
        if method.smoothing == "aqe":
            return self.average(f)
        if method.guide == "similarity":
            return self.smooth_by_similarity(f, xi)
        return self.smooth_by_walk(f, xi)

    @abstractmethod
    def reciprocal(self, k: int) -> R:
        """R(i, k)."""

    @abstractmethod
    def nearest(self, k: int) -> R:
        """N(i, k)."""

    @abstractmethod
    def expand(self, full: R) -> R:
        """R*(i) from R(i, k1)."""

    @abstractmethod
    def graph(self, xi: R) -> G:
        """W and S."""

    @abstractmethod
    def affinity(self, members: R) -> R:
        """The affinity itself in place of F."""

    @abstractmethod
    def diffuse(self, graph: G, members: R) -> R:
        """F by diffusion over S."""

    @abstractmethod
    def unit_rows(self, f: R) -> R:
        """Rows of L1 norm 1."""

    @abstractmethod
    def average(self, f: R) -> R:
        """The mean of the rows of N(i, k2)."""

    @abstractmethod
    def smooth_by_similarity(self, f: R, xi: R) -> R:
        """NSS guided by F itself."""

    @abstractmethod
    def smooth_by_walk(self, f: R, xi: R) -> R:
        """NSS guided by the two-step walk."""

    @abstractmethod
    def enhance(self, f: R, xi: R) -> R:
        """The mean of the rows of N(i, enhance_k) and xi[i]."""

    @abstractmethod
    def propagate(self, f: R) -> R:
        """F' from the enhanced F, by P."""


class AllRows(Pipeline[SparseRows, Graph]):
    """Every row at once.

    distances : of rows in the order in which they are computed
    layout : the old numbers of the rows, by which ties go to the lower
    regularizer : E, a name or a matrix over the same rows
    """

    def __init__(
        self, method: Any, distances: Distances, layout: Layout, run: Runner,
        regularizer: str | SparseRows = "identity",
    ) -> None:  # fmt: skip
        self.method, self.distances, self.layout, self.run = method, distances, layout, run
        self.regularizer = regularizer
        self.neighbors = distances.neighbors
        self.n = len(self.neighbors)

    def reciprocal(self, k: int) -> SparseRows:
        return clusters.reciprocal(self.neighbors.indices, k, self.run)

    def nearest(self, k: int) -> SparseRows:
        return clusters.nearest(self.neighbors.indices, k, self.run)

    def expand(self, full: SparseRows) -> SparseRows:
        half = self.keep("half", self.reciprocal(half_length(self.method)))
        return clusters.expand(full, half, self.run)

    def graph(self, xi: SparseRows) -> Graph:
        method = self.method
        return build_graph(
            self.neighbors, int(method.graph_k or 0), method.sigma, method.kappa, xi,
            symmetric=method.symmetric, run=self.run,
        )  # fmt: skip

    def affinity(self, members: SparseRows) -> SparseRows:
        rows = np.arange(len(members), dtype=np.int32)
        d2 = self.distances.at(rows, members.indptr, members.indices, self.run)
        return members.with_data(np.exp(-d2 / np.float32(self.method.sigma**2)))

    def diffuse(self, graph: Graph, members: SparseRows) -> SparseRows:
        method, run, e, alpha = self.method, self.run, self.regularizer, 1 / (1 + self.method.mu)
        if method.similarity == "bidirectional" and method.solver == "dense":
            return dense.closed_form(graph, members, alpha, e)
        if method.similarity == "bidirectional" and method.solver == "cg":
            return dense.conjugate_gradients(graph, members, alpha, e, method.tol)
        return diffuse.apply(graph, members, polynomial_of(method, e), run)

    def unit_rows(self, f: SparseRows) -> SparseRows:
        return smooth.unit_rows(f, self.run)

    def average(self, f: SparseRows) -> SparseRows:
        return smooth.smooth_by_average(f, self.neighbors.indices, self.method.k2, self.run)

    def smooth_by_similarity(self, f: SparseRows, xi: SparseRows) -> SparseRows:
        return smooth.smooth_by_similarity(f, xi, float(self.method.beta or 0), self.run)

    def smooth_by_walk(self, f: SparseRows, xi: SparseRows) -> SparseRows:
        method = self.method
        sizes = (int(method.walk_k or 1), method.sigma, float(method.beta or 0))
        return smooth.smooth_by_walk(f, xi, self.neighbors, *sizes, self.run)

    def enhance(self, f: SparseRows, xi: SparseRows) -> SparseRows:
        method, lists = self.method, self.neighbors.indices
        return propagate.enhance(f, xi, lists, int(method.enhance_k or 1), method.kappa, self.run)

    def propagate(self, f: SparseRows) -> SparseRows:
        if self.method.propagation == "transpose":
            return self.product(self.product(transposed(f, self.run), f, cut=True), f)
        p = self.keep("transition", self.product(f, f, cut=True))
        return self.product(p, p)

    def product(self, a: SparseRows, b: SparseRows, *, cut: bool = False) -> SparseRows:
        """A B with rows of L1 norm 1; cut : to the ``keep`` largest entries."""
        keep = int(self.method.keep or 0) if cut else 0
        return product("propagation", a, b, self.run, keep, self.layout)


def full_length(method: Any) -> int:
    """The length of the lists that clusters are made from, the row itself counted."""
    return int(method.k1) + (0 if method.self_counts else 1)


def half_length(method: Any) -> int:
    """The length of half lists, the row itself counted."""
    return max(int(method.k1) // 2 + (0 if method.self_counts else 1), 1)


def polynomial_of(method: Any, regularizer: str | SparseRows | None = None) -> Polynomial:
    """The diffusion as a polynomial of S; regularizer : E, if it is not the method's own."""
    alpha, tol = 1 / (1 + method.mu), method.tol
    e = method.regularizer if regularizer is None else regularizer
    if method.similarity == "smoothed":
        return diffuse.tensor_product(alpha, tol)
    if method.solver == "iterate":
        return diffuse.iterated(alpha, e, int(method.steps or 0), str(method.start), tol)
    return diffuse.converged(alpha, e, tol)
