"""Neighbour-guided similarity smooth (NSS), and what the paper's ablation puts in its place."""

from __future__ import annotations

import numpy as np

from kinrank.graph.build import affinity, transposed
from kinrank.kernels import guide as kernels
from kinrank.parallel import Runner
from kinrank.stages.product import product
from kinrank.types import Floats, Ints, Neighbors, SparseRows


def unit_rows(f: SparseRows) -> SparseRows:
    """Rows of L1 norm 1; a row without weight becomes uniform on its pattern."""
    owner = np.repeat(np.arange(len(f)), f.lengths)
    norm = np.bincount(owner, weights=f.values, minlength=len(f))
    uniform = 1 / np.maximum(f.lengths, 1)
    values = np.where(
        norm[owner] > 0, f.values / np.where(norm > 0, norm, 1)[owner], uniform[owner]
    )
    return f.with_data(values.astype(np.float32))


def smooth_by_similarity(f: SparseRows, xi: SparseRows, beta: float, run: Runner) -> SparseRows:
    """NSS with T and r from F itself: T_ij = mean_c F_jc, r_i = mean_cc' F_cc' over xi[i]."""
    guide, anchor = np.empty(f.nnz, np.float32), np.empty(len(f), np.float32)
    args = (f.indptr, f.indices, f.values, xi.indptr, xi.indices, guide, anchor)
    run.map("smoothing", lambda a, b: kernels.guide_by_similarity(a, b, *args), len(f))
    return _close(f, guide, anchor, beta, run)


def smooth_by_walk(
    f: SparseRows, xi: SparseRows, neighbors: Neighbors, k: int, sigma: float, beta: float,
    run: Runner,
) -> SparseRows:  # fmt: skip
    """NSS with T and r from a two-step walk over the k - 1 nearest without the row itself.

    f, xi : of all rows or of some; neighbors : of all
    """
    n = len(neighbors)
    ids = np.ascontiguousarray(neighbors.indices[:, 1:k])
    if ids.shape[1] == 0:
        return f
    weights = affinity(neighbors, 1, k, sigma)
    norm = weights.sum(axis=1, keepdims=True, dtype=np.float64)
    p: Floats = (weights / np.where(norm > 0, norm, 1)).astype(np.float32)
    fixed = np.arange(0, ids.size + 1, ids.shape[1], dtype=np.int64)
    incoming = transposed(SparseRows(fixed, ids.ravel(), p.ravel(), n))
    columns = (incoming.indptr, incoming.indices, incoming.values)
    diagonal = np.empty(n, np.float32)
    guide, anchor = np.empty(f.nnz, np.float32), np.empty(len(f), np.float32)
    run.map("smoothing", lambda a, b: kernels.walk_diagonal(a, b, ids, p, *columns, diagonal), n)
    args = (f.indptr, f.indices, xi.indptr, xi.indices, ids, p, *columns, diagonal, guide, anchor)
    run.map("smoothing", lambda a, b: kernels.guide_by_walk(a, b, *args), len(f))
    return _close(f, guide, anchor, beta, run)


def smooth_by_average(f: SparseRows, lists: Ints, k: int, run: Runner) -> SparseRows:
    """The mean of the rows of N(i, k), as query expansion would do it (AQE)."""
    n = len(f)
    ptr = np.arange(0, n * k + 1, k, dtype=np.int64)
    ids = np.ascontiguousarray(lists[:, :k]).ravel()
    return product("smoothing", SparseRows(ptr, ids, None, n), f, run)


def _close(f: SparseRows, guide: Floats, anchor: Floats, beta: float, run: Runner) -> SparseRows:
    out = np.empty(f.nnz, np.float32)
    args = (f.indptr, f.values, guide, anchor, float(beta), out)
    run.map("smoothing", lambda a, b: kernels.closed_form(a, b, *args), len(f))
    return f.with_data(out)
