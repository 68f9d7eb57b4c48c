"""Queries that are not rows: their rows of every stage, and those of the rows that they change.

A query is a row in an overlay (``kernels.overlay``): the stages are those of ``stages.encode``, the
kernels are the same, and they read every row through the overlay. Which rows change with a query
and which do not is in docs/online.md as equations, and in ``tests/naive.py`` as the slow twin of
this file.
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
    """Plain distances from queries to stored rows."""

    def squared(self, owners: Longs, rows: Ints) -> Floats:
        """From the queries ``owners`` to ``rows``, both (p,)."""


class Overlay(NamedTuple):
    """Rows of queries: query t has rows groups[t] to groups[t + 1].

    replaced : the stored rows in whose place they stand; n for the query itself
    ptr, ids, values : the rows, as kernels take them; sets have no values
    """

    width: int
    groups: Longs
    replaced: Ints
    ptr: Longs
    ids: Ints
    values: Floats

    @property
    def rows(self) -> SparseRows:
        """The rows as a matrix."""
        return SparseRows(self.ptr, self.ids, self.values, self.width)

    def over(self, stored: SparseRows) -> Rows:
        """Stored rows behind these, as kernels take them."""
        return Rows(
            stored.indptr,
            stored.indices,
            stored.values,
            self.groups,
            self.replaced,
            self.ptr,
            self.ids,
            self.values,
        )


class TiedGraph(NamedTuple):
    """S and W with queries tied in; w, over_w : values of W on the pattern of S and its overlay."""

    s: Rows
    w: Floats
    over_w: Floats


class SmoothedRows(NamedTuple):
    """Smoothed rows of queries; guide, anchor : T and r of NSS, empty without it."""

    rows: Overlay
    guide: Floats
    anchor: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryStages:
    """What the stages make of queries; see ``stages.encode.Stages``.

    farthest : (n_queries,) about the largest squared distance of each to any row
    guide, anchor : T and r of the smoothing
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
    """All stages of queries, each on its own; the query itself is row n.

    nearest : the nearest rows of each query
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

    lists : the lists of all rows, and in the overlay those of the queries and of the rows among
        their nearest that would have them in theirs
    own_groups, own_replaced : an overlay with nothing but the row of each query
    """

    def __init__(
        self, state: State, nearest: Neighbors, distances: QueryDistances, space: Workspace
    ) -> None:
        self.state = state
        self.parameters = state.method.stage_parameters
        self.distances = distances
        self.space = space
        self.n_queries = len(nearest)
        self.width = len(state) + 1
        known = state.neighbors
        groups, replaced, ids, list_distances, list_farthest, farthest = query.list_rows(
            nearest.indices,
            nearest.distances,
            nearest.counts,
            known.indices,
            known.distances,
            known.farthest,
        )
        self.lists = Lists(
            known.indices,
            known.distances,
            known.farthest,
            groups,
            replaced,
            ids,
            list_distances,
            list_farthest,
        )
        self.farthest: Floats = farthest
        self.own_groups, self.own_replaced = _own_rows(self.n_queries, len(state))

    def reciprocal(self, k: int) -> Overlay:
        """R(q, k)."""
        ptr, ids = self._reciprocal_rows(self.own_replaced, self.own_groups, k)
        return self._one_row_each(ptr, ids)

    def local_clusters(self) -> Overlay:
        """C of the queries."""
        parameters = self.parameters
        if parameters.clusters == "knn":
            return self._nearest(parameters.cluster_k)
        full = self.reciprocal(parameters.cluster_k)
        if parameters.clusters == "reciprocal":
            return full
        half_ptr, half_ids = self._reciprocal_rows(full.ids, full.ptr, parameters.half_k)
        # Every half set that is read is in the overlay: the stored ones are not looked at.
        half = Rows(
            half_ptr,
            half_ids,
            _NO_VALUES,
            full.ptr,
            full.ids,
            half_ptr,
            half_ids,
            _NO_VALUES,
        )
        ptr, ids = reciprocal.expanded_rows(
            0, self.n_queries, full.ptr, full.ids, self.own_groups, half, self.space
        )
        return self._one_row_each(ptr, ids)

    def affinity_graph(self, confident: Overlay) -> TiedGraph:
        """S and W with the queries tied in by their edges."""
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
        return TiedGraph(tied, state.affinity.values, w)

    def similarity_on_clusters(self, graph: TiedGraph, clusters: Overlay) -> Overlay:
        """F of the queries, rows of L1 norm 1."""
        if self.parameters.similarity == "original":
            f = self._affinity(clusters)
        else:
            f = self._diffuse(graph, clusters)
        list_kernels.unit_rows(0, self.n_queries, f.ptr, f.values, f.values)
        return f

    def smooth(self, f: Overlay, confident: Overlay) -> SmoothedRows:
        """F smoothed by what the neighbours say."""
        parameters = self.parameters
        if parameters.smoothing is None:
            return SmoothedRows(f, _NO_VALUES, _NO_VALUES)
        if parameters.smoothing == "aqe":
            return SmoothedRows(self._average(f), _NO_VALUES, _NO_VALUES)
        values = np.zeros(len(f.ids), np.float32)
        anchor = np.zeros(self.n_queries, np.float32)
        if parameters.guide == "similarity":
            self._guide_by_similarity(f, confident, values, anchor)
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
                values,
                anchor,
                self.space,
            )
        out = np.empty_like(f.values)
        guide.closed_form(0, self.n_queries, f.ptr, f.values, values, anchor, parameters.beta, out)
        return SmoothedRows(self._one_row_each(f.ptr, f.ids, out), values, anchor)

    def enhance(self, f: Overlay, confident: Overlay, k: int) -> Overlay:
        """Enhanced rows of the queries, and of the rows that average a query's, their partners."""
        stored = self.state.confident
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
        """Enhanced rows, P and F' of the queries and of all rows that they change."""
        state = self.state
        squares = state.transition is not None
        behind = state.transition or state.enhanced
        groups, replaced, enhanced, transition, encoding = propagated_rows(
            f.over(state.enhanced),
            behind.csr,
            self.parameters.enhance_k is not None,
            squares,
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
        """N(q, k)."""
        rows = np.sort(self.lists.over_ids[self.lists.groups[:-1], :k], axis=1)
        filled = rows >= 0
        ptr = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        return self._one_row_each(ptr, rows[filled])

    def _reciprocal_rows(self, rows: Ints, groups: Longs, k: int) -> tuple[Longs, Ints]:
        """R(i, k) of some rows; groups : which of them belong to each query."""
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
        """The affinity itself in place of F."""
        owners = np.repeat(np.arange(self.n_queries), np.diff(clusters.ptr))
        is_stored = clusters.ids < len(self.state)  # all but the query itself, at distance 0
        d2 = np.zeros(len(clusters.ids), np.float32)
        d2[is_stored] = self.distances.squared(owners[is_stored], clusters.ids[is_stored])
        values = affinity(d2, self.farthest[owners], self.parameters.sigma)
        return self._one_row_each(clusters.ptr, clusters.ids, values)

    def _diffuse(self, graph: TiedGraph, clusters: Overlay) -> Overlay:
        """F by diffusion over S with the queries tied in."""
        terms = self.state.diffusion
        values = np.zeros(len(clusters.ids), np.float32)
        if len(terms.powers):
            diffuse.power_rows(
                0,
                self.n_queries,
                self.own_replaced,
                self.own_groups,
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
                self.own_replaced,
                self.own_groups,
                graph.s,
                terms,
                clusters.ptr,
                clusters.ids,
                series_values,
                self.space,
            )
            values += series_values
        return self._one_row_each(clusters.ptr, clusters.ids, values)

    def _average(self, f: Overlay) -> Overlay:
        """The mean of the rows of N(q, k2)."""
        stored = self.state.similarity
        assert stored is not None
        near = self._nearest(self.parameters.confident_k)
        means = self._one_row_each(near.ptr, near.ids, np.ones(len(near.ids), np.float32))
        return self._product(means, f.over(stored))

    def _guide_by_similarity(
        self, f: Overlay, confident: Overlay, values: Floats, anchor: Floats
    ) -> None:
        """T and r from F itself; F_jq of a stored row j is F_qj."""
        stored = self.state.similarity
        assert stored is not None
        mirrored = query.mirrored_rows(f.ptr, f.ids, f.values, *stored.csr)
        guide.guide_by_similarity(
            0,
            self.n_queries,
            f.ptr,
            f.ids,
            self.own_groups,
            Rows(*stored.csr, *mirrored),
            confident.ptr,
            confident.ids,
            values,
            anchor,
            self.space,
        )

    def _one_row_each(self, ptr: Longs, ids: Ints, values: Floats = _NO_VALUES) -> Overlay:
        """An overlay with one row for each query."""
        return Overlay(self.width, self.own_groups, self.own_replaced, ptr, ids, values)

    def _product(self, a: Overlay, b: Rows) -> Overlay:
        """A B with rows of L1 norm 1."""
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
def _own_rows(n_queries: int, n: int) -> tuple[Longs, Ints]:
    """Groups and replaced rows of queries that have their own row alone, over ``n`` stored rows."""
    return np.arange(n_queries + 1, dtype=np.int64), np.full(n_queries, n, np.int32)
