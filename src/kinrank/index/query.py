"""Queries that are not rows: their rows of every stage, and those of the rows that they change.

Which rows change with a query and which do not is in docs/online.md as equations, and in
``tests/naive.py`` as the slow twin of this file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kinrank.index.search import Nearest
from kinrank.index.state import State
from kinrank.kernels import diffuse, guide, lists, query, reciprocal
from kinrank.kernels.overlay import Lists, Workspace
from kinrank.kernels.product import product_rows
from kinrank.kernels.query_products import partner_rows, propagated_rows
from kinrank.stages.pipeline import Pipeline, half_length
from kinrank.types import Floats, Ints, Longs, SparseRows

KernelRows: TypeAlias = tuple[Any, ...]  # of ``kernels.overlay.Rows``
_NONE = np.empty(0, np.float32)


class Overlay(NamedTuple):
    """Rows of queries: query t has rows groups[t] to groups[t + 1]; names : in whose place.

    ptr, ids, values : the rows, as kernels take them; sets have no values
    """

    width: int
    groups: Longs
    names: Ints
    ptr: Longs
    ids: Ints
    values: Floats

    @property
    def rows(self) -> SparseRows:
        """The rows as a matrix."""
        return SparseRows(self.ptr, self.ids, self.values, self.width)

    def over(self, stored: SparseRows) -> KernelRows:
        """Stored rows behind these, as kernels take them."""
        return (*stored.csr, *self[1:])


class TiedGraph(NamedTuple):
    """S and W with queries tied in, S as kernels take it; starts : the values of W beside it."""

    s: KernelRows
    starts: tuple[Floats, Floats]


class QueryRows(Pipeline[Overlay, TiedGraph]):
    """The stages of queries, each on its own; the query itself is row n.

    near : the nearest rows of each
    squared : squared distances from queries, by number, to rows, both (p,)
    """

    def __init__(self, state: State, near: Nearest, squared: Any, space: Workspace) -> None:
        self.state, self.method, self.space = state, state.method, space
        self.n, self.width, self.squared = len(near.counts), len(state) + 1, squared
        known = state.neighbors
        stored = (known.indices, known.distances, known.farthest)
        made = query.list_rows(near.indices, near.distances, near.counts, *stored)
        self.lists = Lists(*stored, *made[:-1])
        self.farthest: Floats = made[-1]
        self.each, self.own = _alone(self.n, len(state))
        self.kept: dict[str, Overlay] = {}
        self.guide = self.anchor = _NONE

    def keep(self, name: str, rows: Overlay) -> Overlay:
        self.kept[name] = rows
        return rows

    def reciprocal(self, k: int) -> Overlay:
        return self._rows(*self._reciprocal(self.own, self.each, k))

    def nearest(self, k: int) -> Overlay:
        rows = np.sort(self.lists.over_ids[self.lists.groups[:-1], :k], axis=1)
        known = rows >= 0
        return self._rows(np.concatenate([[0], np.cumsum(known.sum(axis=1))]), rows[known])

    def expand(self, full: Overlay) -> Overlay:
        half = self._reciprocal(full.ids, full.ptr, half_length(self.method))
        # Every half set that is asked for is in the overlay: what is stored is not read.
        rows = (*half, _NONE, full.ptr, full.ids, *half, _NONE)
        own = (full.ptr, full.ids, self.each, rows)
        return self._rows(*reciprocal.expanded_rows(0, self.n, *own, self.space))

    def graph(self, xi: Overlay) -> TiedGraph:
        method, state = self.method, self.state
        sizes = (int(method.graph_k or 1) + 1, self._sigma2, float(method.kappa))
        known = (tuple(self.lists), xi.ptr, xi.ids, *sizes)
        *own, w = query.graph_rows(*known, *state.w.csr, state.degree, self.space)
        return TiedGraph((*state.s.csr, *own), (state.w.values, w))

    def affinity(self, members: Overlay) -> Overlay:
        ids, owners = members.ids, np.repeat(np.arange(self.n), np.diff(members.ptr))
        known = ids < len(self.state)
        d2 = np.zeros(len(ids), np.float32)
        d2[known] = self.squared(owners[known], ids[known])
        far = self.farthest[owners]
        d2 = np.minimum(d2 / np.where(far > 0, far, 1), 1)
        data = np.exp(-d2 / np.float32(self.method.sigma**2)).astype(np.float32)
        return self._rows(members.ptr, members.ids, data)

    def diffuse(self, graph: TiedGraph, members: Overlay) -> Overlay:
        walk, values = tuple(self.state.walk), np.zeros(len(members.ids), np.float32)
        own, places = (self.own, self.each, graph.s), (members.ptr, members.ids)
        if len(self.state.walk.powers):
            out = (*places, values, self.space)
            diffuse.walk_rows(0, self.n, *own, graph.starts, walk, *out)
        if len(self.state.walk.series):
            more = np.empty_like(values)
            diffuse.polynomial_rows(0, self.n, *own, walk, *places, more, self.space)
            values += more
        return self._rows(members.ptr, members.ids, values)

    def unit_rows(self, f: Overlay) -> Overlay:
        lists.unit_rows(0, self.n, f.ptr, f.values, f.values)
        return f

    def average(self, f: Overlay) -> Overlay:
        near, stored = self.nearest(self.method.k2), self.state.f
        assert stored is not None
        means = self._rows(near.ptr, near.ids, np.ones(len(near.ids), np.float32))
        return self._product(means, f.over(stored))

    def smooth_by_similarity(self, f: Overlay, xi: Overlay) -> Overlay:
        stored = self.state.f
        assert stored is not None
        mirrored = (*stored.csr, *query.mirrored_rows(*f[3:], *stored.csr))
        own = (f.ptr, f.ids, self.each, mirrored, xi.ptr, xi.ids)
        guide.guide_by_similarity(0, self.n, *own, *self._new_guide(f), self.space)
        return self._smoothed(f)

    def smooth_by_walk(self, f: Overlay, xi: Overlay) -> Overlay:
        walk_k = min(int(self.method.walk_k or 1), self.lists.ids.shape[1])
        own = (f.ptr, f.ids, xi.ptr, xi.ids, tuple(self.lists), walk_k)
        known = (self._sigma2, self.state.walk_norm)
        guide.query_guides(*own, *known, *self._new_guide(f), self.space)
        return self._smoothed(f)

    def enhance(self, f: Overlay, xi: Overlay) -> Overlay:
        sizes = (int(self.method.enhance_k or 1), float(self.method.kappa))
        known = self.state.xi
        sets = (xi.ptr, xi.ids, known.indptr, known.indices)
        made = Overlay(self.width, *partner_rows(tuple(self.lists), *sizes, *sets))
        return self._product(made, f.over(self.state.smoothed))

    def propagate(self, f: Overlay) -> Overlay:
        state, squares = self.state, self.state.transition is not None
        behind = state.transition or state.enhanced
        keep = min(int(self.method.keep or 0), self.width)
        rows = (state.enhanced.csr, behind.csr, self.method.enhancement, squares, keep)
        groups, names, *parts = propagated_rows(f[1:], *rows, *self._layout, self.space)
        for name, part in zip(("enhanced", "transition", "encoding"), parts, strict=True):
            self.keep(name, Overlay(self.width, groups, names, *part))
        return self.kept["encoding"]

    @property
    def _sigma2(self) -> float:
        return float(self.method.sigma) ** 2

    @property
    def _layout(self) -> tuple[Ints, Ints]:
        return self.state.names, self.state.places

    def _rows(self, ptr: Longs, ids: Ints, values: Floats = _NONE) -> Overlay:
        """One row for each query."""
        return Overlay(self.width, self.each, self.own, ptr, ids, values)

    def _reciprocal(self, rows: Ints, groups: Longs, k: int) -> tuple[Longs, Ints]:
        near = self.lists
        known = (near.ids, near.groups, near.names, near.over_ids, min(k, near.ids.shape[1]))
        made = reciprocal.reciprocal_rows(0, len(rows), rows, groups, *known, self.space)
        sets: tuple[Longs, Ints] = made
        return sets

    def _product(self, a: Overlay, b: KernelRows) -> Overlay:
        own = (*a[3:], a.groups, b, 0, *self._layout, self.space)
        return Overlay(self.width, *a[1:3], *product_rows(0, len(a.names), *own))

    def _new_guide(self, f: Overlay) -> tuple[Floats, Floats]:
        """T and r, to be filled in."""
        self.guide, self.anchor = np.zeros(len(f.ids), np.float32), np.zeros(self.n, np.float32)
        return self.guide, self.anchor

    def _smoothed(self, f: Overlay) -> Overlay:
        out, beta = np.empty_like(f.values), float(self.method.beta or 0)
        guide.closed_form(0, self.n, f.ptr, f.values, self.guide, self.anchor, beta, out)
        return self._rows(f.ptr, f.ids, out)


@lru_cache(maxsize=128)
def _alone(n_queries: int, n: int) -> tuple[Longs, Ints]:
    """Groups and names where each of some queries has its own row alone, over ``n`` rows."""
    return np.arange(n_queries + 1, dtype=np.int64), np.full(n_queries, n, np.int32)
