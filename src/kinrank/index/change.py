"""A gallery that changes: only rows that depend on a change are computed again.

Each stage names the rows whose inputs changed, computes these, and hands on those whose result
really did. The answer is that of a fresh build, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index import patch
from kinrank.index.build import build, encoded_state, make_state, path_graph
from kinrank.index.changed_paths import changed_paths
from kinrank.index.ids import Ids, joined, refuse_duplicates
from kinrank.index.patch import Change, Mask, reached
from kinrank.index.state import EncodingColumns, Source, State, resolved
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.stages.clusters import local_clusters, reciprocal
from kinrank.stages.diffusion import polynomial_of, similarity_on_clusters
from kinrank.stages.divergence import Divergence
from kinrank.stages.enhancement import enhance
from kinrank.stages.graph import Graph, affinity_graph
from kinrank.stages.parameters import StageParameters
from kinrank.stages.propagation import encoding, propagate, transition
from kinrank.stages.smoothing import smooth
from kinrank.stages.sparse import placed, take, times
from kinrank.types import Floats, Ints, SparseRows, Values

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
    gone = state.table.rows(remove)
    if len(np.unique(gone)) != len(gone):
        refuse_duplicates(remove)
    ids = joined(np.delete(state.ids, gone), add)
    if len(ids) == 0 or len(state) - len(gone) + len(vectors) < 2:
        raise InvalidInputError(f"An index must keep at least two rows, got {len(ids)}.")
    if len(gone) + len(vectors) == 0:
        return state
    kept = np.ones(len(state), np.bool_)
    kept[state.position[gone]] = False
    order = _changed_order(state, kept, len(vectors))
    change = Change(kept, order, np.concatenate([state.vectors[kept], vectors]))
    method = resolved(state.asked, len(order))
    # Sizes follow from the number of rows while these are few; lists that users brought are longer.
    if method != state.method or state.neighbors.k > len(order):
        return _afresh(state, method, change, ids, run)
    with progress.stage("neighbours", len(order)):
        neighbors = patch.changed_neighbors(state.neighbors, state.vectors, change, run)
    source = replace(
        state,
        ids=ids,
        order=order,
        vectors=change.vectors,
        neighbors=neighbors,
        cell=_cells(state, change, run),
    )
    return _patched_state(state, source, change, run) or encoded_state(source, run)


def _changed_order(state: State, kept: Mask, m: int) -> Ints:
    """The indices of the rows that stay and of ``m`` new ones: behind the gallery, before the
    context.
    """
    old = state.order[kept]
    stays = np.zeros(len(state), np.int64)
    stays[old] = 1
    rank = np.cumsum(stays) - 1
    n_gallery = int(stays[: state.n_gallery].sum())
    order = np.where(old < state.n_gallery, rank[old], rank[old] + m)
    return np.concatenate([order, n_gallery + np.arange(m)]).astype(np.int32)


def _afresh(state: State, method: CASMethod, change: Change, ids: Ids, run: Runner) -> State:
    vectors = np.empty_like(change.vectors)
    vectors[change.order] = change.vectors
    neighbors = exact_neighbors(vectors, method.list_length(), run)
    return build(state.asked, method, state.scaling, ids, neighbors, vectors, run)


class PatchedRows(NamedTuple):
    """The rows of a stage after a change; changed : (n,) which of them are not what they were."""

    rows: SparseRows
    changed: Mask


def _patched_state(old: State, source: Source, change: Change, run: Runner) -> State | None:
    """The state after a change, stage by stage: which rows are dirty, compute these, put them.

    source : of the rows after the change
    Returns None where so many rows are dirty that computing all of them is not slower.
    """
    parameters = source.method.stage_parameters
    neighbors = source.neighbors
    lists = neighbors.indices
    layout = source.layout
    first_change = _first_changes(old, source, change)
    if np.mean(first_change < parameters.cluster_k) > _MANY:
        return None
    rescaled = _rescaled(old, source, change)

    with progress.stage("clusters", len(source)):
        confident = _patched_reciprocal(
            old.xi, change, first_change, lists, parameters.confident_k, run
        )
        half = None
        in_cluster_lists = first_change < parameters.cluster_k
        dirty = in_cluster_lists | reached(in_cluster_lists, lists[:, : parameters.cluster_k])
        if parameters.clusters == "expanded":
            half = _patched_reciprocal(
                old.half, change, first_change, lists, parameters.half_k, run
            )
            dirty |= reached(half.changed, lists[:, : parameters.cluster_k])
        half_rows = None if half is None else half.rows
        old_clusters = (old.f or old.smoothed).with_data(None)  # the pattern of F
        clusters = _patched(
            old_clusters, change, dirty, partial(local_clusters, lists, parameters, half_rows, run)
        )

    with progress.stage("graph", len(source)):
        graph = affinity_graph(
            neighbors,
            parameters.graph_k,
            parameters.sigma,
            parameters.kappa,
            confident.rows,
            symmetric=parameters.symmetric,
            run=run,
        )

    with progress.stage("diffusion", len(source)):
        in_graph_lists = first_change < parameters.graph_k + 1
        other_edges = in_graph_lists | rescaled | confident.changed
        dirty = clusters.changed | confident.changed
        dirty |= _diffused(old, change, graph, clusters.rows, other_edges, rescaled, parameters)
        smoothed_anew = dirty | _guided(first_change, rescaled, lists, clusters.rows, parameters)
        smoothed_anew[change.n_kept :] = True
        smoothed_anew |= patch.moved_rows(old.smoothed, change)[1]
        if smoothed_anew.mean() > _MOST:
            return None
        compute = _SimilarityOfRows(graph, clusters.rows, source, run).compute
        smoothed_rows = np.flatnonzero(smoothed_anew).astype(np.int32)
        if old.f is not None:
            similarity = _patched(old.f, change, dirty, compute).rows
        else:  # nobody reads F again: it is made of the rows that are smoothed anew, and let go of
            similarity = compute(smoothed_rows)

    with progress.stage("smoothing", len(source)):
        if old.f is not None:
            rows = smooth(similarity, confident.rows, neighbors, parameters, run)
            before, lost = patch.moved_rows(old.smoothed, change)
            smoothed = PatchedRows(rows, lost | patch.differs(before, rows, _NEGLIGIBLE))
        else:
            fresh = smooth(
                similarity, take(confident.rows, smoothed_rows), neighbors, parameters, run
            )
            smoothed = _put(
                old.smoothed, change, smoothed_rows, fresh if len(smoothed_rows) else None
            )

    enhanced = smoothed
    if parameters.enhance_k is not None:
        with progress.stage("enhancement", len(source)):
            k = parameters.enhance_k
            dirty = confident.changed | (first_change < k)
            dirty |= reached(smoothed.changed, confident.rows)
            dirty |= reached(smoothed.changed, lists[:, :k])
            enhanced = _patched(
                old.enhanced,
                change,
                dirty,
                _EnhancedRows(
                    smoothed.rows, confident.rows, lists, k, parameters.kappa, run
                ).compute,
            )

    with progress.stage("propagation", len(source)):
        if old.transition is None:
            p, every_row = propagate(enhanced.rows, parameters, layout, run)
            columns = EncodingColumns.of(every_row, run)
            other_encodings = np.ones(len(source), np.bool_)
        else:
            dirty = enhanced.changed | reached(enhanced.changed, enhanced.rows)
            patched_p = _patched(
                old.transition,
                change,
                dirty,
                partial(transition, enhanced.rows, parameters, layout, run),
            )
            p = patched_p.rows
            other_encodings = patched_p.changed | reached(patched_p.changed, p)
            other_encodings |= patch.lost_rows(old.columns, change)
            wanted = np.flatnonzero(other_encodings).astype(np.int32)
            fresh = encoding(p, layout, run, wanted)
            columns = patch.exchanged(old.encoding, change, wanted, fresh, run)

    paths = None
    if source.method.geodesic:
        affected = other_encodings | (first_change < source.method.geodesic_k)
        paths = _patched_paths(old, source, change, columns, p, affected, run)
    return make_state(
        source,
        confident=confident.rows,
        half=half_rows,
        w=graph.w,
        similarity=similarity,
        smoothed=smoothed.rows,
        enhanced=enhanced.rows,
        transition=p,
        encoding=columns,
        paths=paths,
        run=run,
    )


def _first_changes(old: State, source: Source, change: Change) -> Ints:
    """(n,) the first place of each list that holds another row: 0 for a new row, K for none."""
    lists = source.neighbors.indices
    before = change.renumbered(old.neighbors.indices[change.kept])
    other = before != lists[: change.n_kept]
    first = np.where(other.any(axis=1), other.argmax(axis=1), lists.shape[1])
    new = np.zeros(len(lists) - change.n_kept, np.int64)
    return np.concatenate([first, new]).astype(np.int32)


def _rescaled(old: State, source: Source, change: Change) -> Mask:
    """(n,) which rows have another farthest, so that all their affinities change."""
    farthest = source.neighbors.farthest
    out = np.ones(len(farthest), np.bool_)
    out[: change.n_kept] = farthest[: change.n_kept] != old.neighbors.farthest[change.kept]
    return out


def _patched(
    before: SparseRows, change: Change, dirty: Mask, compute: Callable[[Ints], SparseRows]
) -> PatchedRows:
    """The rows of a stage after a change: those that are dirty, new or lost an entry are computed.

    before : the rows of the stage before the change
    """
    needed = dirty | patch.moved_rows(before, change)[1]
    needed[change.n_kept :] = True
    rows = np.flatnonzero(needed).astype(np.int32)
    return _put(before, change, rows, compute(rows) if len(rows) else None)


def _put(before: SparseRows, change: Change, rows: Ints, fresh: SparseRows | None) -> PatchedRows:
    """The rows of a stage after a change; fresh : ``rows`` of them, new ones among these."""
    moved, lost = patch.moved_rows(before, change)
    changed = np.zeros(len(moved), np.bool_)
    if fresh is None:
        return PatchedRows(moved, changed)
    changed[rows] = lost[rows] | patch.differs(take(moved, rows), fresh, _NEGLIGIBLE)
    changed[change.n_kept :] = True
    return PatchedRows(patch.put(moved, rows, fresh), changed)


def _patched_reciprocal(
    before: SparseRows, change: Change, first_change: Ints, lists: Ints, k: int, run: Runner
) -> PatchedRows:
    """R(i, k) after a change: of rows whose list changed, or that of one of their neighbours."""
    changed = first_change < k
    dirty = changed | reached(changed, lists[:, :k])
    return _patched(before, change, dirty, partial(reciprocal, lists, k, run))


class _SimilarityOfRows(NamedTuple):
    """What F of some rows is computed from."""

    graph: Graph
    clusters: SparseRows
    source: Source
    run: Runner

    def compute(self, rows: Ints) -> SparseRows:
        """F of ``rows``."""
        return similarity_on_clusters(
            self.graph,
            self.clusters,
            self.source.distances,
            self.source.method.stage_parameters,
            self.run,
            rows=rows,
        )


class _EnhancedRows(NamedTuple):
    """What enhanced rows are computed from."""

    smoothed: SparseRows
    confident: SparseRows
    lists: Ints
    k: int
    kappa: float
    run: Runner

    def compute(self, rows: Ints) -> SparseRows:
        """The enhanced F of ``rows``."""
        confident = take(self.confident, rows)
        return enhance(self.smoothed, confident, self.lists[rows], self.k, self.kappa, self.run)


def _diffused(
    old: State,
    change: Change,
    graph: Graph,
    clusters: SparseRows,
    other_edges: Mask,
    rescaled: Mask,
    parameters: StageParameters,
) -> Mask:
    """Which rows of F a changed edge can reach.

    Walks from i to j over a changed edge at m weigh u_i(m) u_j(m), u the walks to m from one
    end; their sum over all m is found at once, by walks from all of them.

    other_edges : rows whose own edges changed; rescaled : rows with another farthest
    """
    if parameters.similarity == "original":
        return rescaled
    polynomial = polynomial_of(parameters)
    before, lost = patch.moved_rows(old.w, change)
    other_edges = other_edges | lost
    touched = other_edges | reached(other_edges, graph.w) | reached(other_edges, before)
    weight = touched.astype(np.float64)
    total = weight.copy()
    steps = max(len(polynomial.powers), len(polynomial.series)) // 2 + 1
    for _ in range(steps):
        weight = polynomial.decay * times(graph.s, weight)
        total += weight
    most = np.maximum.reduceat(total[clusters.indices], clusters.indptr[:-1])
    return np.asarray(total * most > _WALKED)


def _guided(
    first_change: Ints,
    rescaled: Mask,
    lists: Ints,
    clusters: SparseRows,
    parameters: StageParameters,
) -> Mask:
    """Which rows are smoothed by a walk that is not what it was."""
    if parameters.smoothing is None or parameters.reads_similarity_again:
        return np.zeros(len(clusters), np.bool_)
    stepped = (first_change < parameters.walk_k) | rescaled
    two_steps = stepped | reached(stepped, lists[:, : parameters.walk_k])
    return reached(two_steps, clusters)


class _EncodingOfRows(NamedTuple):
    """What F' of some rows is computed from, and how it is compared."""

    p: SparseRows
    source: Source
    norms: Values
    run: Runner

    def divergence(self, rows: Ints) -> Divergence:
        """d' between ``rows``; the other rows of F' are empty."""
        made = encoding(self.p, self.source.layout, self.run, rows)
        return Divergence(placed(made, rows), self.source.method.divergence, self.norms)


def _patched_paths(
    old: State,
    source: Source,
    change: Change,
    columns: EncodingColumns,
    p: SparseRows | None,
    affected: Mask,
    run: Runner,
) -> SparseRows:
    """The graph of shortest paths; affected : rows with another F', or others among the nearest."""
    if p is None or old.paths is None or affected.mean() > _MANY:
        return path_graph(source, columns, run)
    near = source.neighbors.indices[:, : source.method.geodesic_k]
    divergence = _EncodingOfRows(p, source, columns.norms, run).divergence
    return changed_paths(old.paths, change, affected, near, divergence, run)


def _cells(old: State, change: Change, run: Runner) -> Ints:
    """The cells of all rows; a new one goes to the nearest."""
    if len(old.cell) == 0:
        return old.cell
    near = exact_search(change.vectors[change.n_kept :], old.centres, 1, run).indices[:, 0]
    return np.concatenate([old.cell[change.kept], near]).astype(np.int32)
