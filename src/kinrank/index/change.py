"""A gallery that changes: rows that depend on the change are computed again, the others stay.

For each stage of CAS (``stages.encode`` has their order): which rows are *dirty*, that is, have
inputs that changed; compute these; put them among the others; and see which of them really became
others, since these make rows of the next stage dirty. The result is that of a fresh build, up to
rounding. ``change_rows`` has the steps that all stages share, ``change_neighbors`` the neighbour
lists, ``change_paths`` the graph of shortest paths.

``_patched_state`` goes through the stages; the functions of the stages all take ``old`` (the state
before), ``change`` (which rows go and come), ``lists`` (how neighbour lists changed) and
``parameters`` (k1, k2 and others). ``graph.w`` is the affinity W, ``graph.s`` the normalised S.

Row numbers and masks of rows, (n,) bool, are those after the change unless they are called old;
rows that stay come first, in their old order, and new ones behind. ``run`` says how many threads
work, and changes no result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index.build import (
    approximate_neighbors,
    build,
    encoded_state,
    make_state,
    path_graph,
)
from kinrank.index.change_neighbors import changed_neighbors
from kinrank.index.change_paths import affected_pairs, changed_paths, rows_of_pairs
from kinrank.index.change_rows import (
    Change,
    Mask,
    MovedRows,
    PatchedRows,
    differing_rows,
    encoding_with_rows,
    moved_rows,
    rows_that_hold,
    rows_that_lost_an_entry,
)
from kinrank.index.ids import Ids, joined, refuse_duplicates
from kinrank.index.state import EncodingColumns, Source, State, resolved
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.stages.clusters import local_clusters, reciprocal
from kinrank.stages.diffusion import polynomial_of, similarity_on_clusters
from kinrank.stages.divergence import Divergence
from kinrank.stages.encode import graph_of_lists
from kinrank.stages.enhancement import enhance
from kinrank.stages.graph import Graph
from kinrank.stages.parameters import StageParameters
from kinrank.stages.propagation import encoding, propagate, transition
from kinrank.stages.smoothing import smooth
from kinrank.stages.sparse import placed, take, times
from kinrank.types import Floats, Ints, SparseRows

# A bound on what changed edges do to a row of F, far above what they really do: with a hundred
# times this, distances were still those of a fresh build to 1e-7.
_LEAST_EFFECT = 1e-5
# All rows are computed where computing some of them alone would cost more:
# a list that is searched alone costs about twice as much as one of a search of all rows, where each
# product serves two rows;
_MOST_SEARCHED = 0.4
# lists that changed for so many rows reach most rows of the later stages;
_MOST_LISTS = 0.1
# and a row that is diffused alone costs 3 to 8 times as much as one of many that go side by side.
_MOST_DIFFUSED = 1 / 8
_CELLS_SEEN = 64  # that a row looks into when the lists of all rows are searched in cells


def changed(state: State, removed_ids: Ids, vectors: Floats, added_ids: Ids, run: Runner) -> State:
    """The state without some gallery rows and with new ones, which become the last of the gallery.

    Costs no more than a fresh build: where most rows would be computed, all of them are.

    removed_ids : the ids of the rows that go
    vectors, added_ids : the rows that come: (m, d) float32, scaled, and their ids
    """
    removed_indices = state.id_table.rows(removed_ids)
    if len(np.unique(removed_indices)) != len(removed_indices):
        refuse_duplicates(removed_ids)
    ids = joined(np.delete(state.ids, removed_indices), added_ids)
    if len(ids) == 0 or len(state) - len(removed_indices) + len(vectors) < 2:
        raise InvalidInputError(f"An index must keep at least two rows, got {len(ids)}.")
    if len(removed_indices) + len(vectors) == 0:
        return state
    kept = np.ones(len(state), np.bool_)
    kept[state.position[removed_indices]] = False
    order = _changed_order(state, kept, len(vectors))
    change = Change(kept, order, np.concatenate([state.vectors[kept], vectors]))
    method = resolved(state.unresolved, len(order))
    # Sizes follow from the number of rows while these are few; lists that users brought are longer.
    sizes_differ = method != state.method or state.neighbors.k > len(order)
    if sizes_differ or _fresh_lists_cost_less(state, change):
        return _built_afresh(state, method, change, ids, run)
    with progress.stage("neighbours", len(order)):
        neighbors = changed_neighbors(state.neighbors, state.vectors, change, run)
    source = replace(
        state,
        ids=ids,
        order=order,
        vectors=change.vectors,
        neighbors=neighbors,
        cell=_changed_cells(state, change, run),
    )
    return _patched_state(state, source, change, run) or encoded_state(source, run)


def _fresh_lists_cost_less(state: State, change: Change) -> bool:
    """Whether to search the lists of all rows, rather than those that the change breaks."""
    n = len(change.order)
    is_broken = rows_that_hold(~change.kept, state.neighbors.indices[change.kept])
    n_searched = np.count_nonzero(is_broken) + n - change.n_kept
    if len(state.cell) == 0:
        return bool(n_searched > _MOST_SEARCHED * n)
    # A search in cells sees few rows, a broken list is searched among all of them.
    share_seen = min(1.0, _CELLS_SEEN / max(len(state.centres), 1))
    return bool(n_searched > share_seen * n)


def _changed_order(state: State, kept: Mask, n_added: int) -> Ints:
    """(n_new,) int32, the index of each row after a change.

    Added rows are the last rows, but by index they lie behind the gallery and before the context.

    kept : (n_old,) whether an old row stays
    """
    old_indices = state.order[kept]
    stays = np.zeros(len(state), np.int64)
    stays[old_indices] = 1
    n_staying_before = np.cumsum(stays) - 1
    n_gallery = int(stays[: state.n_gallery].sum())
    in_gallery = old_indices < state.n_gallery
    indices = n_staying_before[old_indices] + np.where(in_gallery, 0, n_added)
    return np.concatenate([indices, n_gallery + np.arange(n_added)]).astype(np.int32)


def _changed_cells(old: State, change: Change, run: Runner) -> Ints:
    """(n_new,) the cell of each row: a new one goes to the nearest centre; (0,) without cells."""
    if len(old.cell) == 0:
        return old.cell
    new_vectors = change.vectors[change.n_kept :]
    nearest = exact_search(new_vectors, old.centres, 1, run).indices[:, 0]
    return np.concatenate([old.cell[change.kept], nearest]).astype(np.int32)


def _built_afresh(state: State, method: CASMethod, change: Change, ids: Ids, run: Runner) -> State:
    """The state of a fresh build over the rows after a change, searched as the old one was.

    method : resolved against these rows; ids : of the gallery rows among them
    """
    vectors = np.empty_like(change.vectors)
    vectors[change.order] = change.vectors
    length = method.list_length()
    cells = None
    if len(state.cell) == 0:
        neighbors = exact_neighbors(vectors, length, run)
    else:
        neighbors, cells = approximate_neighbors(vectors, length, run)
    return build(state.unresolved, method, state.scaling, ids, neighbors, vectors, cells, run)


def _patched_state(old: State, source: Source, change: Change, run: Runner) -> State | None:
    """The state after a change, stage by stage: which rows are dirty, compute these, put them.

    source : parameters, vectors and neighbour lists after the change
    Returns None where so many rows are dirty that computing all of them costs less.
    """
    parameters = source.method.stage_parameters
    n = len(source)
    lists = ListChanges.between(old, source, change)
    if np.mean(lists.within(parameters.cluster_k)) > _MOST_LISTS:
        return None
    with progress.stage("clusters", n):
        confident = _changed_confident(old, lists, change, parameters, run)
        half = _changed_half(old, lists, change, parameters, run)
        clusters = _changed_clusters(old, lists, half, change, parameters, run)
    with progress.stage("graph", n):
        graph = graph_of_lists(source.neighbors, confident.rows, parameters, run)
    smoothing = _changed_smoothing(
        old, source, change, lists, confident, clusters, graph, parameters, run
    )
    if smoothing is None:
        return None
    smoothed = smoothing.smoothed
    with progress.stage("enhancement", n):
        enhanced = _changed_enhanced(old, lists, confident, smoothed, change, parameters, run)
    with progress.stage("propagation", n):
        encodings = _changed_encodings(old, source, enhanced, change, parameters, run)
    paths = None
    if source.method.geodesic:
        is_affected = encodings.is_changed | lists.within(source.method.geodesic_k)
        paths = _patched_paths(old, source, change, encodings, is_affected, run)
    return make_state(
        source,
        confident=confident.rows,
        half=None if half is None else half.rows,
        affinity=graph.w,
        similarity=smoothing.similarity,
        smoothed=smoothed.rows,
        enhanced=enhanced.rows,
        transition=encodings.transition,
        encoding=encodings.columns,
        paths=paths,
        run=run,
    )


@dataclass(frozen=True, eq=False)
class ListChanges:
    """What a change does to the neighbour lists, from which every stage starts.

    indices : (n, K) int32, the nearest rows of each row after the change, itself first
    first_change : (n,) int32, the first place of each list that holds another row than before:
        0 for a new row, K where the whole list is what it was
    is_rescaled : (n,) rows with another largest distance, so that all their affinities change
    """

    indices: Ints
    first_change: Ints
    is_rescaled: Mask

    @classmethod
    def between(cls, old: Source, new: Source, change: Change) -> ListChanges:
        """From the sources before and after a change."""
        n_kept = change.n_kept
        lists = new.neighbors.indices
        old_lists = change.renumbered(old.neighbors.indices[change.kept])
        differs = old_lists != lists[:n_kept]
        first_change = np.zeros(len(lists), np.int32)
        first_change[:n_kept] = np.where(
            differs.any(axis=1), differs.argmax(axis=1), lists.shape[1]
        )
        farthest = new.neighbors.farthest
        is_rescaled = np.ones(len(farthest), np.bool_)
        is_rescaled[:n_kept] = farthest[:n_kept] != old.neighbors.farthest[change.kept]
        return cls(lists, first_change, is_rescaled)

    def within(self, k: int) -> Mask:
        """(n,) rows whose first ``k`` neighbours changed."""
        return self.first_change < k

    def around(self, k: int) -> Mask:
        """(n,) rows whose first ``k`` neighbours changed, or those of one of these neighbours."""
        has_changed = self.within(k)
        return has_changed | rows_that_hold(has_changed, self.indices[:, :k])


def _changed_confident(
    old: State, lists: ListChanges, change: Change, parameters: StageParameters, run: Runner
) -> PatchedRows:
    """xi, the confident neighbours of all rows after a change."""
    k = parameters.confident_k
    moved = MovedRows.of(old.confident, change)
    rows = moved.rows_to_compute(lists.around(k))
    return moved.put(rows, reciprocal(lists.indices, k, run, rows))


def _changed_half(
    old: State, lists: ListChanges, change: Change, parameters: StageParameters, run: Runner
) -> PatchedRows | None:
    """R(i, k1 / 2) of all rows after a change; None where clusters are not expanded by it."""
    if parameters.clusters != "expanded":
        return None
    k = parameters.half_k
    moved = MovedRows.of(old.half, change)
    rows = moved.rows_to_compute(lists.around(k))
    return moved.put(rows, reciprocal(lists.indices, k, run, rows))


def _changed_clusters(
    old: State,
    lists: ListChanges,
    half: PatchedRows | None,
    change: Change,
    parameters: StageParameters,
    run: Runner,
) -> PatchedRows:
    """C, the clusters of all rows after a change; half : of ``_changed_half``."""
    is_dirty = lists.around(parameters.cluster_k)
    if half is not None:
        is_dirty |= rows_that_hold(half.is_changed, lists.indices[:, : parameters.cluster_k])
    kept_similarity = old.similarity or old.smoothed  # both have an entry wherever C has one
    moved = MovedRows.of(kept_similarity.with_data(None), change)
    rows = moved.rows_to_compute(is_dirty)
    half_rows = None if half is None else half.rows
    return moved.put(rows, local_clusters(lists.indices, parameters, half_rows, run, rows))


class _Smoothing(NamedTuple):
    """F and smoothed F after a change; similarity : of all rows only if the state keeps it."""

    similarity: SparseRows
    smoothed: PatchedRows


def _changed_smoothing(
    old: State,
    source: Source,
    change: Change,
    lists: ListChanges,
    confident: PatchedRows,
    clusters: PatchedRows,
    graph: Graph,
    parameters: StageParameters,
    run: Runner,
) -> _Smoothing | None:
    """F by diffusion over the graph, and smoothed F, after a change.

    Both in one function: a state that does not keep F makes it of those rows alone that are
    smoothed again. Returns None where these are so many that computing all rows costs less.
    """
    neighbors = source.neighbors
    n = len(source)
    with progress.stage("diffusion", n):
        has_other_edges = (
            lists.within(parameters.graph_k + 1) | lists.is_rescaled | confident.is_changed
        )
        is_dirty = clusters.is_changed | confident.is_changed
        is_dirty |= _reached_by_diffusion(
            old, change, graph, clusters.rows, has_other_edges, lists.is_rescaled, parameters
        )
        is_dirty_smoothed = is_dirty | _reached_by_smoothing_walk(lists, clusters.rows, parameters)
        moved_smoothed = MovedRows.of(old.smoothed, change)
        smoothed_rows = moved_smoothed.rows_to_compute(is_dirty_smoothed)
        if len(smoothed_rows) > _MOST_DIFFUSED * n:
            return None
        if old.similarity is None:
            similarity = similarity_on_clusters(
                graph, clusters.rows, source.distances, parameters, run, rows=smoothed_rows
            )
        else:
            moved = MovedRows.of(old.similarity, change)
            rows = moved.rows_to_compute(is_dirty)
            computed = similarity_on_clusters(
                graph, clusters.rows, source.distances, parameters, run, rows=rows
            )
            similarity = moved.put(rows, computed).rows
    with progress.stage("smoothing", n):
        if old.similarity is None:
            their_confident = take(confident.rows, smoothed_rows)
            computed = smooth(similarity, their_confident, neighbors, parameters, run)
            return _Smoothing(similarity, moved_smoothed.put(smoothed_rows, computed))
        smoothed = smooth(similarity, confident.rows, neighbors, parameters, run)
        is_changed = moved_smoothed.is_incomplete | differing_rows(moved_smoothed.rows, smoothed)
        return _Smoothing(similarity, PatchedRows(smoothed, is_changed))


def _reached_by_diffusion(
    old: State,
    change: Change,
    graph: Graph,
    clusters: SparseRows,
    has_other_edges: Mask,
    is_rescaled: Mask,
    parameters: StageParameters,
) -> Mask:
    """(n,) rows of F that a changed edge of the graph can reach.

    Diffusion from i to j over a changed edge at m weighs u_i(m) u_j(m), where u_i(m) is the weight
    that arrives at m from i. The sum over all m is bounded at once: one vector, 1 at all ends of
    changed edges, is diffused for half as many steps as F takes.

    graph, clusters : after the change
    has_other_edges : (n,) rows whose own edges changed
    is_rescaled : (n,) rows with another largest distance
    """
    if parameters.similarity == "original":
        return is_rescaled
    polynomial = polynomial_of(parameters)
    old_affinity, lost_edge = moved_rows(old.affinity, change)
    has_other_edges = has_other_edges | lost_edge
    is_end_of_edge = has_other_edges | rows_that_hold(has_other_edges, graph.w)
    is_end_of_edge |= rows_that_hold(has_other_edges, old_affinity)
    weight = is_end_of_edge.astype(np.float64)
    total_weight = weight.copy()
    n_steps = max(len(polynomial.powers), len(polynomial.series)) // 2 + 1
    for _ in range(n_steps):
        weight = polynomial.decay * times(graph.s, weight)
        total_weight += weight
    most_in_cluster = np.maximum.reduceat(total_weight[clusters.indices], clusters.indptr[:-1])
    return np.asarray(total_weight * most_in_cluster > _LEAST_EFFECT)


def _reached_by_smoothing_walk(
    lists: ListChanges, clusters: SparseRows, parameters: StageParameters
) -> Mask:
    """(n,) rows with a member in their cluster whose two-step walk, the guide of NSS, changed."""
    if parameters.smoothing is None or parameters.reads_similarity_again:
        return np.zeros(len(clusters), np.bool_)
    has_other_step = lists.within(parameters.walk_k) | lists.is_rescaled
    walk_lists = lists.indices[:, : parameters.walk_k]
    has_other_walk = has_other_step | rows_that_hold(has_other_step, walk_lists)
    return rows_that_hold(has_other_walk, clusters)


def _changed_enhanced(
    old: State,
    lists: ListChanges,
    confident: PatchedRows,
    smoothed: PatchedRows,
    change: Change,
    parameters: StageParameters,
    run: Runner,
) -> PatchedRows:
    """Enhanced F of all rows after a change; smoothed F itself without enhancement."""
    k = parameters.enhance_k
    if k is None:
        return smoothed
    is_dirty = confident.is_changed | lists.within(k)
    is_dirty |= rows_that_hold(smoothed.is_changed, confident.rows)
    is_dirty |= rows_that_hold(smoothed.is_changed, lists.indices[:, :k])
    moved = MovedRows.of(old.enhanced, change)
    rows = moved.rows_to_compute(is_dirty)
    their_confident = take(confident.rows, rows)
    computed = enhance(
        smoothed.rows, their_confident, lists.indices[rows], k, parameters.kappa, run
    )
    return moved.put(rows, computed)


class _Encodings(NamedTuple):
    """P (None with propagation "transpose") and F' after a change, and whose F' changed, (n,)."""

    transition: SparseRows | None
    columns: EncodingColumns
    is_changed: Mask


def _changed_encodings(
    old: State,
    source: Source,
    enhanced: PatchedRows,
    change: Change,
    parameters: StageParameters,
    run: Runner,
) -> _Encodings:
    """P and F' of all rows after a change; with "transpose" all rows are computed."""
    layout = source.layout
    if old.transition is None:
        _, encoding_rows = propagate(enhanced.rows, parameters, layout, run)
        every_row = np.ones(len(source), np.bool_)
        return _Encodings(None, EncodingColumns.of(encoding_rows, run), every_row)
    is_dirty = enhanced.is_changed | rows_that_hold(enhanced.is_changed, enhanced.rows)
    moved = MovedRows.of(old.transition, change)
    rows = moved.rows_to_compute(is_dirty)
    p = moved.put(rows, transition(enhanced.rows, parameters, layout, run, rows))
    is_changed = p.is_changed | rows_that_hold(p.is_changed, p.rows)
    is_changed |= rows_that_lost_an_entry(old.columns, change)
    rows = np.flatnonzero(is_changed).astype(np.int32)
    computed = encoding(p.rows, layout, run, rows)
    columns = encoding_with_rows(old.encoding, change, rows, computed, run)
    return _Encodings(p.rows, columns, is_changed)


def _patched_paths(
    old: State,
    source: Source,
    change: Change,
    encodings: _Encodings,
    is_affected: Mask,
    run: Runner,
) -> SparseRows:
    """The graph of shortest paths after a change, see ``State.paths``.

    is_affected : (n,) rows with another F', or with others among their geodesic_k nearest
    """
    p = encodings.transition
    if p is None or old.paths is None or is_affected.mean() > _MOST_LISTS:
        return path_graph(source, encodings.columns, run)
    nearest = source.neighbors.indices[:, : source.method.geodesic_k]
    pairs = affected_pairs(is_affected, nearest)
    rows = rows_of_pairs(pairs)
    encoding_rows = placed(encoding(p, source.layout, run, rows), rows)
    divergence = Divergence(encoding_rows, source.method.divergence, encodings.columns.norms)
    return changed_paths(old.paths, change, is_affected, divergence.pairs(pairs, run), run)
