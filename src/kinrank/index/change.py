"""A gallery that changes: only rows that depend on a change are computed again.

For each stage: which rows are dirty (their inputs changed), compute these, put them among the
others, and hand on which of them really became others. The result is that of a fresh build, up to
rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index import patch
from kinrank.index.build import (
    approximate_neighbors,
    build,
    encoded_state,
    make_state,
    path_graph,
)
from kinrank.index.changed_paths import affected_pairs, changed_paths, rows_of_pairs
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
from kinrank.types import Floats, Ints, SparseRows

# A change of F that leaves every distance as it is, to five digits and more.
_NEGLIGIBLE = 1e-7
# A bound on what changed edges do to a row of F, far above what they really do: with a hundred
# times this, distances were still those of a fresh build to 1e-7.
_WALKED = 1e-5
# All rows are computed where computing some of them alone would cost more:
# a list that is searched alone costs about twice as much as one of a search of all rows, where each
# product serves two rows;
_MOST_SEARCHED = 0.4
# lists that changed for so many rows reach most rows of the later stages;
_MOST_LISTS = 0.1
# and a row that is diffused alone costs 3 to 8 times as much as one of many that go side by side.
_MOST_DIFFUSED = 1 / 8
_CELLS_SEEN = 64  # that a row looks into when the lists of all rows are searched in cells


def changed(state: State, remove: Ids, vectors: Floats, add: Ids, run: Runner) -> State:
    """The state without the gallery rows ``remove`` and with others, which become the last ones.

    Costs no more than a fresh build: where most rows would be computed, all of them are.

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
    sizes_differ = method != state.method or state.neighbors.k > len(order)
    if sizes_differ or _fresh_lists_cost_less(state, change):
        return _built_afresh(state, method, change, ids, run)
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


def _fresh_lists_cost_less(state: State, change: Change) -> bool:
    """Whether to search the lists of all rows, rather than those that a change breaks."""
    n = len(change.order)
    is_broken = reached(~change.kept, state.neighbors.indices[change.kept])
    n_searched = np.count_nonzero(is_broken) + n - change.n_kept
    if len(state.cell) == 0:
        return bool(n_searched > _MOST_SEARCHED * n)
    # A search in cells sees few rows, a broken list is searched among all of them.
    share_seen = min(1.0, _CELLS_SEEN / max(len(state.centres), 1))
    return bool(n_searched > share_seen * n)


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


def _built_afresh(state: State, method: CASMethod, change: Change, ids: Ids, run: Runner) -> State:
    """The state of a fresh build, searched as the old one was."""
    vectors = np.empty_like(change.vectors)
    vectors[change.order] = change.vectors
    length = method.list_length()
    cells: dict[str, Any] = {}
    if len(state.cell) == 0:
        neighbors = exact_neighbors(vectors, length, run)
    else:
        neighbors, cells = approximate_neighbors(vectors, length, run)
    return build(state.asked, method, state.scaling, ids, neighbors, vectors, run, **cells)


class MovedRows(NamedTuple):
    """The rows of a stage under their new numbers, new ones empty.

    incomplete : (n,) rows that are new, or lost an entry with a row that went
    """

    rows: SparseRows
    incomplete: Mask


class PatchedRows(NamedTuple):
    """The rows of a stage after a change; changed : (n,) which of them are not what they were."""

    rows: SparseRows
    changed: Mask


