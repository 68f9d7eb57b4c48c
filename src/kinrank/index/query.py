"""Queries that are not rows: their rows of every stage, and those of the rows that they change.

Which rows change with a query and which do not is in docs/online.md as equations, and in
``tests/naive.py`` as the slow twin of this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from kinrank.index.state import State
from kinrank.kernels import diffuse, guide, lists, query, reciprocal
from kinrank.kernels.overlay import Lists, Workspace
from kinrank.kernels.product import product_rows
from kinrank.stages.pipeline import Pipeline, half_length
from kinrank.types import Floats, Ints, Longs, SparseRows

KernelRows: TypeAlias = tuple[Any, ...]  # of ``kernels.overlay.Rows``


@dataclass(frozen=True, eq=False)
class Overlay:
    """Rows of queries: query t has rows groups[t] to groups[t + 1]; names : in whose place."""

    groups: Longs
    names: Ints
    rows: SparseRows

    def over(self, stored: SparseRows) -> KernelRows:
        """Stored rows behind these, as kernels take them."""
        return (*stored.csr, self.groups, self.names, *self.rows.csr)

    def first(self) -> SparseRows:
        """The queries' own rows."""
        rows = self.rows
        if len(rows) == len(self.groups) - 1:
            return rows
        first = self.groups[:-1].astype(np.int32)  # or `gather_rows` has a second type
        if len(first) == 1:
            end = rows.indptr[1]
            return SparseRows(
                rows.indptr[:2], rows.indices[:end], rows.values[:end], rows.n_columns
            )
        ptr, ids, data = query.gather_rows(first, self.names[first], *rows.csr, *rows.csr)
        return SparseRows(ptr, ids, data, rows.n_columns)


@dataclass(frozen=True, eq=False)
class TiedGraph:
    """S and W with queries tied in, S as kernels take it; starts : the values of W beside it."""

    s: KernelRows
    starts: tuple[Floats, Floats]


