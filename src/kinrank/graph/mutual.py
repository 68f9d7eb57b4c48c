"""The graph of mutual neighbours that diffusion of retrieval scores runs on."""

from __future__ import annotations

import numpy as np

from kinrank.graph.clusters import reciprocal
from kinrank.kernels.rows import values_at
from kinrank.parallel import Runner
from kinrank.types import Neighbors, SparseRows


def mutual_graph(neighbors: Neighbors, k: int, gamma: float, run: Runner) -> SparseRows:
    """D^-1/2 W D^-1/2 with W_ij = max(s_ij, 0)^gamma where i and j are in each other's first k.

    neighbors : of unit vectors, so that s = 1 - d^2 / 2; the row itself counts among its k but has
    no edge
    """
    n = len(neighbors)
    lists = neighbors.indices[:, :k]
    order = np.argsort(lists, axis=1)
    ids = np.take_along_axis(lists, order, axis=1).ravel()
    weight = similarity_power(neighbors.distances[:, :k], gamma)
    weight = np.take_along_axis(weight, order, axis=1).ravel()
    pattern = reciprocal(np.ascontiguousarray(lists), k, run)
    found = np.empty(pattern.nnz, np.float32)
    ptr = np.arange(0, n * k + 1, k, dtype=np.int64)
    args = (pattern.indptr, pattern.indices, ptr, ids, weight, found)
    run.map("graph", lambda a, b: values_at(a, b, *args), n)
    return normalized(_without_diagonal(pattern.with_data(found)))


def similarity_power(squared: np.ndarray, gamma: float) -> np.ndarray:
    """max(s, 0)^gamma from squared distances of unit vectors."""
    return (np.maximum(1 - squared / 2, 0) ** np.float32(gamma)).astype(np.float32)


def _without_diagonal(w: SparseRows) -> SparseRows:
    owner = np.repeat(np.arange(len(w)), w.lengths)
    kept = (owner != w.indices) & (w.values > 0)
    ptr = np.zeros(len(w) + 1, np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=len(w)), out=ptr[1:])
    return SparseRows(ptr, w.indices[kept], w.values[kept], w.n_columns)


def normalized(w: SparseRows) -> SparseRows:
    """D^-1/2 W D^-1/2, D the row sums; a row without weight stays empty of it."""
    owner = np.repeat(np.arange(len(w)), w.lengths)
    degree = np.bincount(owner, weights=w.values, minlength=len(w))
    root = np.zeros(len(w))
    np.divide(1.0, np.sqrt(degree), out=root, where=degree > 0)
    return w.with_data((w.values * root[owner] * root[w.indices]).astype(np.float32))
