"""A state from nothing: from vectors, or from neighbour lists that somebody else found.

Both ways end in ``build``: rows are laid side by side with their neighbours, and all stages of CAS
are computed for all rows (``stages.encode``). How a state changes is in ``kinrank.index.change``.
``run`` says how many threads work, and changes no result.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index.ids import Ids, as_ids, refuse_duplicates
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
from kinrank.types import Floats, Ints, Neighbors, SparseRows
from kinrank.validation import as_matrix, as_vectors

_SAMPLE = 1024  # rows by which the largest distance is estimated


def build_from_vectors(
    method: CASMethod, gallery: Any, ids: Any, context: Any, execution: Execution
) -> State:
    """Search the neighbours of all rows, and compute all stages.

    method : as the user gave it
    gallery, context : (n_gallery, d) and (m, d) vectors as the user gave them; context may be None
    ids : (n_gallery,) names of the gallery rows; None numbers them
    execution : how neighbours are searched, and where the stages run
    """
    check_online(method)
    run = execution.runner
    gallery = as_matrix("gallery", gallery)
    named_vectors = [("gallery", gallery)]
    if context is not None:
        named_vectors.append(("context", context))
    cosine = method.metric == "cosine"
    vectors, scaling = Scaling.fit(
        *named_vectors, cosine=cosine, whiten=method.whiten, execution=execution
    )
    if len(vectors) < 2:
        raise InvalidInputError("An index must have at least two rows, got one.")
    ids = refuse_duplicates(as_ids(ids, len(gallery)))
    resolved = method.resolved(len(vectors))
    length = resolved.list_length()
    cells = None
    if execution.search == "approximate":
        neighbors, cells = approximate_neighbors(vectors, length, run)
    else:
        vectors_of_searcher = vectors
        # A searcher of users gets the vectors as they gave them, not scaled and moved.
        if not (cosine or method.whiten is not None or isinstance(execution.search, str)):
            vectors_of_searcher = as_vectors(*named_vectors, together=False)
        neighbors = execution.searcher(vectors, vectors_of_searcher).neighbors(length)
    state = build(method, resolved, scaling, ids, neighbors, vectors, cells, run)
    return execution.outlasting(state)


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
    """Compute all stages from neighbour lists that the user gave.

    method : as the user gave it
    distances, indices : (n, K) nearest rows of every row, in any order, -1 for none
    ids : (n,) names of the rows; None numbers them
    vectors, store : the rows, (n, d), or the store that has them; one of both is None
    squared : whether ``distances`` are squared
    farthest : the largest distance of each row, (n,) or one for all; None estimates one
    """
    check_online(method)
    if (vectors is None) == (store is None):
        raise InvalidInputError("Give either `vectors` or `store`, not both or neither.")
    projection = _projection_of_lists(method, store)
    distances = as_matrix("distances", distances)
    if indices is None:
        raise InvalidInputError(
            "`distances` needs `indices`, the rows that they belong to, and none were given."
        )
    ids = refuse_duplicates(as_ids(ids, len(distances)))
    cosine = method.metric == "cosine"
    some_vectors = vectors
    if store is not None:
        some_vectors = store.fetch(ids[:: max(1, len(ids) // _SAMPLE)])
    scaled, scaling = Scaling.fit(("vectors", some_vectors), cosine=cosine)
    if store is None and len(scaled) != len(ids):
        raise InvalidInputError(
            f"`vectors` must be one per row of `distances` ({len(ids)}), got {len(scaled)}."
        )
    if farthest is None:
        power = 2 if squared else 1
        farthest = np.ldexp(_estimate_farthest(scaled, power), scaling.exponent * power)
    if store is not None:  # distances are the store's: nothing may be moved
        if projection is not None and projection.dims != scaling.width:
            raise InvalidInputError(
                f"`whiten` must make rows like those of the store ({scaling.width} columns), "
                f"got {projection}."
            )
        scaled = np.empty((0, scaling.width), np.float32)
        width = scaling.width if projection is None else projection.width
        scaling = Scaling(width, cosine, projection=projection)
    lists = precomputed_distances(
        distances, indices, squared=squared, farthest=farthest, exponent=scaling.exponent
    ).neighbors
    resolved = method.resolved(lists.k, "listed neighbours")
    return build(method, resolved, scaling, ids, lists, scaled, None, run)


def _projection_of_lists(method: CASMethod, store: Store | None) -> Projection | None:
    """The projection by which the rows of a store were projected before they came there.

    None for no projection. Raises where lists of neighbours do not allow the one that ``method``
    has: without a store, and where it is not fitted yet.
    """
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
    """The kind of projection that ``Index.relearn`` learns: ``whiten``, or what the index has.

    whiten : as the user gave it; None stands for the kind that the index was made with
    """
    if whiten is not None:
        return check_kind("whiten", whiten)
    present = state.unresolved.whiten
    if present is None:
        raise InvalidInputError(
            "This index was made without a projection: say what to learn, such as whiten='pairs'."
        )
    if not isinstance(present, Projection):
        return present
    try:
        return check_kind("whiten", present.kind)
    except InvalidInputError:
        raise InvalidInputError(
            f"`whiten` is missing: this index was made with {present}, which does not say how it "
            "was learnt. Say what to learn, such as whiten='pairs'."
        ) from None


def build(
    unresolved: CASMethod,
    method: CASMethod,
    scaling: Scaling,
    ids: Ids,
    neighbors: Neighbors,
    vectors: Floats,
    cells: Cells | None,
    run: Runner,
) -> State:
    """Lay rows side by side with their neighbours, and compute all stages.

    unresolved, method : as the user gave it, and resolved against the number of rows
    ids : (n_gallery,) names of the gallery rows
    neighbors, vectors : the lists (n, K) and the scaled vectors (n, d) of [gallery; context], which
        count rows by index; vectors are (0, d) where a store keeps them
    cells : of an approximate search, by index; None for an exact one
    """
    with progress.stage("layout", len(neighbors)):
        layout = Layout.near(neighbors.indices, min(method.k1 + 1, neighbors.k), 0)
        order = layout.order
        source = Source(
            unresolved=unresolved,
            method=method,
            scaling=scaling,
            ids=ids,
            order=order,
            vectors=vectors[order] if len(vectors) else vectors,
            neighbors=layout.neighbors(neighbors),
        )
        if cells is not None:
            source = replace(
                source, centres=cells.centres, cell=cells.cell[order], recall=cells.recall
            )
    return encoded_state(source, run)


def encoded_state(source: Source, run: Runner) -> State:
    """Compute all stages of all rows, and keep of them what an index needs."""
    parameters = source.method.stage_parameters
    stages = encode(parameters, source.distances, source.layout, run)
    encoding = EncodingColumns.of(stages.encoding, run)
    return make_state(
        source,
        confident=stages.confident,
        half=stages.half,
        affinity=stages.graph.w,
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
    affinity: SparseRows,
    similarity: SparseRows,
    smoothed: SparseRows,
    enhanced: SparseRows,
    transition: SparseRows | None,
    encoding: EncodingColumns,
    paths: SparseRows | None,
    run: Runner,
) -> State:
    """Put a source and the results of its stages together; ``State`` describes them.

    half : None where clusters are not expanded
    similarity : F of all rows, or of any if the state does not keep it
    """
    n = len(source)
    if half is None:
        half = SparseRows(np.zeros(n + 1, np.int64), np.empty(0, np.int32), None, n)
    keeps_similarity = source.method.stage_parameters.reads_similarity_again
    source_fields = {field.name: getattr(source, field.name) for field in fields(Source)}
    return State(
        **source_fields,
        confident=confident,
        half=half,
        affinity=affinity,
        similarity=similarity if keeps_similarity else None,
        smoothed=smoothed,
        enhanced=enhanced,
        transition=transition,
        columns=encoding.columns,
        entropies=encoding.entropies,
        norms=encoding.norms,
        paths=paths,
        degree=row_sums(affinity, run).astype(np.float32),
        walk_norm=_walk_norms(source.neighbors, source.method.stage_parameters),
    )


def path_graph(source: Source, encoding: EncodingColumns, run: Runner) -> SparseRows:
    """The graph of shortest paths: d' on pairs of which one is near the other, (n, n) sparse.

    Near are the first ``geodesic_k`` rows of a list. The edges of a row ascend by length.
    """
    method = source.method
    with progress.stage("geodesic", len(source)):
        encoding_rows = transposed(encoding.columns, run)
        divergence = Divergence(encoding_rows, method.divergence, encoding.norms)
        return divergence.graph(source.neighbors.indices, method.geodesic_k, run)


def _walk_norms(neighbors: Neighbors, parameters: StageParameters) -> Floats:
    """(n,) float32, the sum of each row's affinities to the rows of its smoothing walk."""
    weights = list_affinities(neighbors, 1, parameters.walk_k, parameters.sigma)
    norms: Floats = weights.sum(axis=1, dtype=np.float64).astype(np.float32)
    return norms


