"""From vectors, or from neighbour lists that somebody else found, to everything an index knows."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index.ids import as_ids, refuse_duplicates
from kinrank.index.state import EncodingColumns, Scaling, Source, State, check_online
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.projection.kinds import Kind, check_kind
from kinrank.projection.projection import Projection
from kinrank.runs.execution import Execution
from kinrank.search.searcher import Store
from kinrank.stages.divergence import Divergence
from kinrank.stages.encode import encode
from kinrank.stages.graph import list_affinities
from kinrank.stages.layout import Layout
from kinrank.stages.parameters import StageParameters
from kinrank.stages.precomputed import precomputed_distances
from kinrank.stages.sparse import row_sums, transposed
from kinrank.types import Floats, Neighbors, SparseRows
from kinrank.validation import as_matrix, as_vectors

_SAMPLE = 1024  # rows that tell how far the farthest is


def build_from_vectors(
    method: CASMethod, gallery: Any, ids: Any, context: Any, execution: Execution
) -> State:
    """All lists searched, all stages computed."""
    check_online(method)
    run = execution.runner
    gallery = as_matrix("gallery", gallery)
    named = [("gallery", gallery)] + ([] if context is None else [("context", context)])
    cosine = method.metric == "cosine"
    vectors, scaling = Scaling.fit(*named, cosine=cosine, whiten=method.whiten, run=run)
    if len(vectors) < 2:
        raise InvalidInputError("An index must have at least two rows, got one.")
    ids = refuse_duplicates(as_ids(ids, len(gallery)))
    resolved = method.resolved(len(vectors))
    length = resolved.list_length()
    cells: dict[str, Any] = {}
    if execution.search == "approximate":
        neighbors, cells = approximate_neighbors(vectors, length, run)
    else:
        as_given = vectors
        if not (cosine or method.whiten is not None or isinstance(execution.search, str)):
            as_given = as_vectors(*named, together=False)
        neighbors = execution.searcher(vectors, as_given).neighbors(length)
    return build(method, resolved, scaling, ids, neighbors, vectors, run, **cells)


def build_from_lists(
    method: CASMethod,
    distances: Any,
    indices: Any,
    *,
    ids: Any,
    vectors: Any,
    store: Store | None,
    squared: bool,
    farthest: Any,
    run: Runner,
) -> State:
    """All stages computed from lists that are known; see ``Index.from_neighbors``."""
    check_online(method)
    if (vectors is None) == (store is None):
        raise InvalidInputError("Give either `vectors` or `store`, not both or neither.")
    projection = _projected(method, store)
    distances = as_matrix("distances", distances)
    if indices is None:
        raise InvalidInputError(
            "`distances` needs `indices`, the rows that they belong to, and none were given."
        )
    ids = refuse_duplicates(as_ids(ids, len(distances)))
    cosine = method.metric == "cosine"
    sample = vectors if store is None else store.fetch(ids[:: max(1, len(ids) // _SAMPLE)])
    rows, scaling = Scaling.fit(("vectors", sample), cosine=cosine)
    if store is None and len(rows) != len(ids):
        raise InvalidInputError(
            f"`vectors` must be one per row of `distances` ({len(ids)}), got {len(rows)}."
        )
    if farthest is None:
        power = 2 if squared else 1
        farthest = np.ldexp(_estimate_farthest(rows, power), scaling.exponent * power)
    if store is not None:  # distances are the store's: nothing may be moved
        if projection is not None and projection.dims != scaling.width:
            raise InvalidInputError(
                f"`whiten` must make rows like those of the store ({scaling.width} columns), "
                f"got {projection}."
            )
        rows = np.empty((0, scaling.width), np.float32)
        width = scaling.width if projection is None else projection.width
        scaling = Scaling(width, cosine, projection=projection)
    lists = precomputed_distances(
        distances, indices, squared=squared, farthest=farthest, exponent=scaling.exponent
    ).neighbors
    resolved = method.resolved(lists.k, "listed neighbours")
    return build(method, resolved, scaling, ids, lists, rows, run)


def _projected(method: CASMethod, store: Store | None) -> Projection | None:
    """The projection by which the rows of a store were projected before they came there."""
    if method.whiten is None:
        return None
    if store is None:
        raise InvalidInputError(
            "`whiten` must be None with lists of neighbours, which are those of rows as they are, "
            f"got {method.whiten!r}: project the rows first (Projection.transform), and search"
            " these."
        )
    if not isinstance(method.whiten, Projection):
        raise InvalidInputError(
            "`whiten` must be a fitted Projection for an index over a store, got "
            f"{method.whiten!r}: fit one (kinrank.Projection.fit), and keep in the store what "
            "its `transform` makes of the rows. Queries are projected by it then."
        )
    return method.whiten


def relearnt_kind(state: State, whiten: Any) -> Kind:
    """What ``Index.relearn`` learns: what is asked for, or what the index was made with."""
    if whiten is not None:
        return check_kind("whiten", whiten)
    before = state.asked.whiten
    if before is None:
        raise InvalidInputError(
            "This index was made without a projection: say what to learn, such as whiten='pairs'."
        )
    if not isinstance(before, Projection):
        return before
    try:
        return check_kind("whiten", before.kind)
    except InvalidInputError:
        raise InvalidInputError(
            f"`whiten` is missing: this index was made with {before}, which does not say how it "
            "was learnt. Say what to learn, such as whiten='pairs'."
        ) from None


def build(
    asked: CASMethod,
    method: CASMethod,
    scaling: Scaling,
    ids: Any,
    neighbors: Neighbors,
    vectors: Floats,
    run: Runner,
    **cells: Any,
) -> State:
    """All stages, over rows that are put side by side with their neighbours.

    neighbors, vectors : of [gallery; context], by name; cells : of an approximate search
    """
    with progress.stage("layout", len(neighbors)):
        order = Layout.near(neighbors.indices, min(method.k1 + 1, neighbors.k), 0).order
        if "cell" in cells:
            cells["cell"] = cells["cell"][order]
        source = Source(
            asked=asked,
            method=method,
            scaling=scaling,
            ids=ids,
            order=order,
            vectors=vectors[order] if len(vectors) else vectors,
            neighbors=neighbors,
            **cells,
        )
        source = replace(source, neighbors=source.layout.neighbors(neighbors))
    return encoded_state(source, run)


def encoded_state(source: Source, run: Runner) -> State:
    """All stages of all rows, and everything an index keeps of them."""
    parameters = source.method.stage_parameters
    stages = encode(parameters, source.distances, source.layout, run)
    encoding = EncodingColumns.of(stages.encoding, run)
    return make_state(
        source,
        confident=stages.confident,
        half=stages.half,
        w=stages.graph.w,
        similarity=stages.similarity,
        smoothed=stages.smoothed,
        enhanced=stages.enhanced,
        transition=stages.transition,
        encoding=encoding,
        paths=path_graph(source, encoding, run) if source.method.geodesic else None,
        run=run,
    )


def make_state(
    source: Source,
    *,
    confident: SparseRows,
    half: SparseRows | None,
    w: SparseRows,
    similarity: SparseRows,
    smoothed: SparseRows,
    enhanced: SparseRows,
    transition: SparseRows | None,
    encoding: EncodingColumns,
    paths: SparseRows | None,
    run: Runner,
) -> State:
    """The state of an index from its source and what the stages made; see ``State``."""
    n = len(source)
    if half is None:
        half = SparseRows(np.zeros(n + 1, np.int64), np.empty(0, np.int32), None, n)
    again = source.method.stage_parameters.reads_similarity_again
    known = {field.name: getattr(source, field.name) for field in fields(Source)}
    return State(
        **known,
        xi=confident,
        half=half,
        w=w,
        f=similarity if again else None,
        smoothed=smoothed,
        enhanced=enhanced,
        transition=transition,
        columns=encoding.columns,
        entropies=encoding.entropies,
        norms=encoding.norms,
        paths=paths,
        degree=row_sums(w, run).astype(np.float32),
        walk_norm=_walk_norms(source.neighbors, source.method.stage_parameters),
    )


def path_graph(source: Source, encoding: EncodingColumns, run: Runner) -> SparseRows:
    """d' on the pairs of which one is among the geodesic_k nearest of the other."""
    method = source.method
    with progress.stage("geodesic", len(source)):
        rows = transposed(encoding.columns, run)
        divergence = Divergence(rows, method.divergence, encoding.norms)
        return divergence.graph(source.neighbors.indices, method.geodesic_k, run)


