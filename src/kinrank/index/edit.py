"""A gallery that changes: only rows that depend on a change are computed again.

Each stage names the rows whose inputs changed, computes these, and hands on those whose result
really did. The answer is that of a fresh build, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kinrank import progress
from kinrank.graph import clusters
from kinrank.graph.build import Graph
from kinrank.graph.layout import Layout
from kinrank.index.build import Given, build, degrees, distances_of, stages, walk_norms
from kinrank.index.build import propagate as propagate_all
from kinrank.index.columns import Columns
from kinrank.index.ids import Ids
from kinrank.index.lists import Change, Mask, changed_neighbors
from kinrank.index.parts import differs, moved_rows, put, reached, take
from kinrank.index.settings import full_length, half_length, needs_f, polynomial_of
from kinrank.index.state import State, fitted_method
from kinrank.methods.cas import CAS
from kinrank.neighbors.exact import exact_neighbors
from kinrank.neighbors.search import exact_search
from kinrank.parallel import Runner
from kinrank.stages import diffuse, propagate, smooth
from kinrank.stages.distance import Distances
from kinrank.stages.product import product
from kinrank.types import Floats, Ints, Neighbors, SparseRows

# A change of F that leaves every distance as it is, to five digits and more.
_NEGLIGIBLE = 1e-7
# A bound on what changed edges do to a row of F, far above what they really do: with a hundred
# times this, distances were still those of a fresh build to 1e-7.
_WALKED = 1e-5
# From this share of the rows on, all of them are computed: that is simpler and not slower.
_MOST = 0.25
_MANY = 0.1  # of the lists: what follows from them is then most


def edited(state: State, remove: Ints, vectors: Floats, ids: Ids, run: Runner) -> State:
    """The state without some rows and with others.

    remove : names of gallery rows; vectors : placed, (m, d); ids : of all gallery rows afterwards,
    those of new ones last
    """
    n, m = len(state), len(vectors)
    kept = np.ones(n, np.bool_)
    kept[state.places[remove]] = False
    change = Change(kept, _names(state, kept, m), np.concatenate([state.vectors[kept], vectors]))
    method = fitted_method(state.asked, len(change.names))
    if method != state.method:  # sizes follow from the number of rows while these are few
        return _afresh(state, method, change, ids, run)
    with progress.stage("neighbours", len(change.names)):
        neighbors = changed_neighbors(state.neighbors, state.vectors, change, run)
    return _Editor(state, change, neighbors, ids, run).state()


def _names(state: State, kept: Mask, m: int) -> Ints:
    """Gallery rows first, new ones behind them, then the context."""
    old = state.names[kept]
    stays = np.zeros(len(state), np.int64)
    stays[old] = 1
    rank = np.cumsum(stays) - 1
    n_gallery = int(stays[: state.n_gallery].sum())
    names = np.where(old < state.n_gallery, rank[old], rank[old] + m)
    return np.concatenate([names, n_gallery + np.arange(m)]).astype(np.int32)


def _afresh(state: State, method: CAS, change: Change, ids: Ids, run: Runner) -> State:
    vectors = np.empty_like(change.vectors)
    vectors[change.names] = change.vectors
    neighbors = exact_neighbors(vectors, method._list_length(), run)
    return build(Given(state.asked, method, state.frame, ids, neighbors, vectors), run)


@dataclass(frozen=True, eq=False)
class _Editor:
    """The stages one after another, each over the rows that need it."""

    old: State
    change: Change
    neighbors: Neighbors
    ids: Ids
    run: Runner

    def state(self) -> State:
        """The state after the change."""
        method = self.old.method
        if self._moved(full_length(method)).mean() > _MANY:
            return self._all()
        xi, xi_new = self._reciprocal(self.old.xi, method.k2)
        half, half_new = self._reciprocal(self.old.half, half_length(method))
        pattern, pattern_new = self._pattern(half, half_new)
        graph = method._graph(self._distances, xi, self.run)
        dirty = pattern_new | xi_new | self._walked(graph, pattern, xi_new)
        guided = dirty | self._guided(pattern)
        if guided.mean() > _MOST:
            return self._all()
        f, hat, hat_new = self._similarity(graph, pattern, xi, dirty, guided)
        k = int(method.enhance_k or 1)
        averaged = xi_new | self._moved(k) | reached(hat_new, xi)
        averaged |= reached(hat_new, self.neighbors.indices[:, :k])
        tilde, tilde_new = self._part(
            self.old.tilde, averaged, lambda rows: self._enhanced(hat, xi, rows)
        )
        p, prime = self._propagated(tilde, tilde_new)
        return State(
            self.old.asked, method, self.old.frame, self.ids, self.change.names,
            self.change.vectors, self.neighbors, xi, half, graph.w, degrees(graph.w),
            walk_norms(self.neighbors, method), f, hat, tilde, p, prime.columns, prime.entropies,
            prime.norms, self.old.centres, self._cell, self.old.recall,
        )  # fmt: skip

    def _all(self) -> State:
        return stages(self._given, self._layout, self.neighbors, self.change.vectors, self.run)

    @cached_property
    def _distances(self) -> Distances:
        return distances_of(self.neighbors, self.change.vectors)

    @cached_property
    def _layout(self) -> Layout:
        n = len(self.neighbors)
        places = np.empty(n, np.int32)
        places[self.change.names] = np.arange(n, dtype=np.int32)
        return Layout(self.change.names, places)

    @cached_property
    def _given(self) -> Given:
        old = self.old
        return Given(
            old.asked, old.method, old.frame, self.ids, self.neighbors, self.change.vectors,
            old.centres, self._cell, old.recall,
        )  # fmt: skip

    @cached_property
    def _cell(self) -> Ints:
        """The cells of all rows; a new one goes to the nearest."""
        if len(self.old.cell) == 0:
            return self.old.cell
        fresh = self.change.vectors[self.change.n_kept :]
        near = exact_search(fresh, self.old.centres, 1, self.run).indices[:, 0]
        return np.concatenate([self.old.cell[self.change.kept], near]).astype(np.int32)

    @cached_property
    def _first_change(self) -> Ints:
        """(n,) from where on a list is another: 0 for a new row, K where it stays."""
        lists, kept = self.neighbors.indices, self.change.n_kept
        before = self.change.renumbered(self.old.neighbors.indices[self.change.kept])
        other = before != lists[:kept]
        first = np.where(other.any(axis=1), other.argmax(axis=1), lists.shape[1])
        return np.concatenate([first, np.zeros(len(lists) - kept, np.int64)]).astype(np.int32)

    @cached_property
    def _scaled(self) -> Mask:
        """(n,) which rows have another farthest, so that all their affinities change."""
        kept = self.change.n_kept
        out = np.ones(len(self.neighbors), np.bool_)
        out[:kept] = self.neighbors.farthest[:kept] != self.old.neighbors.farthest[self.change.kept]
        return out

    def _moved(self, k: int) -> Mask:
        """Which rows have others among their first ``k``."""
        return self._first_change < k

    def _part(
        self, old: SparseRows, dirty: Mask, compute: Callable[[Ints], SparseRows]
    ) -> tuple[SparseRows, Mask]:
        """The rows with those that are dirty computed again, and which became others."""
        base, lost = moved_rows(old, self.change)
        needed = dirty | lost
        needed[self.change.n_kept :] = True
        rows = np.flatnonzero(needed).astype(np.int32)
        other = np.zeros(len(base), np.bool_)
        if len(rows) == 0:
            return base, other
        fresh = compute(rows)
        other[rows] = lost[rows] | differs(take(base, rows), fresh, _NEGLIGIBLE)
        other[self.change.n_kept :] = True
        return put(base, rows, fresh), other

    def _reciprocal(self, old: SparseRows, k: int) -> tuple[SparseRows, Mask]:
        lists, moved = self.neighbors.indices, self._moved(k)
        dirty = moved | reached(moved, lists[:, :k])
        return self._part(old, dirty, lambda rows: clusters.reciprocal(lists, k, self.run, rows))

    def _pattern(self, half: SparseRows, half_new: Mask) -> tuple[SparseRows, Mask]:
        """The clusters; before the change they were the pattern of F."""
        method, lists, k = self.old.method, self.neighbors.indices, full_length(self.old.method)
        moved = self._moved(k)
        dirty = moved | reached(moved | half_new, lists[:, :k])

        def compute(rows: Ints) -> SparseRows:
            if method.clusters == "knn":
                return replace(clusters.nearest(lists[rows], k), n_columns=len(lists))
            full = clusters.reciprocal(lists, k, self.run, rows)
            if method.clusters == "reciprocal":
                return full
            return clusters.expand(full, half, self.run)

        before = (self.old.f or self.old.hat).with_data(None)
        return self._part(before, dirty, compute)

    def _walked(self, graph: Graph, pattern: SparseRows, xi_new: Mask) -> Mask:
        """Which rows of F a changed edge can reach.

        Walks from i to j over a changed edge at m weigh u_i(m) u_j(m), u the walks to m from one
        end; their sum over all m is found at once, by walks from all of them.
        """
        method, polynomial = self.old.method, polynomial_of(self.old.method)
        if polynomial is None:
            return self._scaled
        weights = self._moved(int(method.graph_k or 1) + 1) | self._scaled | xi_new
        before, lost = moved_rows(self.old.w, self.change)
        weights |= lost
        changed = weights | reached(weights, graph.w) | reached(weights, before)
        s, mass = graph.s.to_scipy(), changed.astype(np.float64)
        total = mass.copy()
        for _ in range(max(len(polynomial.powers), len(polynomial.series)) // 2 + 1):
            mass = polynomial.decay * (s @ mass)
            total += mass
        most = np.maximum.reduceat(total[pattern.indices], pattern.indptr[:-1])
        found: Mask = total * most > _WALKED
        return found

    def _guided(self, pattern: SparseRows) -> Mask:
        """Which rows are smoothed by a walk that became another."""
        method = self.old.method
        if needs_f(method) or method.smoothing is None:
            return np.zeros(len(pattern), np.bool_)
        k = int(method.walk_k or 1)
        stepped = self._moved(k) | self._scaled
        return reached(stepped | reached(stepped, self.neighbors.indices[:, :k]), pattern)

    def _similarity(
        self, graph: Graph, pattern: SparseRows, xi: SparseRows, dirty: Mask, guided: Mask
    ) -> tuple[SparseRows | None, SparseRows, Mask]:
        """F where it is kept, F-hat, and which rows of that became others.

        dirty : rows of F that need it; guided : those of F-hat
        """
        method = self.old.method
        if needs_f(method):
            assert self.old.f is not None
            f, _ = self._part(self.old.f, dirty, lambda rows: self._diffused(graph, pattern, rows))
            hat = method._smooth(f, xi, self._distances, self.run)
            base, lost = moved_rows(self.old.hat, self.change)
            return f, hat, lost | differs(base, hat, _NEGLIGIBLE)

        def compute(rows: Ints) -> SparseRows:
            f = self._diffused(graph, pattern, rows)
            return method._smooth(f, take(xi, rows), self._distances, self.run)

        return None, *self._part(self.old.hat, guided, compute)

    def _diffused(self, graph: Graph, pattern: SparseRows, rows: Ints) -> SparseRows:
        method, places = self.old.method, take(pattern, rows)
        polynomial = polynomial_of(method)
        if polynomial is None:
            d2 = self._distances.at(rows, places.indptr, places.indices, self.run)
            return smooth.unit_rows(places.with_data(np.exp(-d2 / np.float32(method.sigma**2))))
        return smooth.unit_rows(diffuse.apply(graph, places, polynomial, self.run, rows))

    def _enhanced(self, hat: SparseRows, xi: SparseRows, rows: Ints) -> SparseRows:
        method = self.old.method
        if not method.enhancement:
            return take(hat, rows)
        lists, k = self.neighbors.indices[rows], int(method.enhance_k or 1)
        return propagate.enhance(hat, take(xi, rows), lists, k, method.kappa, self.run)

    def _propagated(self, tilde: SparseRows, tilde_new: Mask) -> tuple[SparseRows | None, Columns]:
        """P, where answers need it, and F'."""
        if self.old.p is None:
            p, prime = propagate_all(self.old.method, tilde, self._layout, self.run)
            return p, Columns.of(prime, self.run)
        keep = int(self.old.method.keep or 0)

        def multiply(a: SparseRows, keep: int) -> Callable[[Ints], SparseRows]:
            return lambda rows: product(
                "propagation", take(a, rows), a, self.run, keep, self._layout
            )

        dirty = tilde_new | reached(tilde_new, tilde)
        p, p_new = self._part(self.old.p, dirty, multiply(tilde, keep))
        before = Columns(self.old.columns, self.old.entropies, self.old.norms)
        dirty = p_new | reached(p_new, p) | before.lost(self.change)
        rows = np.flatnonzero(dirty).astype(np.int32)
        return p, before.exchanged(self.change, rows, multiply(p, 0)(rows), self.run)
