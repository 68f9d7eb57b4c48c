"""The stages over all rows of an index under other parameters, as far as one query needs them.

Rows stay in the order of the index. What depends on k1 and k2 alone is kept apart, since most
sliders leave it as it is. F' is not made: a query needs few of its columns, which follow from P.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinrank import progress
from kinrank.graph import clusters
from kinrank.graph.build import Graph
from kinrank.graph.matrix import placed, take, transposed
from kinrank.index.build import KeptRows, cluster_rows
from kinrank.index.state import EncodingColumns, Source, State, walk_of
from kinrank.kernels.divergence import entropies
from kinrank.kernels.overlay import lent_space, plain_rows
from kinrank.kernels.walk_lanes import walk_groups
from kinrank.methods.cas import CAS
from kinrank.parallel import ALONE, Runner
from kinrank.stages.diffuse import whole_groups
from kinrank.stages.pipeline import half_length
from kinrank.stages.product import product, product_sum
from kinrank.types import Ints, Neighbors, SparseRows


class Sets(NamedTuple):
    """Confident neighbours, R(i, k1 / 2), and the clusters."""

    xi: SparseRows
    half: SparseRows
    members: SparseRows

    @classmethod
    def of(cls, method: CAS, neighbors: Neighbors, run: Runner, around: Ints | None = None) -> Sets:
        """From the lists of neighbours; around : rows, ascending, that alone have a cluster."""
        lists = neighbors.indices
        with progress.stage("clusters", len(lists)):
            xi = clusters.reciprocal(lists, method.k2, run)
            half = clusters.reciprocal(lists, half_length(method), run)
            members = cluster_rows(method, lists, around, half, run)
            return cls(xi, half, members if around is None else placed(members, around))


class RefitRows(KeptRows):
    """The stages under another method, without columns of F' where P is enough (``lazy``).

    around : rows, ascending, that are made alone; all others stay empty, as if nothing were like
        them, while clusters and graph are those of all rows
    """

    def __init__(self, source: Source, sets: Sets, run: Runner, around: Ints | None = None) -> None:
        super().__init__(source, run)
        self.sets, self.around = sets, around

    def state(self) -> State:
        """The state under the other method."""
        encoding = self.encode()
        if not lazy(self.method):
            return self.with_encoding(EncodingColumns.of(encoding, self.run))
        return self.with_encoding(EncodingColumns(encoding, encoding.values, np.ones(self.n)))

    def confident(self) -> SparseRows:
        return self.sets.xi

    def clusters(self) -> SparseRows:
        self.keep("half", self.sets.half)
        return self._restricted(self.sets.members)

    def diffuse(self, graph: Graph, members: SparseRows) -> SparseRows:
        """Only around the query, where F is a walk."""
        walk, rows = walk_of(self.method, graph), self.around
        if len(walk.series) or rows is None:
            return super().diffuse(graph, members)
        out = np.empty(members.nnz, np.float32)
        # Both share a symmetric pattern, so the transposed values are in the same places.
        start = transposed(graph.w, self.run).values
        args = (rows, plain_rows(*graph.s.csr), (start, start[:0]), tuple(walk))
        places = (members.indptr, members.indices, out)

        def some(low: int, high: int) -> None:
            with lent_space(self.n) as space:
                walk_groups(low, high, *args, *places, space)

        whole_groups(self.run, len(rows)).map("diffusion", some, len(rows))
        return members.with_data(out)

    def enhance(self, f: SparseRows, xi: SparseRows) -> SparseRows:
        return self._restricted(super().enhance(f, xi))

    def propagate(self, f: SparseRows) -> SparseRows:
        if not lazy(self.method):
            return super().propagate(f)
        self.keep("transition", self.product(f, f, cut=True))
        none = np.empty(0, np.int32), np.empty(0, np.float32)
        return SparseRows(np.zeros(self.n + 1, np.int64), *none, self.n)

    def _restricted(self, rows: SparseRows) -> SparseRows:
        return rows if self.around is None else only(rows, self.around)


def only(a: SparseRows, rows: Ints) -> SparseRows:
    """A square matrix whose other rows are empty; rows : ascending."""
    return placed(take(a, rows), rows)


def lazy(method: CAS) -> bool:
    """Whether columns of F' can be made from P when they are wanted; norms need all of them."""
    return method.propagation == "square" and method.divergence != "cosine"


def completed(state: State, run: Runner) -> State:
    """The state with all columns of F'."""
    if state.columns.nnz or state.transition is None:
        return state
    with progress.stage("propagation", len(state)):
        encoding = EncodingColumns.of(
            product("propagation", state.transition, state.transition, run), run
        )
    return replace(state, **encoding._asdict())


def seen_from(state: State, wanted: Ints) -> State:
    """The state with the wanted columns of F' = P P alone."""
    p = state.transition
    assert p is not None
    mask = np.zeros(p.n_columns, np.bool_)
    mask[wanted] = True
    chosen = mask[p.indices]
    starts = np.concatenate([[0], np.cumsum(chosen)])[p.indptr]
    restricted = SparseRows(starts, p.indices[chosen], p.values[chosen], p.n_columns)
    columns = transposed(product_sum("propagation", [(p, restricted)], len(p), ALONE))
    return replace(state, columns=columns, entropies=entropies(columns.values))