def _walk_norms(neighbors: Neighbors, parameters: StageParameters) -> Floats:
    """Sums of the affinities to the rows of the walk."""
    weights = list_affinities(neighbors, 1, parameters.walk_k, parameters.sigma)
    norms: Floats = weights.sum(axis=1, dtype=np.float64).astype(np.float32)
    return norms


def approximate_neighbors(vectors: Floats, k: int, run: Runner) -> tuple[Neighbors, dict[str, Any]]:
    """Lists that were found by cells, the cells that queries are searched in, and the recall."""
    from kinrank.search import cells
    from kinrank.search.cells import measured_recall

    search = cells.CellSearch(vectors, run)
    with progress.stage("neighbours", len(vectors)):
        neighbors = search.rows(0, len(vectors), k)
    centres, cell = search.division
    recall = measured_recall(vectors, neighbors, run)
    return neighbors, {"centres": centres, "cell": cell, "recall": recall}


def _estimate_farthest(rows: Floats, power: int) -> float:
    """The mean, over some rows, of the largest distance to the others of them, to a power."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)]
    norms = np.einsum("ij,ij->i", sample, sample)
    top = (norms[:, None] + norms - 2 * sample @ sample.T).max(axis=1)
    mean = max(float(np.mean(top)), float(np.finfo(np.float32).tiny))
    return mean if power == 2 else float(np.sqrt(mean))