def _patched_state(old: State, source: Source, change: Change, run: Runner) -> State | None:
    """The state after a change, stage by stage: which rows are dirty, compute these, put them.

    source : of the rows after the change
    Returns None where so many rows are dirty that computing all of them costs less.
    """
    parameters = source.method.stage_parameters
    neighbors = source.neighbors
    lists = neighbors.indices
    layout = source.layout
    first_change = _first_changes(old, source, change)
    if np.mean(first_change < parameters.cluster_k) > _MOST_LISTS:
        return None
    rescaled = _rescaled(old, source, change)

    with progress.stage("clusters", len(source)):
        before = _moved(old.xi, change)
        dirty = _dirty_reciprocal(first_change, lists, parameters.confident_k)
        rows = _rows_to_compute(before, dirty)
        confident = _put(before, rows, reciprocal(lists, parameters.confident_k, run, rows))

        in_cluster_lists = first_change < parameters.cluster_k
        dirty = in_cluster_lists | reached(in_cluster_lists, lists[:, : parameters.cluster_k])
        half_rows = None
        if parameters.clusters == "expanded":
            before = _moved(old.half, change)
            dirty_half = _dirty_reciprocal(first_change, lists, parameters.half_k)
            rows = _rows_to_compute(before, dirty_half)
            half = _put(before, rows, reciprocal(lists, parameters.half_k, run, rows))
            half_rows = half.rows
            dirty |= reached(half.changed, lists[:, : parameters.cluster_k])
        before = _moved((old.f or old.smoothed).with_data(None), change)  # the pattern of F
        rows = _rows_to_compute(before, dirty)
        clusters = _put(before, rows, local_clusters(lists, parameters, half_rows, run, rows))

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
        dirty_smoothed = dirty | _guided(first_change, rescaled, lists, clusters.rows, parameters)
        before_smoothed = _moved(old.smoothed, change)
        smoothed_rows = _rows_to_compute(before_smoothed, dirty_smoothed)
        if len(smoothed_rows) > _MOST_DIFFUSED * len(source):
            return None
        rows = smoothed_rows  # nobody reads F again: it is made for smoothing, and let go of
        if old.f is not None:
            before = _moved(old.f, change)
            rows = _rows_to_compute(before, dirty)
        similarity = similarity_on_clusters(
            graph, clusters.rows, source.distances, parameters, run, rows=rows
        )
        if old.f is not None:
            similarity = _put(before, rows, similarity).rows

    with progress.stage("smoothing", len(source)):
        if old.f is None:
            near_rows = take(confident.rows, smoothed_rows)
            fresh = smooth(similarity, near_rows, neighbors, parameters, run)
            smoothed = _put(before_smoothed, smoothed_rows, fresh)
        else:
            every_row = smooth(similarity, confident.rows, neighbors, parameters, run)
            differs = patch.differs(before_smoothed.rows, every_row, _NEGLIGIBLE)
            smoothed = PatchedRows(every_row, before_smoothed.incomplete | differs)

    enhanced = smoothed
    if parameters.enhance_k is not None:
        with progress.stage("enhancement", len(source)):
            k = parameters.enhance_k
            dirty = confident.changed | (first_change < k)
            dirty |= reached(smoothed.changed, confident.rows)
            dirty |= reached(smoothed.changed, lists[:, :k])
            before = _moved(old.enhanced, change)
            rows = _rows_to_compute(before, dirty)
            near_rows = take(confident.rows, rows)
            fresh = enhance(smoothed.rows, near_rows, lists[rows], k, parameters.kappa, run)
            enhanced = _put(before, rows, fresh)

    with progress.stage("propagation", len(source)):
        if old.transition is None:
            p, every_row = propagate(enhanced.rows, parameters, layout, run)
            columns = EncodingColumns.of(every_row, run)
            other_encodings = np.ones(len(source), np.bool_)
        else:
            dirty = enhanced.changed | reached(enhanced.changed, enhanced.rows)
            before = _moved(old.transition, change)
            rows = _rows_to_compute(before, dirty)
            patched_p = _put(before, rows, transition(enhanced.rows, parameters, layout, run, rows))
            p = patched_p.rows
            other_encodings = patched_p.changed | reached(patched_p.changed, p)
            other_encodings |= patch.lost_rows(old.columns, change)
            rows = np.flatnonzero(other_encodings).astype(np.int32)
            fresh = encoding(p, layout, run, rows)
            columns = patch.exchanged(old.encoding, change, rows, fresh, run)

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


def _moved(rows: SparseRows, change: Change) -> MovedRows:
    """The rows of a stage as a change leaves them, before any is computed again."""
    moved, lost_entry = patch.moved_rows(rows, change)
    incomplete = lost_entry.copy()
    incomplete[change.n_kept :] = True
    return MovedRows(moved, incomplete)


def _rows_to_compute(before: MovedRows, dirty: Mask) -> Ints:
    """Rows whose inputs changed, new ones, and those that lost an entry; ascending."""
    return np.flatnonzero(dirty | before.incomplete).astype(np.int32)


def _put(before: MovedRows, rows: Ints, fresh: SparseRows) -> PatchedRows:
    """The rows of a stage after a change; fresh : those that were computed, ``rows``."""
    changed = np.zeros(len(before.rows), np.bool_)
    if len(rows) == 0:
        return PatchedRows(before.rows, changed)
    differs = patch.differs(take(before.rows, rows), fresh, _NEGLIGIBLE)
    changed[rows] = before.incomplete[rows] | differs
    return PatchedRows(patch.put(before.rows, rows, fresh), changed)


def _dirty_reciprocal(first_change: Ints, lists: Ints, k: int) -> Mask:
    """Rows whose R(i, k) can change: their list did, or that of one of their neighbours."""
    other_list = first_change < k
    return other_list | reached(other_list, lists[:, :k])


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
    if p is None or old.paths is None or affected.mean() > _MOST_LISTS:
        return path_graph(source, columns, run)
    near = source.neighbors.indices[:, : source.method.geodesic_k]
    pairs = affected_pairs(affected, near)
    rows = rows_of_pairs(pairs)
    fresh_encoding = placed(encoding(p, source.layout, run, rows), rows)
    divergence = Divergence(fresh_encoding, source.method.divergence, columns.norms)
    return changed_paths(old.paths, change, affected, divergence.pairs(pairs, run), run)


def _cells(old: State, change: Change, run: Runner) -> Ints:
    """The cells of all rows; a new one goes to the nearest."""
    if len(old.cell) == 0:
        return old.cell
    near = exact_search(change.vectors[change.n_kept :], old.centres, 1, run).indices[:, 0]
    return np.concatenate([old.cell[change.kept], near]).astype(np.int32)
