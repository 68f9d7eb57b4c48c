"""Neighbour-guided similarity smooth (NSS), and what the paper's ablation puts in its place.

F is the similarity on the local clusters C, sparse rows of sum 1. NSS moves the entries of a row of
F towards what the confident neighbours xi[i] say of each member j of the cluster, T_ij ("guide"),
relative to what they say of each other, r_i ("anchor"):

    (r T + 2 beta) / (r^2 + 2 beta) F, and a constant that keeps the row's sum

T and r come from a two-step walk over the nearest rows, or from F itself (``kernels/guide.py``).
``run`` computes blocks of rows on threads, or in files (``kinrank.parallel.Runner``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels import guide as kernels
from kinrank.kernels import lists as list_kernels
from kinrank.kernels.overlay import NO_GROUPS, free_workspace, plain_rows
from kinrank.kernels.records import SmoothingWalk
from kinrank.parallel import Out, Runner
from kinrank.stages.clusters import regular
from kinrank.stages.graph import list_affinities
from kinrank.stages.parameters import StageParameters
from kinrank.stages.sparse import product, transposed
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


def smooth(
    f: SparseRows,
    confident: SparseRows,
    neighbors: Neighbors,
    parameters: StageParameters,
    run: Runner,
) -> SparseRows:
    """Smoothed F, as ``parameters`` say.

    f, confident : F and xi of all rows; where rows are guided by the walk, or not smoothed, also of
        some rows alone, as no other row of F is read then
    neighbors : the lists of all rows, with squared distances
    Returns smoothed F on the pattern of ``f``; ``f`` itself where ``parameters.smoothing`` is None.
    """
    if parameters.smoothing is None:
        return f
    if parameters.smoothing == "aqe":
        return smooth_by_average(f, neighbors.indices, parameters.confident_k, run)
    if parameters.guide == "similarity":
        return smooth_by_similarity(f, confident, parameters.beta, run)
    return smooth_by_walk(
        f, confident, neighbors, parameters.walk_k, parameters.sigma, parameters.beta, run
    )


def smooth_by_similarity(
    f: SparseRows, confident: SparseRows, beta: float, run: Runner
) -> SparseRows:
    """NSS with T and r from F itself: T_ij = mean_c F_jc, r_i = mean_cc' F_cc' over xi[i].

    f, confident : F and xi of all rows
    """
    guide, anchor = run.fill(
        "smoothing",
        _guide_by_similarity,
        (f.indptr, f.indices, f.values, confident.indptr, confident.indices),
        len(f),
        Out(np.float32, indptr=f.indptr),
        Out(np.float32),
    )
    return _closed_form(f, guide, anchor, beta, run)


def smooth_by_walk(
    f: SparseRows,
    confident: SparseRows,
    neighbors: Neighbors,
    k: int,
    sigma: float,
    beta: float,
    run: Runner,
) -> SparseRows:
    """NSS with T and r from a two-step walk over the k - 1 nearest without the row itself.

    f, confident : F and xi of all rows or of some; neighbors : of all
    sigma : of the affinities exp(-d^2 / sigma^2), by which the walk steps
    """
    n = len(neighbors)
    k = min(k, neighbors.k)
    if k == 1:
        return f
    ids, p = run.fill(
        "smoothing",
        list_kernels.walk_rows,
        (neighbors.indices, list_affinities(neighbors, 1, k, sigma, run)),
        n,
        Out(np.int32, k - 1),
        Out(np.float32, k - 1),
    )
    incoming = transposed(regular(ids, p, n), run)
    walk = SmoothingWalk(
        ids=ids,
        p=p,
        in_ptr=incoming.indptr,
        in_ids=incoming.indices,
        in_p=incoming.values,
    )
    diagonal = run.fill("smoothing", kernels.walk_diagonal, (walk,), n, Out(np.float32))
    guide, anchor = run.fill(
        "smoothing",
        kernels.guide_by_walk,
        (f.indptr, f.indices, confident.indptr, confident.indices, walk, diagonal),
        len(f),
        Out(np.float32, indptr=f.indptr),
        Out(np.float32),
    )
    return _closed_form(f, guide, anchor, beta, run)


def smooth_by_average(f: SparseRows, lists: Ints, k: int, run: Runner) -> SparseRows:
    """The mean of the rows of F of N(i, k), as query expansion has it (AQE); lists : (n, K)."""
    first = np.ascontiguousarray(lists[:, :k])
    return product("smoothing", regular(first, None, len(f)), f, run)


def _closed_form(
    f: SparseRows, guide: Floats, anchor: Floats, beta: float, run: Runner
) -> SparseRows:
    """The smoothed rows; guide : T, an entry for each of F; anchor : (n,) r."""
    args = (f.indptr, f.values, guide, anchor, float(beta))
    out = Out(np.float32, indptr=f.indptr)
    return f.with_data(run.fill("smoothing", kernels.closed_form, args, len(f), out))


def _guide_by_similarity(
    low: int,
    high: int,
    ptr: Longs,
    members: Ints,
    f: Floats,
    confident_ptr: Longs,
    confident: Ints,
    guide: Floats,
    anchor: Floats,
) -> None:
    """``smooth_by_similarity`` of rows [low, high): what ``run`` calls for each block."""
    stored = plain_rows(ptr, members, f)
    with free_workspace(len(ptr) - 1) as space:
        kernels.guide_by_similarity(
            low,
            high,
            ptr,
            members,
            NO_GROUPS,
            stored,
            confident_ptr,
            confident,
            guide,
            anchor,
            space,
        )
