"""Engines from vectors, or from neighbour lists that somebody else found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.index.build import Given, build
from kinrank.index.engine import Engine
from kinrank.index.frame import Frame
from kinrank.index.ids import as_ids, refuse_duplicates
from kinrank.index.searchers import ExactSearch, ProbedSearch, RowSearch
from kinrank.index.settings import check_online
from kinrank.index.state import State
from kinrank.index.store_answers import SearchStore
from kinrank.index.store_search import StoreSearch
from kinrank.methods.cas import CAS
from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors
from kinrank.stages.distance import ListDistances
from kinrank.stages.precomputed import precomputed_distances
from kinrank.types import Floats, Ints, Neighbors
from kinrank.validation import as_matrix, check_bool, check_choice

_SOME = 1024  # rows that tell how far the farthest is


@dataclass(frozen=True, eq=False)
class Listed:
    """Neighbour lists as a user brings them; see ``CAS.rerank_neighbors``."""

    distances: Any
    indices: Any
    squared: bool
    farthest: Any


def from_vectors(
    method: CAS, gallery: Any, ids: Any, context: Any, search: str, run: Runner
) -> Engine:
    """All lists searched, all stages computed."""
    check_online(method)
    check_choice("search", search, ("exact", "approximate"))
    gallery = as_matrix("gallery", gallery)
    named = [("gallery", gallery)] + ([] if context is None else [("context", context)])
    vectors, frame = Frame.of(*named, cosine=method.metric == "cosine")
    if len(vectors) < 2:
        raise InvalidInputError("An index must have at least two rows, got one.")
    own = as_ids(ids, len(gallery))
    refuse_duplicates(own)
    fitted = method.resolved(len(vectors))
    length = fitted.list_length()
    if search == "exact":
        neighbors = exact_neighbors(vectors, length, run)
        state = build(Given(method, fitted, frame, own, neighbors, vectors), run)
    else:
        found = _approximate(vectors, length, run)
        state = build(Given(method, fitted, frame, own, found[0], vectors, *found[1:]), run)
    return Engine(state, search_of(state, None))


def from_lists(
    method: CAS, lists: Listed, ids: Any, vectors: Any, store: SearchStore | None, refine: bool,
    run: Runner,
) -> Engine:  # fmt: skip
    """All stages computed from lists that are known."""
    check_online(method)
    if (vectors is None) == (store is None):
        raise InvalidInputError("Either `vectors` or `store` must be given, got both or none.")
    distances = as_matrix("distances", lists.distances)
    if lists.indices is None:
        raise InvalidInputError("`indices` must be given with `distances`, got None.")
    own = as_ids(ids, len(distances))
    refuse_duplicates(own)
    cosine = method.metric == "cosine"
    sample = vectors if store is None else store.fetch(own[:: max(1, len(own) // _SOME)])
    rows, frame = Frame.of(("vectors", sample), cosine=cosine)
    if store is None and len(rows) != len(own):
        raise InvalidInputError(
            f"`vectors` must be one per row of `distances` ({len(own)}), got {len(rows)}."
        )
    squared, farthest = lists.squared, lists.farthest
    if farthest is None:
        farthest = np.ldexp(
            _estimate_farthest(rows, squared=squared), frame.exponent * (2 if squared else 1)
        )
    if store is not None:
        frame = Frame(frame.width, cosine)  # distances are the store's: nothing may be moved
    known = precomputed_distances(
        distances, lists.indices, squared=squared, farthest=farthest, exponent=frame.exponent
    )
    assert isinstance(known, ListDistances)
    fitted = method.resolved(known.neighbors.k, "listed neighbours")
    kept = rows if store is None else np.empty((0, frame.width), np.float32)
    state = build(Given(method, fitted, frame, own, known.neighbors, kept), run)
    return Engine(state, search_of(state, store, refine))


def search_of(state: State, store: SearchStore | None, refine: bool = True) -> RowSearch:
    """Where the nearest rows of a query come from."""
    if len(state.vectors) == 0:
        return StoreSearch(store, state, check_bool("refine", refine))
    if store is not None:
        raise InvalidInputError("`store` must be left out: the index has its own vectors.")
    if len(state.cell):
        return ProbedSearch(state.vectors, state.centres, state.cell)
    return ExactSearch(state.vectors)


def _approximate(vectors: Floats, k: int, run: Runner) -> tuple[Neighbors, Floats, Ints, float]:
    """Lists that were found by cells, the cells that queries are searched in, and the recall."""
    from kinrank.search import cells
    from kinrank.search.cells import measured_recall

    search = cells.CellSearch(vectors, run)
    with progress.stage("neighbours", len(vectors)):
        neighbors = search.rows(0, len(vectors), k, run)
    return neighbors, *search.division, measured_recall(vectors, neighbors, run)


def _estimate_farthest(rows: Floats, *, squared: bool) -> float:
    """The mean, over some rows, of the largest distance to the others of them."""
    some = rows[:: max(1, len(rows) // _SOME)]
    norms = np.einsum("ij,ij->i", some, some)
    top = (norms[:, None] + norms - 2 * some @ some.T).max(axis=1)
    mean = max(float(np.mean(top)), float(np.finfo(np.float32).tiny))
    return mean if squared else float(np.sqrt(mean))
