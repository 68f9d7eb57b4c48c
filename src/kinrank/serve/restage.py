"""The stages over all rows of an index under other parameters, as far as one query needs them.

Rows stay in the order of the index. What depends on k1 and k2 alone is kept apart, since most
sliders leave it as it is. F' is not made: a query needs few of its columns, which follow from P.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinrank import progress
from kinrank.graph import clusters
from kinrank.graph.build import Graph
from kinrank.graph.layout import Layout
from kinrank.graph.matrix import transposed
from kinrank.index.build import degrees, distances_of, propagate, walk_norms
from kinrank.index.columns import Columns
from kinrank.index.parts import take
from kinrank.index.settings import full_length, half_length, needs_f, polynomial_of
from kinrank.index.state import State, csr
from kinrank.kernels.divergence import entropies
from kinrank.kernels.walk_lanes import LANES, walk_groups
from kinrank.methods.cas import CAS
from kinrank.parallel import Runner
from kinrank.stages.distance import Distances
from kinrank.stages.product import product
from kinrank.stages.smooth import unit_rows
from kinrank.types import Ints, Neighbors, SparseRows


@dataclass(frozen=True, eq=False)
class Sets:
    """Neighbour sets, R(i, k1 / 2), and the clusters."""

    xi: SparseRows
    half: SparseRows
    pattern: SparseRows

    @classmethod
    def of(cls, method: CAS, distances: Distances, run: Runner, around: Ints | None = None) -> Sets:
        """From the lists of neighbours; around : rows, ascending, that alone have a cluster."""
        lists = distances.neighbors.indices
        with progress.stage("clusters", len(lists)):
            xi = clusters.reciprocal(lists, method.k2, run)
            half = clusters.reciprocal(lists, half_length(method), run)
            if method.clusters != "expanded":
                pattern = method._clusters(distances, run)
                return cls(xi, half, pattern if around is None else only(pattern, around))
            full = clusters.reciprocal(lists, full_length(method), run, around)
            pattern = clusters.expand(full, half, run)
            return cls(xi, half, pattern if around is None else _placed(pattern, around))


def restaged(
    state: State, asked: CAS, method: CAS, neighbors: Neighbors, sets: Sets, run: Runner,
    around: Ints | None = None,
) -> State:  # fmt: skip
    """The state under another method, without columns where P is enough (``lazy``).

    asked, method : as given, and with sizes that fit; neighbors : as long as it asks for
    around : rows, ascending, that are made alone; all others stay empty, as if nothing were like
        them, while clusters and graph are those of all rows
    """
    n, distances, xi = len(state), distances_of(neighbors, state.vectors), sets.xi
    pattern = sets.pattern if around is None else only(sets.pattern, around)
    with progress.stage("graph", n):
        graph = method._graph(distances, xi, run)
    with progress.stage("diffusion", n):
        f = unit_rows(diffused(method, distances, graph, pattern, run, around), run)
    with progress.stage("smoothing", n):
        hat = method._smooth(f, xi, distances, run)
    with progress.stage("enhancement", n):
        tilde = method._enhance(hat, xi, distances, run)
        tilde = tilde if around is None else only(tilde, around)
    known = replace(
        state, asked=asked, method=method, neighbors=neighbors, xi=xi, half=sets.half, w=graph.w,
        degree=degrees(graph.w), walk_norm=walk_norms(neighbors, method),
        f=f if needs_f(method) else None, hat=hat, tilde=tilde,
    )  # fmt: skip
    layout = Layout(state.names, state.places)
    with progress.stage("propagation", n):
        if not lazy(method):
            p, prime = propagate(method, tilde, layout, run)
            return _with_columns(replace(known, p=p), prime, run)
        p = product("propagation", tilde, tilde, run, int(method.keep or 0), layout)
    return _without_columns(replace(known, p=p))


def only(a: SparseRows, rows: Ints) -> SparseRows:
    """A square matrix whose other rows are empty; rows : ascending."""
    return _placed(take(a, rows), rows)


def _placed(a: SparseRows, rows: Ints) -> SparseRows:
    """A square matrix that has the rows of ``a`` at ``rows``, ascending, and no others."""
    lengths = np.zeros(a.n_columns, np.int64)
    lengths[rows] = a.lengths
    return SparseRows(np.concatenate([[0], np.cumsum(lengths)]), a.indices, a.data, a.n_columns)


def diffused(
    method: CAS, distances: Distances, graph: Graph, pattern: SparseRows, run: Runner,
    rows: Ints | None = None,
) -> SparseRows:  # fmt: skip
    """F on the clusters; many rows at a time where it is a walk. rows : those with a cluster."""
    polynomial = polynomial_of(method)
    if polynomial is None or len(polynomial.series):
        return method._diffuse(distances, graph, pattern, str(method.regularizer), run)
    out = np.empty(pattern.nnz, np.float32)
    # Both share a symmetric pattern, so the transposed values are in the same places.
    start = transposed(graph.w, run).values
    own = (polynomial.powers, polynomial.binomial, polynomial.decay, graph.floor(polynomial.tol))
    rows = np.arange(len(pattern), dtype=np.int32) if rows is None else rows
    args = (rows, *csr(graph.s), start, *own, pattern.indptr, pattern.indices, out)
    groups = -(-len(rows) // LANES)
    run.map("diffusion", lambda low, high: walk_groups(low, high, *args), groups)
    return pattern.with_data(out)


def lazy(method: CAS) -> bool:
    """Whether columns of F' can be made from P when they are wanted; norms need all of them."""
    return method.propagation == "square" and method.divergence != "cosine"


def completed(state: State, run: Runner) -> State:
    """The state with all columns of F'."""
    if state.columns.nnz or state.p is None:
        return state
    with progress.stage("propagation", len(state)):
        return _with_columns(state, product("propagation", state.p, state.p, run), run)


def seen_from(state: State, wanted: Ints) -> State:
    """The state with the wanted columns of F' = P P alone."""
    p = state.p
    assert p is not None
    mask = np.zeros(p.n_columns, np.bool_)
    mask[wanted] = True
    chosen = mask[p.indices]
    starts = np.concatenate([[0], np.cumsum(chosen)])[p.indptr]
    some = SparseRows(starts, p.indices[chosen], p.values[chosen], p.n_columns)
    columns = SparseRows.from_scipy((p.to_scipy() @ some.to_scipy()).T)
    return replace(state, columns=columns, entropies=entropies(columns.values))


def _with_columns(state: State, prime: SparseRows, run: Runner) -> State:
    last = Columns.of(prime, run)
    return replace(state, columns=last.columns, entropies=last.entropies, norms=last.norms)


def _without_columns(state: State) -> State:
    n, none = len(state), np.empty(0, np.float32)
    columns = SparseRows(np.zeros(n + 1, np.int64), np.empty(0, np.int32), none, n)
    return replace(state, columns=columns, entropies=none, norms=np.ones(n))
