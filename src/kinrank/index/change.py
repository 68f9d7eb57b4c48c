"""A gallery that changes: only rows that depend on a change are computed again.

Each stage names the rows whose inputs changed, computes these, and hands on those whose result
really did. The answer is that of a fresh build, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.graph import clusters
from kinrank.graph.build import Graph
from kinrank.graph.matrix import placed, take, times
from kinrank.index import patch
from kinrank.index.build import KeptRows, build, cluster_rows
from kinrank.index.changed_paths import changed_paths
from kinrank.index.ids import Ids, joined, refuse_duplicates
from kinrank.index.patch import Change, Mask, reached
from kinrank.index.state import EncodingColumns, State, needs_f, resolved
from kinrank.methods.cas import CAS
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.stages import diffuse, propagate, smooth
from kinrank.stages.diverge import Divergence
from kinrank.stages.pipeline import full_length, half_length, polynomial_of
from kinrank.types import Floats, Ints, Neighbors, SparseRows

# A change of F that leaves every distance as it is, to five digits and more.
_NEGLIGIBLE = 1e-7
# A bound on what changed edges do to a row of F, far above what they really do: with a hundred
# times this, distances were still those of a fresh build to 1e-7.
_WALKED = 1e-5
# From this share of the rows on, all of them are computed: that is simpler and not slower.
_MOST = 0.25
_MANY = 0.1  # of the lists: what follows from them is then most


def changed(state: State, remove: Ids, vectors: Floats, add: Ids, run: Runner) -> State:
    """The state without the gallery rows ``remove`` and with others, which become the last ones.

    vectors : of those that come, scaled; add : their ids
    """
    gone = state.table.places(remove)
    if len(np.unique(gone)) != len(gone):
        refuse_duplicates(remove)
    ids = joined(np.delete(state.ids, gone), add)
    if len(ids) == 0 or len(state) - len(gone) + len(vectors) < 2:
        raise InvalidInputError(f"An index must keep at least two rows, got {len(ids)}.")
    if len(gone) + len(vectors) == 0:
        return state
    kept = np.ones(len(state), np.bool_)
    kept[state.places[gone]] = False
    names = _names(state, kept, len(vectors))
    change = Change(kept, names, np.concatenate([state.vectors[kept], vectors]))
    method = resolved(state.asked, len(names))
    # Sizes follow from the number of rows while these are few; lists that users brought are longer.
    if method != state.method or state.neighbors.k > len(names):
        return _afresh(state, method, change, ids, run)
    with progress.stage("neighbours", len(names)):
        neighbors = patch.changed_neighbors(state.neighbors, state.vectors, change, run)
    return ChangedRows(state, change, neighbors, ids, run).state()


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
    neighbors = exact_neighbors(vectors, method.list_length(), run)
    return build(state.asked, method, state.scaling, ids, neighbors, vectors, run)


class _TooMany(Exception):  # noqa: N818
    """So many rows become others that all of them are computed."""


class ChangedRows(KeptRows):
    """The stages, each over the rows whose inputs changed.

    changed : by stage, which of its rows became others
    """

    def __init__(
        self, old: State, change: Change, neighbors: Neighbors, ids: Ids, run: Runner
    ) -> None:
        source = replace(
            old, ids=ids, names=change.names, vectors=change.vectors, neighbors=neighbors,
            cell=_cells(old, change, run),
        )  # fmt: skip
        super().__init__(source, run)
        self.old, self.change = old, change
        self.changed: dict[str, Mask] = {}

    def state(self) -> State:
        """The state after the change."""
        try:
            if self._moved(full_length(self.method)).mean() > _MANY:
                raise _TooMany
            self.encode()
            return self.with_encoding(self.encoding)
        except _TooMany:
            return KeptRows(self.source, self.run).state()

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

    def _patched(self, name: str, dirty: Mask, compute: Callable[[Ints], SparseRows]) -> SparseRows:
        """The rows of a stage, those that are dirty computed again; notes which became others."""
        before = self._old_members if name == "members" else getattr(self.old, name)
        base, lost = patch.moved_rows(before, self.change)
        needed = dirty | lost
        needed[self.change.n_kept :] = True
        rows = np.flatnonzero(needed).astype(np.int32)
        other = self.changed[name] = np.zeros(len(base), np.bool_)
        if len(rows) == 0:
            return base
        fresh = compute(rows)
        other[rows] = lost[rows] | patch.differs(take(base, rows), fresh, _NEGLIGIBLE)
        other[self.change.n_kept :] = True
        return patch.put(base, rows, fresh)

    @property
    def _old_members(self) -> SparseRows:
        """C before the change: the pattern of F."""
        return (self.old.f or self.old.smoothed).with_data(None)

    def _reciprocal(self, name: str, k: int) -> SparseRows:
        lists, moved = self.neighbors.indices, self._moved(k)
        dirty = moved | reached(moved, lists[:, :k])
        return self._patched(
            name, dirty, lambda rows: clusters.reciprocal(lists, k, self.run, rows)
        )

    def confident(self) -> SparseRows:
        return self._reciprocal("xi", self.method.k2)

    def clusters(self) -> SparseRows:
        method, lists, k = self.method, self.neighbors.indices, full_length(self.method)
        moved = self._moved(k)
        dirty = moved | reached(moved, lists[:, :k])
        if method.clusters == "expanded":
            self.keep("half", self._reciprocal("half", half_length(method)))
            dirty |= reached(self.changed["half"], lists[:, :k])
        half = self.kept.get("half")
        return self._patched(
            "members", dirty, lambda rows: cluster_rows(method, lists, rows, half, self.run)
        )

    def similarity(self, graph: Graph, members: SparseRows) -> SparseRows:
        """F of all rows where it is kept, of those that are smoothed anew otherwise."""
        changed = self.changed
        dirty = changed["members"] | changed["xi"] | self._walked(graph, members)
        smoothed = dirty | self._guided(members)
        smoothed[self.change.n_kept :] = True
        smoothed |= patch.moved_rows(self.old.smoothed, self.change)[1]
        if smoothed.mean() > _MOST:
            raise _TooMany
        if needs_f(self.method):
            return self._patched("f", dirty, lambda rows: self._f(graph, members, rows))
        self.changed["f"] = smoothed
        return self._f(graph, members, np.flatnonzero(smoothed).astype(np.int32))

    def smooth(self, f: SparseRows, xi: SparseRows) -> SparseRows:
        if needs_f(self.method):
            smoothed = super().smooth(f, xi)
            base, lost = patch.moved_rows(self.old.smoothed, self.change)
            self.changed["smoothed"] = lost | patch.differs(base, smoothed, _NEGLIGIBLE)
            return smoothed
        rows = np.flatnonzero(self.changed["f"]).astype(np.int32)
        fresh = super().smooth(f, take(xi, rows))
        return self._patched("smoothed", self.changed["f"], lambda _: fresh)

    def enhance(self, f: SparseRows, xi: SparseRows) -> SparseRows:
        method, lists, changed = self.method, self.neighbors.indices, self.changed["smoothed"]
        k = int(method.enhance_k or 1)
        dirty = self.changed["xi"] | self._moved(k) | reached(changed, xi)
        dirty |= reached(changed, lists[:, :k])

        def compute(rows: Ints) -> SparseRows:
            return propagate.enhance(f, take(xi, rows), lists[rows], k, method.kappa, self.run)

        return self._patched("enhanced", dirty, compute)

    def propagate(self, f: SparseRows) -> SparseRows:
        if self.old.transition is None:
            encoding = super().propagate(f)
            self.encoding = EncodingColumns.of(encoding, self.run)
            return encoding
        changed = self.changed["enhanced" if self.method.enhancement else "smoothed"]
        dirty = changed | reached(changed, f)
        p = self._patched(
            "transition", dirty, lambda rows: self.product(take(f, rows), f, cut=True)
        )
        self.keep("transition", p)
        dirty = self.changed["transition"] | reached(self.changed["transition"], p)
        dirty |= patch.lost_rows(self.old.columns, self.change)
        self.changed["encoding"] = dirty
        rows = np.flatnonzero(dirty).astype(np.int32)
        encoding = self.product(take(p, rows), p)
        self.encoding = patch.exchanged(self.old.encoding, self.change, rows, encoding, self.run)
        return encoding

    def paths(self, encoding: EncodingColumns) -> SparseRows:
        k, p, old = self.method.geodesic_k, self.kept.get("transition"), self.old.paths
        if p is None or old is None:
            return super().paths(encoding)
        affected = self.changed["encoding"] | self._moved(k)
        if affected.mean() > _MANY:
            return super().paths(encoding)

        def divergence(rows: Ints) -> Divergence:
            of_rows = placed(self.product(take(p, rows), p), rows)
            return Divergence(of_rows, self.method.divergence, encoding.norms)

        near = self.neighbors.indices[:, :k]
        return changed_paths(old, self.change, affected, near, divergence, self.run)

    def _f(self, graph: Graph, members: SparseRows, rows: Ints) -> SparseRows:
        """F of some rows."""
        method, places = self.method, take(members, rows)
        if method.similarity == "original":
            d2 = self.distances.at(rows, places.indptr, places.indices, self.run)
            f = places.with_data(np.exp(-d2 / np.float32(method.sigma**2)))
        else:
            f = diffuse.apply(graph, places, polynomial_of(method), self.run, rows)
        return smooth.unit_rows(f)

    def _walked(self, graph: Graph, members: SparseRows) -> Mask:
        """Which rows of F a changed edge can reach.

        Walks from i to j over a changed edge at m weigh u_i(m) u_j(m), u the walks to m from one
        end; their sum over all m is found at once, by walks from all of them.
        """
        method = self.method
        if method.similarity == "original":
            return self._scaled
        polynomial = polynomial_of(method)
        weights = self._moved(int(method.graph_k or 1) + 1) | self._scaled | self.changed["xi"]
        before, lost = patch.moved_rows(self.old.w, self.change)
        weights |= lost
        touched = weights | reached(weights, graph.w) | reached(weights, before)
        mass = touched.astype(np.float64)
        total = mass.copy()
        for _ in range(max(len(polynomial.powers), len(polynomial.series)) // 2 + 1):
            mass = polynomial.decay * times(graph.s, mass)
            total += mass
        most = np.maximum.reduceat(total[members.indices], members.indptr[:-1])
        return np.asarray(total * most > _WALKED)

    def _guided(self, members: SparseRows) -> Mask:
        """Which rows are smoothed by a walk that became another."""
        method = self.method
        if needs_f(method) or method.smoothing is None:
            return np.zeros(len(members), np.bool_)
        k = int(method.walk_k or 1)
        stepped = self._moved(k) | self._scaled
        return reached(stepped | reached(stepped, self.neighbors.indices[:, :k]), members)


def _cells(old: State, change: Change, run: Runner) -> Ints:
    """The cells of all rows; a new one goes to the nearest."""
    if len(old.cell) == 0:
        return old.cell
    near = exact_search(change.vectors[change.n_kept :], old.centres, 1, run).indices[:, 0]
    return np.concatenate([old.cell[change.kept], near]).astype(np.int32)
