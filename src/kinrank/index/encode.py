"""The rows that queries would have in every stage, if they were in the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.index.settings import CLUSTERS, full_length, half_length, walk_of
from kinrank.index.state import State, csr
from kinrank.kernels.guide import closed_form
from kinrank.kernels.online import Block, Space, cluster_rows, similar_rows
from kinrank.kernels.online_answer import around_rows, mixed_rows
from kinrank.kernels.online_diffuse import diffuse_rows
from kinrank.kernels.online_smooth import similarity_guides, walk_guides
from kinrank.stages.smooth import unit_rows
from kinrank.types import Floats, Ints, Longs, SparseRows


@dataclass(frozen=True, eq=False)
class Encoded:
    """A row for each query and stage; column n is the query itself.

    xi : neighbour sets; f : F on the clusters; guide, anchor : T and r of the smoothing
    hat, tilde, p, prime : smoothed, enhanced, P, F'
    """

    xi: SparseRows
    f: SparseRows
    guide: Floats
    anchor: Floats
    hat: SparseRows
    tilde: SparseRows
    p: SparseRows
    prime: SparseRows


def encode(state: State, block: Block, space: Space) -> Encoded:
    """All stages for a few queries; block : with lists as long as those of the rows."""
    method = state.method
    lengths = (method.k2, full_length(method), half_length(method))
    found = cluster_rows(
        block, state.lists, state.half.indptr, state.half.indices, *lengths,
        CLUSTERS[str(method.clusters)], space,
    )  # fmt: skip
    n = len(state)
    xi, members = _rows(found[0], found[1], n), _rows(found[2], found[3], n)
    f = _diffuse(state, block, xi, members, space)
    guide, anchor = np.zeros(f.nnz, np.float32), np.zeros(len(f), np.float32)
    hat = _smooth(state, block, xi, f, guide, anchor, space)
    tilde = hat
    if method.enhancement:
        tilde = _mean(state.hat, block, int(method.enhance_k or 1), xi, method.kappa, hat, space)
    # With P = F^T F the row of q would be its column of F, which the rows do not hold; similarities
    # are mutual, so its own row stands for it.
    p = _mixed(tilde, tilde, state.tilde, int(method.keep or 0), space)
    own, others = (p, state.p) if state.p is not None else (tilde, state.tilde)
    return Encoded(xi, f, guide, anchor, hat, tilde, p, _mixed(p, own, others, 0, space))


def _diffuse(
    state: State, block: Block, xi: SparseRows, members: SparseRows, space: Space
) -> SparseRows:
    out = np.empty(members.nnz, np.float32)
    walk, pattern = walk_of(state.method), (members.indptr, members.indices)
    if walk is None:
        similar_rows(block, state.lists, *pattern, state.method.sigma**2, space, out)
    else:
        known = (state.neighbors.distances, state.neighbors.farthest, xi.indptr, xi.indices)
        diffuse_rows(block, *known, *pattern, state.graph, walk, space, out)
    return unit_rows(members.with_data(out))


def _smooth(
    state: State, block: Block, xi: SparseRows, f: SparseRows, guide: Floats, anchor: Floats,
    space: Space,
) -> SparseRows:  # fmt: skip
    method = state.method
    if method.smoothing is None:
        return f
    if method.smoothing == "aqe":
        assert state.f is not None
        return _mean(state.f, block, method.k2, xi, 0.0, f, space)
    sets = (xi.indptr, xi.indices, f.indptr, f.indices)
    if method.guide == "walk":
        walk = (state.walk_norm, int(method.walk_k or 1), method.sigma**2)
        walk_guides(block, state.lists, *walk, *sets, space, guide, anchor)
    else:
        assert state.f is not None
        similarity_guides(*sets, f.values, *csr(state.f), space, guide, anchor)
    out = np.empty(f.nnz, np.float32)
    closed_form(0, len(f), f.indptr, f.values, guide, anchor, float(method.beta or 0), out)
    return f.with_data(out)


def _mean(
    rows: SparseRows, block: Block, k: int, xi: SparseRows, kappa: float, own: SparseRows,
    space: Space,
) -> SparseRows:  # fmt: skip
    """The mean of the rows of N(q, k), and of those of xi with the weight kappa."""
    n = len(rows)
    found = around_rows(block.ids, block.counts, n, k, xi.indptr, xi.indices, float(kappa))
    weights = _rows(found[0], found[1], n).with_data(found[2])
    return _mixed(weights, own, rows, 0, space)


def _mixed(
    weights: SparseRows, own: SparseRows, rows: SparseRows, keep: int, space: Space
) -> SparseRows:
    lengths, ids, data = mixed_rows(*csr(weights), *csr(own), *csr(rows), keep, space)
    return _rows(lengths, ids, len(rows)).with_data(data)


def _rows(lengths: Longs, ids: Ints, n: int) -> SparseRows:
    ptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return SparseRows(ptr, ids, None, n + 1)