class QueryRows(Pipeline[Overlay, TiedGraph]):
    """The stages of queries, each on its own; the query itself is row n.

    near, near_d, counts : (m, L) nearest rows, squared distances, and how many these are
    farthest : (m,) about the largest squared distance of each query
    squared : squared distances from queries, by number, to rows, both (p,)
    """

    def __init__(
        self, state: State, near: Ints, near_d: Floats, counts: Longs, farthest: Floats,
        squared: Any, space: Workspace,
    ) -> None:  # fmt: skip
        self.state, self.method, self.space = state, state.method, space
        self.n, self.farthest, self.squared = len(counts), farthest, squared
        known = state.neighbors
        stored = (known.indices, known.distances, known.farthest)
        own = query.list_rows(near, near_d, counts, farthest, *stored)
        self.lists = Lists(*stored, *own)
        self.each = np.arange(self.n + 1, dtype=np.int64)
        self.own = np.full(self.n, len(state), np.int32)
        self.kept: dict[str, Overlay] = {}
        self.guide = self.anchor = np.empty(0, np.float32)

    def keep(self, name: str, rows: Overlay) -> Overlay:
        self.kept[name] = rows
        return rows

    def reciprocal(self, k: int) -> Overlay:
        return self._alone(self._reciprocal(self.own, self.each, k))

    def nearest(self, k: int) -> Overlay:
        rows = np.sort(self.lists.over_ids[self.lists.groups[:-1], :k], axis=1)
        known = rows >= 0
        ptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        return self._alone(SparseRows(ptr, rows[known], None, self._width))

    def expand(self, full: Overlay) -> Overlay:
        sets = full.rows
        half = self._reciprocal(sets.indices, sets.indptr, half_length(self.method))
        # Every half set that is asked for is in the overlay: what is stored is not read.
        rows = Overlay(sets.indptr, sets.indices, half).over(half)
        own = (sets.indptr, sets.indices, self.each, rows)
        return self._alone(self._rows(*reciprocal.expanded_rows(0, self.n, *own, self.space)))

    def graph(self, xi: Overlay) -> TiedGraph:
        method, state, sets = self.method, self.state, xi.rows
        sizes = (int(method.graph_k or 1) + 1, self._sigma2, float(method.kappa))
        known = (tuple(self.lists), sets.indptr, sets.indices, *sizes)
        *own, w = query.graph_rows(*known, *state.w.csr, state.degree, self.space)
        return TiedGraph((*state.s.csr, *own), (state.w.values, w))

    def affinity(self, members: Overlay) -> Overlay:
        rows = members.rows
        owners = np.repeat(np.arange(self.n), rows.lengths)
        known = rows.indices < len(self.state)
        d2 = np.zeros(rows.nnz, np.float32)
        d2[known] = self.squared(owners[known], rows.indices[known])
        far = self.farthest[owners]
        d2 = np.minimum(d2 / np.where(far > 0, far, 1), 1)
        data = np.exp(-d2 / np.float32(self.method.sigma**2)).astype(np.float32)
        return self._alone(rows.with_data(data))

    def diffuse(self, graph: TiedGraph, members: Overlay) -> Overlay:
        rows, walk = members.rows, self.state.walk
        coefficients = tuple(walk)
        own, places = (self.own, self.each, graph.s), (rows.indptr, rows.indices)
        total = np.zeros(rows.nnz, np.float32)
        if len(walk.series):
            diffuse.polynomial_rows(0, self.n, *own, coefficients, *places, total, self.space)
        if len(walk.powers):
            part = np.empty_like(total)
            diffuse.walk_rows(
                0, self.n, *own, graph.starts, coefficients, *places, part, self.space
            )
            total += part
        return self._alone(rows.with_data(total))

    def unit_rows(self, f: Overlay) -> Overlay:
        rows = f.rows
        lists.unit_rows(0, self.n, rows.indptr, rows.values, rows.values)
        return f

    def average(self, f: Overlay) -> Overlay:
        near, stored = self.nearest(self.method.k2).rows, self.state.f
        assert stored is not None
        return self._alone(self._product(near, self.each, f.over(stored)))

    def smooth_by_similarity(self, f: Overlay, xi: Overlay) -> Overlay:
        stored, rows, sets = self.state.f, f.rows, xi.rows
        assert stored is not None
        mirrored = (*stored.csr, *query.mirrored_rows(*rows.csr, *stored.csr))
        self._new_guide(rows)
        own = (rows.indptr, rows.indices, self.each, mirrored, sets.indptr, sets.indices)
        out = (self.guide, self.anchor, self.space)
        guide.guide_by_similarity(0, self.n, *own, *out)
        return self._smoothed(rows)

    def smooth_by_walk(self, f: Overlay, xi: Overlay) -> Overlay:
        rows, sets = f.rows, xi.rows
        self._new_guide(rows)
        walk_k = min(int(self.method.walk_k or 1), self.lists.ids.shape[1])
        own = (rows.indptr, rows.indices, sets.indptr, sets.indices, tuple(self.lists), walk_k)
        out = (self.guide, self.anchor, self.space)
        guide.query_guides(*own, self._sigma2, self.state.walk_norm, *out)
        return self._smoothed(rows)

    def enhance(self, f: Overlay, xi: Overlay) -> Overlay:
        sizes = (int(self.method.enhance_k or 1), float(self.method.kappa))
        own, known = xi.rows, self.state.xi
        sets = (own.indptr, own.indices, known.indptr, known.indices)
        made = query.partner_rows(tuple(self.lists), *sizes, *sets)
        groups, names, ptr, ids, weights = made
        rows = SparseRows(ptr, ids, weights, self._width)
        return Overlay(groups, names, self._product(rows, groups, f.over(self.state.smoothed)))

    def propagate(self, f: Overlay) -> Overlay:
        state, stored = self.state, f.over(self.state.enhanced)
        if self.method.enhancement:
            own = self._product(f.first(), self.each, stored, cut=True)
            made = (f.groups, f.names, *f.rows.csr, *state.enhanced.csr, *own.csr)
            groups, names, ptr, ids, data = query.supported_rows(*made, self.space)
            f = Overlay(groups, names, SparseRows(ptr, ids, data, self._width))
        # With P = F^T F the row of a query would be its column of F, which the rows do not hold;
        # similarities are mutual, so its own row stands for it.
        p = Overlay(f.groups, f.names, self._product(f.rows, f.groups, stored, cut=True))
        self.keep("enhanced", f)
        self.keep("transition", p)
        behind = stored if state.transition is None else p.over(state.transition)
        return self.keep(
            "encoding", Overlay(f.groups, f.names, self._product(p.rows, f.groups, behind))
        )

    @cached_property
    def _width(self) -> int:
        return len(self.state) + 1

    @cached_property
    def _sigma2(self) -> float:
        return float(self.method.sigma) ** 2

    def _alone(self, rows: SparseRows) -> Overlay:
        return Overlay(self.each, self.own, rows)

    def _rows(self, lengths: Longs, ids: Ints, data: Floats | None = None) -> SparseRows:
        return SparseRows(_pointers(lengths), ids, data, self._width)

    def _reciprocal(self, rows: Ints, groups: Longs, k: int) -> SparseRows:
        own, near = (rows, groups), self.lists
        known = (near.ids, near.groups, near.names, near.over_ids, min(k, near.ids.shape[1]))
        return self._rows(*reciprocal.reciprocal_rows(0, len(rows), *own, *known, self.space))

    def _product(
        self, a: SparseRows, groups: Longs, b: KernelRows, *, cut: bool = False
    ) -> SparseRows:
        keep = min(int(self.method.keep or 0), self._width) if cut else 0
        own = (*a.csr, groups, b, keep, self.state.names, self.state.places)
        return self._rows(*product_rows(0, len(a), *own, self.space))

    def _new_guide(self, rows: SparseRows) -> None:
        self.guide, self.anchor = np.zeros(rows.nnz, np.float32), np.zeros(self.n, np.float32)

    def _smoothed(self, rows: SparseRows) -> Overlay:
        out, beta = np.empty_like(rows.values), float(self.method.beta or 0)
        known = (rows.indptr, rows.values, self.guide, self.anchor, beta, out)
        guide.closed_form(0, self.n, *known)
        return self._alone(rows.with_data(out))


def _pointers(lengths: Longs) -> Longs:
    out = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=out[1:])
    return out
