"""The graph of mutual neighbours that diffusion of retrieval scores runs on."""

from __future__ import annotations

import numpy as np

from kinrank.graph.build import weighted_lists
from kinrank.graph.clusters import reciprocal
from kinrank.graph.matrix import normalized
from kinrank.kernels.lists import without_diagonal
from kinrank.kernels.rows import values_at
from kinrank.parallel import Out, Runner
from kinrank.types import Floats, Neighbors, SparseRows


def mutual_graph(neighbors: Neighbors, k: int, gamma: float, run: Runner) -> SparseRows:
    """D^-1/2 W D^-1/2 with W_ij = max(s_ij, 0)^gamma where i and j are in each other's first k.

    neighbors : of unit vectors, so that s = 1 - d^2 / 2; the row itself counts among its k but has
    no edge
    """
    n = len(neighbors)
    args = (neighbors.distances, gamma)
    weights = run.fill("graph", _power_rows, args, n, Out(np.float32, k))
    near = weighted_lists(neighbors.indices, 0, weights, run)
    pattern = reciprocal(neighbors.indices, k, run)
    places = (pattern.indptr, pattern.indices, near.indptr, near.indices, near.values)
    own = Out(np.float32, indptr=pattern.indptr)
    w = pattern.with_data(run.fill("graph", values_at, places, n, own))
    edges = (w.indptr, w.indices, w.values)
    return normalized(run.rows("graph", without_diagonal, edges, n, n), run)


def similarity_power(squared: Floats, gamma: float) -> Floats:
    """max(s, 0)^gamma from squared distances of unit vectors."""
    return (np.maximum(1 - squared / 2, 0) ** np.float32(gamma)).astype(np.float32)


def _power_rows(low: int, high: int, squared: Floats, gamma: float, out: Floats) -> None:
    out[low:high] = similarity_power(squared[low:high, : out.shape[1]], gamma)
