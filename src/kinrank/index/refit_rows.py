"""The stages over all rows of an index under other parameters, as far as one query needs them.

Rows stay in the order of the index. What depends on k1 and k2 alone is kept apart, since most
sliders leave it as it is. F' is not made: a query needs few of its columns, which follow from P.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinrank import progress
from kinrank.index.build import make_state
from kinrank.index.state import EncodingColumns, Source, State
from kinrank.kernels.diffuse_lanes import power_groups
from kinrank.kernels.measures import MEASURES, entropies
from kinrank.kernels.overlay import lent_space, plain_rows
from kinrank.kernels.records import DiffusionTerms
from kinrank.methods.cas import CASMethod
from kinrank.parallel import ALONE, Runner
from kinrank.stages.clusters import local_clusters, reciprocal
from kinrank.stages.diffusion import Polynomial, polynomial_of, similarity_on_clusters, whole_groups
from kinrank.stages.enhancement import enhance
from kinrank.stages.graph import Graph, affinity_graph
from kinrank.stages.propagation import propagate, transition
from kinrank.stages.smoothing import smooth
from kinrank.stages.sparse import placed, product, product_sum, take, transposed, unit_rows
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


class Sets(NamedTuple):
    """Confident neighbours, R(i, k1 / 2), and the clusters."""

    confident: SparseRows
    half: SparseRows
    clusters: SparseRows

    @classmethod
    def of(
        cls, method: CASMethod, neighbors: Neighbors, run: Runner, around: Ints | None = None
    ) -> Sets:
        """From the lists of neighbours; around : rows, ascending, that alone have a cluster."""
        lists = neighbors.indices
        parameters = method.stage_parameters
        with progress.stage("clusters", len(lists)):
            confident = reciprocal(lists, parameters.confident_k, run)
            half = reciprocal(lists, parameters.half_k, run)
            clusters = local_clusters(lists, parameters, half, run, around)
            if around is not None:
                clusters = placed(clusters, around)
            return cls(confident, half, clusters)


def refit_state(source: Source, sets: Sets, run: Runner, around: Ints | None = None) -> State:
    """The state under another method, without columns of F' where P is enough (``lazy``).

    around : rows, ascending, that are made alone; all others stay empty, as if nothing were like
        them, while confident neighbours and graph are those of all rows
    """
    method = source.method
    parameters = method.stage_parameters
    neighbors = source.neighbors
    n = len(source)
    clusters = sets.clusters if around is None else only(sets.clusters, around)
    with progress.stage("graph", n):
        graph = affinity_graph(
            neighbors,
            parameters.graph_k,
            parameters.sigma,
            parameters.kappa,
            sets.confident,
            symmetric=parameters.symmetric,
            run=run,
        )
    with progress.stage("diffusion", n):
        polynomial = polynomial_of(parameters)
        walks = len(polynomial.series) == 0 and parameters.similarity != "original"
        if around is not None and walks:
            similarity = unit_rows(diffuse_around(graph, clusters, polynomial, around, run), run)
        else:
            similarity = similarity_on_clusters(graph, clusters, source.distances, parameters, run)
    with progress.stage("smoothing", n):
        smoothed = smooth(similarity, sets.confident, neighbors, parameters, run)
    with progress.stage("enhancement", n):
        enhanced = smoothed
        if parameters.enhance_k is not None:
            enhanced = enhance(
                smoothed,
                sets.confident,
                neighbors.indices,
                parameters.enhance_k,
                parameters.kappa,
                run,
            )
            if around is not None:
                enhanced = only(enhanced, around)
    with progress.stage("propagation", n):
        p: SparseRows | None
        if lazy(method):
            p = transition(enhanced, parameters, source.layout, run)
            none = SparseRows(
                np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n
            )
            encoding = EncodingColumns(none, none.values, np.ones(n))
        else:
            p, rows = propagate(enhanced, parameters, source.layout, run)
            encoding = EncodingColumns.of(rows, run)
    return make_state(
        source,
        confident=sets.confident,
        half=sets.half,
        w=graph.w,
        similarity=similarity,
        smoothed=smoothed,
        enhanced=enhanced,
        transition=p,
        encoding=encoding,
        paths=None,
        run=run,
    )


def diffuse_around(
    graph: Graph, clusters: SparseRows, polynomial: Polynomial, around: Ints, run: Runner
) -> SparseRows:
    """F of the rows ``around`` alone, where it is a number of steps of the basic iteration."""
    values = np.empty(clusters.nnz, np.float32)
    terms = DiffusionTerms(
        polynomial.powers,
        polynomial.binomial,
        polynomial.series,
        polynomial.decay,
        graph.floor(polynomial.tol),
    )
    # S and W share a symmetric pattern, so the transposed values are in the same places.
    start = transposed(graph.w, run).values
    block = _AroundBlock(graph.s, start, terms, around, clusters.indptr, clusters.indices, values)
    whole_groups(run, len(around)).map("diffusion", block.fill, len(around))
    return clusters.with_data(values)


class _AroundBlock(NamedTuple):
    """What ``diffuse_around`` reads and writes."""

    s: SparseRows
    start: Floats
    terms: DiffusionTerms
    around: Ints
    indptr: Longs
    indices: Ints
    values: Floats

    def fill(self, low: int, high: int) -> None:
        """F of around[low:high]."""
        with lent_space(len(self.s)) as space:
            power_groups(
                low,
                high,
                self.around,
                plain_rows(*self.s.csr),
                self.start,
                self.terms,
                self.indptr,
                self.indices,
                self.values,
                space,
            )


def only(a: SparseRows, rows: Ints) -> SparseRows:
    """A square matrix whose other rows are empty; rows : ascending."""
    return placed(take(a, rows), rows)


def lazy(method: CASMethod) -> bool:
    """Whether columns of F' can be made from P when they are wanted; norms need all of them."""
    return method.propagation == "square" and not MEASURES[method.divergence].uses_norms


def completed(state: State, run: Runner) -> State:
    """The state with all columns of F'."""
    if state.columns.nnz or state.transition is None:
        return state
    with progress.stage("propagation", len(state)):
        rows = product("propagation", state.transition, state.transition, run)
        encoding = EncodingColumns.of(rows, run)
    return replace(state, **encoding._asdict())


def seen_from(state: State, wanted: Ints) -> State:
    """The state with the wanted columns of F' = P P alone."""
    p = state.transition
    assert p is not None
    is_wanted = np.zeros(p.n_columns, np.bool_)
    is_wanted[wanted] = True
    kept = is_wanted[p.indices]
    starts = np.concatenate([[0], np.cumsum(kept)])[p.indptr]
    restricted = SparseRows(starts, p.indices[kept], p.values[kept], p.n_columns)
    columns = transposed(product_sum("propagation", [(p, restricted)], len(p), ALONE))
    return replace(state, columns=columns, entropies=entropies(columns.values))
