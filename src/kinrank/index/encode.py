"""The rows that queries would have in every stage, if they were in the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kinrank.index.settings import CLUSTERS, full_length, half_length
from kinrank.index.state import State, csr
from kinrank.kernels.guide import closed_form
from kinrank.kernels.online import Block, Space, cluster_rows, similar_rows, unit_parts
from kinrank.kernels.online_answer import around_rows, mixed_rows
from kinrank.kernels.online_diffuse import diffuse_rows
from kinrank.kernels.online_smooth import similarity_guides, walk_guides
from kinrank.types import Floats, Ints, Longs, SparseRows

# Which rows belong to each query, as pointers, and their numbers.
Groups: TypeAlias = tuple[Longs, Ints]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows of queries, stage by stage; column n is the query itself.

    xi : neighbour sets; f : F on the clusters; guide, anchor : T and r of the smoothing
    hat : smoothed; one row for each query so far
    groups : from here on a query has rows groups[q] to groups[q + 1]: first its own, then those
        of its partners, the rows that would average it; names : whose they are
    tilde, p, prime : enhanced, P, F'
    """

    xi: SparseRows
    f: SparseRows
    guide: Floats
    anchor: Floats
    hat: SparseRows
    groups: Longs
    names: Ints
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
    xi = SparseRows(found[0], found[1], None, n + 1)
    members = SparseRows(found[2], found[3], None, n + 1)
    f = _diffuse(state, block, xi, members, space)
    guide, anchor = np.zeros(f.nnz, np.float32), np.zeros(len(f), np.float32)
    hat = _smooth(state, block, xi, f, guide, anchor, space)
    alone: Groups = (np.arange(len(hat) + 1), np.full(len(hat), n, np.int32))
    own, tilde = alone, hat
    if method.enhancement:
        k = int(method.enhance_k or 1)
        own, weights = _around(state, block, k, xi, method.kappa)
        tilde = _mixed(own, weights, alone, hat, state.hat, 0, space)
    # With P = F^T F the row of q would be its column of F, which the rows do not hold; similarities
    # are mutual, so its own row stands for it.
    p = _mixed(own, tilde, own, tilde, state.tilde, int(method.keep or 0), space)
    mine, others = (p, state.p) if state.p is not None else (tilde, state.tilde)
    prime = _mixed(own, p, own, mine, others, 0, space)
    return Encoded(xi, f, guide, anchor, hat, *own, tilde, p, prime)


def _diffuse(
    state: State, block: Block, xi: SparseRows, members: SparseRows, space: Space
) -> SparseRows:
    out = np.empty(members.nnz, np.float32)
    walk, pattern = state.walk, (members.indptr, members.indices)
    if walk is None:
        similar_rows(block, state.lists, *pattern, state.method.sigma**2, space, out)
    else:
        known = (state.neighbors.distances, state.neighbors.farthest, xi.indptr, xi.indices)
        diffuse_rows(block, *known, *pattern, state.graph, walk, space, out)
    unit_parts(members.indptr, out)
    return members.with_data(out)


def _smooth(
    state: State, block: Block, xi: SparseRows, f: SparseRows, guide: Floats, anchor: Floats,
    space: Space,
) -> SparseRows:  # fmt: skip
    method = state.method
    if method.smoothing is None:
        return f
    if method.smoothing == "aqe":
        assert state.f is not None
        own, weights = _around(state, block, method.k2, xi, 0.0)
        return _mixed(own, weights, own, f, state.f, 0, space)
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


def _around(
    state: State, block: Block, k: int, xi: SparseRows, kappa: float
) -> tuple[Groups, SparseRows]:
    """Rows that average others, and whom they average by what weights."""
    known = state.neighbors
    groups, names, ptr, ids, data = around_rows(
        block.ids, block.d, block.counts, known.indices, known.distances, k, xi.indptr, xi.indices,
        float(kappa), state.xi.indptr, state.xi.indices,
    )  # fmt: skip
    return (groups, names), SparseRows(ptr, ids, data, len(state) + 1)


def _mixed(
    groups: Groups, weights: SparseRows, own_groups: Groups, own: SparseRows, rows: SparseRows,
    keep: int, space: Space,
) -> SparseRows:  # fmt: skip
    """The weighted sums of rows, of which those of a query's group are its own."""
    ptr, ids, data = mixed_rows(
        groups[0], *csr(weights), *own_groups, *csr(own), *csr(rows), keep, space
    )
    return SparseRows(ptr, ids, data, len(rows) + 1)