class Cells(NamedTuple):
    """What an approximate search keeps: each row belongs to the cell of its nearest centre.

    centres : (c, d) float32; cell : (n,) int32, the cell of each row
    recall : the share of true neighbours that the lists have, measured on a sample
    """

    centres: Floats
    cell: Ints
    recall: float


def approximate_neighbors(vectors: Floats, k: int, run: Runner) -> tuple[Neighbors, Cells]:
    """The ``k`` nearest rows of every row as far as a search in cells finds them, and the cells."""
    from kinrank.search.cells import CellSearch, measured_recall

    search = CellSearch(vectors, run)
    with progress.stage("neighbours", len(vectors)):
        neighbors = search.rows(0, len(vectors), k)
    centres, cell = search.division
    return neighbors, Cells(centres, cell, measured_recall(vectors, neighbors, run))


def _estimate_farthest(vectors: Floats, power: int) -> float:
    """The mean largest distance of a row, estimated on a sample of (n, d) vectors.

    power : 2 for the squared distance, 1 for its root
    """
    sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
    norms = np.einsum("ij,ij->i", sample, sample)
    largest = (norms[:, None] + norms - 2 * sample @ sample.T).max(axis=1)
    mean = max(float(np.mean(largest)), float(np.finfo(np.float32).tiny))
    return mean if power == 2 else float(np.sqrt(mean))
