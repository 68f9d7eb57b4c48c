"""Queries that are not rows: their rows of every stage, and those of the rows that they change.

A query is computed as if it were one more row, with the number n behind the rows 0 to n - 1. A few
stored rows would be others if it were there, such as those that would have it in their neighbour
lists. The query's row and these rows lie in an *overlay*: a kernel reads every row through it, the
overlay first and the stored rows behind (``kernels.overlay``). So all kernels of the stages serve
queries too, and stored rows are never written to.

Which rows change with a query and which do not is in docs/online.md as equations, and in
``tests/naive.py`` as the slow twin of this file. Many queries are computed in one call, each with
rows of its own in the overlay; no query sees another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from kinrank.index.state import State
from kinrank.kernels import diffuse, guide, query, reciprocal
from kinrank.kernels import lists as list_kernels
from kinrank.kernels.overlay import Workspace
from kinrank.kernels.product import product_rows
from kinrank.kernels.query_products import partner_rows, propagated_rows
from kinrank.kernels.records import Lists, Rows
from kinrank.stages.graph import affinity
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows

_NO_VALUES = np.empty(0, np.float32)


class QueryDistances(Protocol):
    """Where the plain distances from queries to stored rows come from."""

    def squared(self, query_positions: Longs, rows: Ints) -> Floats:
        """Squared distances of p pairs, (p,) float32.

        query_positions, rows : (p,) which of the queries, and which row of the index, each pair has
        """


class Overlay(NamedTuple):
    """Sparse rows of one stage that stand in for stored ones while queries are computed.

    width : the number of columns, n + 1: the last is that of the query
    groups : (n_queries + 1,) query t has the overlay's rows groups[t] to groups[t + 1]; the first
        of these is its own row
    replaced : for each row of the overlay the stored row in whose place it stands; n for the row of
        the query itself
    ptr, ids, values : the rows as CSR arrays; ``values`` is empty where rows are mere sets
    """

    width: int
    groups: Longs
    replaced: Ints
    ptr: Longs
    ids: Ints
    values: Floats

    @property
    def rows(self) -> SparseRows:
        """The rows of the overlay as a sparse matrix."""
        return SparseRows(self.ptr, self.ids, self.values, self.width)

    def over(self, stored: SparseRows) -> Rows:
        """The rows of a stage as kernels read them: the overlay before the stored rows."""
        return Rows(
            ptr=stored.indptr,
            ids=stored.indices,
            values=stored.values,
            groups=self.groups,
            replaced=self.replaced,
            over_ptr=self.ptr,
            over_ids=self.ids,
            over_values=self.values,
        )


class QueryGraph(NamedTuple):
    """The affinity graph with each query tied in by its edges.

    s : the normalised graph S, with an overlay of the rows that a query changes
    w, over_w : the values of the affinity W at the entries of S, stored and in the overlay
    """

    s: Rows
    w: Floats
    over_w: Floats


class SmoothedRows(NamedTuple):
    """Smoothed F of queries, and what the neighbours say by which NSS smooths it.

    guide : T at each entry of F; anchor : (n_queries,) r; both empty without NSS
    """

    rows: Overlay
    guide: Floats
    anchor: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryStages:
    """What the stages make of queries, each an overlay; see ``stages.encode.Stages``.

    farthest : (n_queries,) float32, the largest squared distance of each query to any row,
        estimated as the mean of that over its nearest rows
    confident : xi of the queries; similarity, smoothed : F on their clusters, and smoothed
    guide, anchor : T at each entry of F and r of each query, by which NSS smooths; empty without
    enhanced, transition, encoding : enhanced F, P, F' of the queries and of rows that they change
    """

    farthest: Floats
    confident: Overlay
    similarity: Overlay
    smoothed: Overlay
    guide: Floats
    anchor: Floats
    enhanced: Overlay
    transition: Overlay
    encoding: Overlay


def encode_queries(
    state: State, nearest: Neighbors, distances: QueryDistances, space: Workspace
) -> QueryStages:
    """Compute all stages of some queries, each on its own.

    nearest : the nearest rows of each query, (n_queries, at least K - 1), with squared distances
    distances : where other distances of the queries come from
    space : a workspace for the rows of the state, which nobody else uses meanwhile
    """
    stages = _QueryKernels(state, nearest, distances, space)
    parameters = stages.parameters
    confident = stages.reciprocal(parameters.confident_k)
    clusters = stages.local_clusters()
    graph = stages.affinity_graph(confident)
    similarity = stages.similarity_on_clusters(graph, clusters)
    smoothed = stages.smooth(similarity, confident)
    enhanced = smoothed.rows
    if parameters.enhance_k is not None:
        enhanced = stages.enhance(smoothed.rows, confident, parameters.enhance_k)
    enhanced, transition, encoding = stages.propagate(enhanced)
    return QueryStages(
        farthest=stages.farthest,
        confident=confident,
        similarity=similarity,
        smoothed=smoothed.rows,
        guide=smoothed.guide,
        anchor=smoothed.anchor,
        enhanced=enhanced,
        transition=transition,
        encoding=encoding,
    )


class _QueryKernels:
    """The kernels of the stages, called for queries over the rows of a state.

    n_queries, width : how many queries; the number of columns of their rows, n + 1
    lists : the neighbour lists of all rows, and in the overlay those of the queries and of the rows
        among their nearest that would have them in theirs
    farthest : (n_queries,) the largest squared distance of each query to any row,
        estimated as the mean of that over its nearest rows
    query_groups, query_rows : ``groups`` and ``replaced`` of an overlay that has nothing but the
        row of each query: [0, 1, 2, ...] and [n, n, ...]
    """

    def __init__(
        self, state: State, nearest: Neighbors, distances: QueryDistances, space: Workspace
    ) -> None:
        """Put the queries into the neighbour lists; parameters are those of ``encode_queries``.

        Lists may end in -1; ``nearest.counts`` says how many entries each has.
        """
        self.state = state
        self.parameters = state.method.stage_parameters
        self.distances = distances
        self.space = space
        self.n_queries = len(nearest)
        self.width = len(state) + 1
        stored = state.neighbors
        groups, replaced, ids, list_distances, list_farthest, farthest = query.list_rows(
            nearest.indices,
            nearest.distances,
            nearest.counts,
            stored.indices,
            stored.distances,
            stored.farthest,
        )
        self.lists = Lists(
            ids=stored.indices,
            squared=stored.distances,
            farthest=stored.farthest,
            groups=groups,
            replaced=replaced,
            over_ids=ids,
            over_squared=list_distances,
            over_farthest=list_farthest,
        )
        self.farthest: Floats = farthest
        self.query_groups, self.query_rows = _one_row_per_query(self.n_queries, len(state))

    def reciprocal(self, k: int) -> Overlay:
        """R(q, k), the reciprocal neighbours of the queries, as sets; ``k`` counts q itself."""
        ptr, ids = self._reciprocal_rows(self.query_rows, self.query_groups, k)
        return self._overlay_of_queries(ptr, ids)

    def local_clusters(self) -> Overlay:
        """C, the clusters of the queries, as sets, in the way of ``parameters.clusters``.

        "knn": N(q, k). "reciprocal": R(q, k1). Else R*: R(q, k1) with each R(c, k1 / 2) of a member
        c of which more than two thirds lie in it.
        """
        parameters = self.parameters
        if parameters.clusters == "knn":
            return self._nearest(parameters.cluster_k)
        full = self.reciprocal(parameters.cluster_k)
        if parameters.clusters == "reciprocal":
            return full
        # R(c, k1 / 2) of every member c of R(q, k1), with the query in the lists.
        half_ptr, half_ids = self._reciprocal_rows(full.ids, full.ptr, parameters.half_k)
        # Every row that is read is in the overlay. Stored rows must be given, but are not read: the
        # same arrays stand for them.
        half = Rows(
            ptr=half_ptr,
            ids=half_ids,
            values=_NO_VALUES,
            groups=full.ptr,
            replaced=full.ids,
            over_ptr=half_ptr,
            over_ids=half_ids,
            over_values=_NO_VALUES,
        )
        ptr, ids = reciprocal.expanded_rows(
            0, self.n_queries, full.ptr, full.ids, self.query_groups, half, self.space
        )
        return self._overlay_of_queries(ptr, ids)

    def affinity_graph(self, confident: Overlay) -> QueryGraph:
        """The affinity graph with the queries tied in; confident : xi of the queries."""
        state = self.state
        parameters = self.parameters
        groups, replaced, ptr, ids, s, w = query.graph_rows(
            self.lists,
            confident.ptr,
            confident.ids,
            parameters.graph_k + 1,
            parameters.sigma**2,
            float(parameters.kappa),
            *state.affinity.csr,
            state.degree,
            self.space,
        )
        tied = Rows(*state.normalized.csr, groups, replaced, ptr, ids, s)
        return QueryGraph(tied, state.affinity.values, w)

    def similarity_on_clusters(self, graph: QueryGraph, clusters: Overlay) -> Overlay:
        """F of the queries on their clusters, rows of L1 norm 1."""
        if self.parameters.similarity == "original":
            f = self._affinity(clusters)
        else:
            f = self._diffuse(graph, clusters)
        list_kernels.unit_rows(0, self.n_queries, f.ptr, f.values, f.values)
        return f

    def smooth(self, f: Overlay, confident: Overlay) -> SmoothedRows:
        """F of the queries smoothed; confident : xi of the queries."""
        parameters = self.parameters
        if parameters.smoothing is None:
            return SmoothedRows(f, _NO_VALUES, _NO_VALUES)
        if parameters.smoothing == "aqe":
            return SmoothedRows(self._average(f), _NO_VALUES, _NO_VALUES)
        guide_values = np.zeros(len(f.ids), np.float32)
        anchor = np.zeros(self.n_queries, np.float32)
        if parameters.guide == "similarity":
            self._guide_by_similarity(f, confident, guide_values, anchor)
        else:
            guide.query_guides(
                f.ptr,
                f.ids,
                confident.ptr,
                confident.ids,
                self.lists,
                min(parameters.walk_k, self.lists.ids.shape[1]),
                parameters.sigma**2,
                self.state.walk_norm,
                guide_values,
                anchor,
                self.space,
            )
        smoothed = np.empty_like(f.values)
        guide.closed_form(
            0, self.n_queries, f.ptr, f.values, guide_values, anchor, parameters.beta, smoothed
        )
        rows = self._overlay_of_queries(f.ptr, f.ids, smoothed)
        return SmoothedRows(rows, guide_values, anchor)

    def enhance(self, f: Overlay, confident: Overlay, k: int) -> Overlay:
        """Enhanced F of the queries, and of their partners: the rows whose mean has a query's row.

        f : smoothed F of the queries; confident : their xi
        k : each row averages the first ``k`` of its list, beside its xi
        """
        stored = self.state.confident
        # An overlay of weights: with which each of these rows averages which rows of smoothed F.
        groups, replaced, ptr, ids, weights = partner_rows(
            self.lists,
            k,
            float(self.parameters.kappa),
            confident.ptr,
            confident.ids,
            stored.indptr,
            stored.indices,
        )
        means = Overlay(self.width, groups, replaced, ptr, ids, weights)
        return self._product(means, f.over(self.state.smoothed))

    def propagate(self, f: Overlay) -> tuple[Overlay, Overlay, Overlay]:
        """Enhanced F, P and F' of the queries and of all rows that they change.

        f : enhanced F of the queries and their partners. Rows to which P leads a query are added.
        """
        state = self.state
        is_squared = state.transition is not None  # F' = P P, else P F
        stored_right = state.transition or state.enhanced
        groups, replaced, enhanced, transition, encoding = propagated_rows(
            f.over(state.enhanced),
            stored_right.csr,
            self.parameters.enhance_k is not None,
            is_squared,
            min(self.parameters.keep, self.width),
            state.order,
            state.position,
            self.space,
        )
        return (
            Overlay(self.width, groups, replaced, *enhanced),
            Overlay(self.width, groups, replaced, *transition),
            Overlay(self.width, groups, replaced, *encoding),
        )

    def _nearest(self, k: int) -> Overlay:
        """N(q, k), the nearest rows of the queries, each itself among them, as sets."""
        rows = np.sort(self.lists.over_ids[self.lists.groups[:-1], :k], axis=1)
        is_filled = rows >= 0
        ptr = np.concatenate([[0], np.cumsum(is_filled.sum(axis=1))])
        return self._overlay_of_queries(ptr, rows[is_filled])

    def _reciprocal_rows(self, rows: Ints, groups: Longs, k: int) -> tuple[Longs, Ints]:
        """R(i, k) of rows i with a query in the lists, as CSR arrays: pointers and columns.

        rows : of all queries together, the queries' own number n allowed; query t has
            rows[groups[t]] to rows[groups[t + 1]]
        """
        lists = self.lists
        ptr, ids = reciprocal.reciprocal_rows(
            0,
            len(rows),
            rows,
            groups,
            lists.ids,
            lists.groups,
            lists.replaced,
            lists.over_ids,
            min(k, lists.ids.shape[1]),
            self.space,
        )
        return ptr, ids

    def _affinity(self, clusters: Overlay) -> Overlay:
        """The affinity itself in place of F, on the clusters."""
        owners = np.repeat(np.arange(self.n_queries), np.diff(clusters.ptr))  # query of each entry
        is_stored = clusters.ids < len(self.state)  # all but the query itself, at distance 0
        squared = np.zeros(len(clusters.ids), np.float32)
        squared[is_stored] = self.distances.squared(owners[is_stored], clusters.ids[is_stored])
        values = affinity(squared, self.farthest[owners], self.parameters.sigma)
        return self._overlay_of_queries(clusters.ptr, clusters.ids, values)

    def _diffuse(self, graph: QueryGraph, clusters: Overlay) -> Overlay:
        """F on the clusters, by diffusion over S: powers of S, a Chebyshev series, or both."""
        terms = self.state.diffusion
        values = np.zeros(len(clusters.ids), np.float32)
        if len(terms.powers):
            diffuse.power_rows(
                0,
                self.n_queries,
                self.query_rows,
                self.query_groups,
                graph.s,
                graph.w,
                graph.over_w,
                terms,
                clusters.ptr,
                clusters.ids,
                values,
                self.space,
            )
        if len(terms.series):
            series_values = np.empty_like(values)
            diffuse.chebyshev_rows(
                0,
                self.n_queries,
                self.query_rows,
                self.query_groups,
                graph.s,
                terms,
                clusters.ptr,
                clusters.ids,
                series_values,
                self.space,
            )
            values += series_values
        return self._overlay_of_queries(clusters.ptr, clusters.ids, values)

    def _average(self, f: Overlay) -> Overlay:
        """Smoothing "aqe": the mean of F over the rows of N(q, k2)."""
        stored = self.state.similarity
        assert stored is not None
        nearest = self._nearest(self.parameters.confident_k)
        ones = np.ones(len(nearest.ids), np.float32)
        means = self._overlay_of_queries(nearest.ptr, nearest.ids, ones)
        return self._product(means, f.over(stored))

    def _guide_by_similarity(
        self, f: Overlay, confident: Overlay, guide_values: Floats, anchor: Floats
    ) -> None:
        """Fill in T and r of NSS from F itself; F_jq of a stored row j is taken to be F_qj.

        guide_values : T, one for each entry of ``f``; anchor : (n_queries,) r
        """
        stored = self.state.similarity
        assert stored is not None
        mirrored = query.mirrored_rows(f.ptr, f.ids, f.values, *stored.csr)
        guide.guide_by_similarity(
            0,
            self.n_queries,
            f.ptr,
            f.ids,
            self.query_groups,
            Rows(*stored.csr, *mirrored),
            confident.ptr,
            confident.ids,
            guide_values,
            anchor,
            self.space,
        )

    def _overlay_of_queries(self, ptr: Longs, ids: Ints, values: Floats = _NO_VALUES) -> Overlay:
        """An overlay with nothing but one row for each query, given as CSR arrays."""
        return Overlay(self.width, self.query_groups, self.query_rows, ptr, ids, values)

    def _product(self, a: Overlay, b: Rows) -> Overlay:
        """The product of an overlay's rows with all rows of a stage, rows of L1 norm 1.

        a : (rows, n + 1); b : the n rows and each query's, read through the overlay
        """
        ptr, ids, values = product_rows(
            0,
            len(a.replaced),
            a.ptr,
            a.ids,
            a.values,
            a.groups,
            b,
            0,
            self.state.order,
            self.state.position,
            self.space,
        )
        return Overlay(self.width, a.groups, a.replaced, ptr, ids, values)


@lru_cache(maxsize=128)
def _one_row_per_query(n_queries: int, n: int) -> tuple[Longs, Ints]:
    """``groups`` and ``replaced`` of an overlay with one row for each query, over ``n`` rows."""
    return np.arange(n_queries + 1, dtype=np.int64), np.full(n_queries, n, np.int32)
