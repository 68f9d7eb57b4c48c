"""What diffusion on a gallery graph shares: the graph, and a query as a right side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinrank.graph.build import mutual_graph, similarity_power
from kinrank.kernels.lanes import LANES
from kinrank.methods.answer import rank_scores
from kinrank.neighbors.find import find_neighbors, find_rows
from kinrank.neighbors.search import dense_search
from kinrank.parallel import Runner
from kinrank.stored import Stored
from kinrank.types import Floats, Ranking, SparseRows


def gallery_graph(gallery: Stored, k: int, gamma: float, run: Runner) -> SparseRows:
    """The normalised mutual graph of unit vectors."""
    return mutual_graph(find_neighbors(gallery, k, run), k, gamma, run)


def query_starts(
    queries: Stored, gallery: Stored, kq: int, gamma: float, run: Runner
) -> SparseRows:
    """y = max(s, 0)^gamma at the kq nearest gallery rows of each query."""
    nearest = find_rows(queries, gallery, kq, run)
    order = np.argsort(nearest.indices, axis=1)
    ids = np.take_along_axis(nearest.indices, order, axis=1).ravel()
    values = np.take_along_axis(similarity_power(nearest.values, gamma), order, axis=1).ravel()
    ptr = np.arange(0, len(ids) + 1, kq, dtype=np.int64)
    return SparseRows(ptr, ids, values, len(gallery))


def rank_by_scores(
    rows: Callable[[int, int], Floats], queries: Stored, gallery: Stored, k: int, run: Runner
) -> Ranking:
    """The largest scores of ``rows(low, high)``, then what has none by its distance."""
    size = (len(queries), len(gallery), k)
    return rank_scores(rows, lambda q: dense_search(queries[q], gallery), size, run, LANES)
