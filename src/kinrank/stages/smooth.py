"""Neighbour-guided similarity smooth (NSS), and what the paper's ablation puts in its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.graph.build import affinity
from kinrank.graph.clusters import regular
from kinrank.graph.matrix import transposed
from kinrank.kernels import guide as kernels
from kinrank.kernels import lists as rows_of
from kinrank.kernels.overlay import NO_GROUPS, lent_space, plain_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.stages.product import product
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


def unit_rows(f: SparseRows, run: Runner = ALONE) -> SparseRows:
    """Rows of L1 norm 1; a row without weight becomes uniform on its pattern."""
    args, out = (f.indptr, f.values), Out(np.float32, indptr=f.indptr)
    return f.with_data(run.fill("rows", rows_of.unit_rows, args, len(f), out))


def smooth_by_similarity(f: SparseRows, xi: SparseRows, beta: float, run: Runner) -> SparseRows:
    """NSS with T and r from F itself: T_ij = mean_c F_jc, r_i = mean_cc' F_cc' over xi[i]."""
    args = (f.indptr, f.indices, f.values, xi.indptr, xi.indices)
    outs = (Out(np.float32, indptr=f.indptr), Out(np.float32))
    guide, anchor = run.fill("smoothing", _guide_by_similarity, args, len(f), *outs)
    return _close(f, guide, anchor, beta, run)


def smooth_by_walk(
    f: SparseRows, xi: SparseRows, neighbors: Neighbors, k: int, sigma: float, beta: float,
    run: Runner,
) -> SparseRows:  # fmt: skip
    """NSS with T and r from a two-step walk over the k - 1 nearest without the row itself.

    f, xi : of all rows or of some; neighbors : of all
    """
    n, k = len(neighbors), min(k, neighbors.k)
    if k == 1:
        return f
    near = (neighbors.indices, affinity(neighbors, 1, k, sigma, run))
    outs = (Out(np.int32, k - 1), Out(np.float32, k - 1))
    ids, p = run.fill("smoothing", rows_of.walk_rows, near, n, *outs)
    incoming = transposed(regular(ids, p, n), run)
    walk = (ids, p, incoming.indptr, incoming.indices, incoming.values)
    diagonal = run.fill("smoothing", kernels.walk_diagonal, walk, n, Out(np.float32))
    args = (f.indptr, f.indices, xi.indptr, xi.indices, walk, diagonal)
    outs = (Out(np.float32, indptr=f.indptr), Out(np.float32))
    guide, anchor = run.fill("smoothing", kernels.guide_by_walk, args, len(f), *outs)
    return _close(f, guide, anchor, beta, run)


def smooth_by_average(f: SparseRows, lists: Ints, k: int, run: Runner) -> SparseRows:
    """The mean of the rows of N(i, k), as query expansion would do it (AQE)."""
    return product("smoothing", regular(np.ascontiguousarray(lists[:, :k]), None, len(f)), f, run)


def _close(f: SparseRows, guide: Floats, anchor: Floats, beta: float, run: Runner) -> SparseRows:
    args, out = (f.indptr, f.values, guide, anchor, float(beta)), Out(np.float32, indptr=f.indptr)
    return f.with_data(run.fill("smoothing", kernels.closed_form, args, len(f), out))


def _guide_by_similarity(
    low: int, high: int, ptr: Longs, members: Ints, f: Floats, *xi_and_outs: Any
) -> None:
    own = (ptr, members, NO_GROUPS, plain_rows(ptr, members, f))
    with lent_space(len(ptr) - 1) as space:
        kernels.guide_by_similarity(low, high, *own, *xi_and_outs, space)
