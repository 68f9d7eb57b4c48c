"""The stages under other parameters, over the rows of an index, as far as one query needs them.

Rows keep their numbers and their neighbour lists. The stages are those of ``stages.encode``; three
things differ, as somebody waits at a slider:

- Clusters are handed in, since most sliders leave them as they are.
- ``rows`` limits the work to rows around a query; all others then have empty rows, as if they had
  nothing in common with any row.
- F' is not made where P is enough: a query needs few columns of F' = P P, and makes these itself
  (``with_columns``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinrank import progress
from kinrank.index.build import make_state
from kinrank.index.state import EncodingColumns, Source, State, diffusion_terms
from kinrank.kernels.diffuse_lanes import power_groups
from kinrank.kernels.measures import MEASURES, entropies
from kinrank.kernels.overlay import free_workspace, plain_rows
from kinrank.kernels.records import DiffusionTerms
from kinrank.methods.cas import CASMethod
from kinrank.parallel import ALONE, Runner
from kinrank.stages.clusters import local_clusters, reciprocal
from kinrank.stages.diffusion import similarity_on_clusters, whole_groups
from kinrank.stages.encode import graph_of_lists
from kinrank.stages.enhancement import enhance
from kinrank.stages.graph import Graph
from kinrank.stages.propagation import propagate, transition
from kinrank.stages.smoothing import smooth
from kinrank.stages.sparse import placed, product, product_sum, take, transposed, unit_rows
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


class Clusters(NamedTuple):
    """What the first stage makes of the lists; patterns (n, n) without values.

    confident : xi; half : R(i, k1 / 2); clusters : C
    """

    confident: SparseRows
    half: SparseRows
    clusters: SparseRows

    @classmethod
    def of(
        cls, method: CASMethod, neighbors: Neighbors, run: Runner, rows: Ints | None = None
    ) -> Clusters:
        """From the lists of all rows; rows : ascending, those that alone get a cluster."""
        lists = neighbors.indices
        parameters = method.stage_parameters
        with progress.stage("clusters", len(lists)):
            confident = reciprocal(lists, parameters.confident_k, run)
            half = reciprocal(lists, parameters.half_k, run)
            clusters = local_clusters(lists, parameters, half, run, rows)
            if rows is not None:
                clusters = placed(clusters, rows)
            return cls(confident, half, clusters)


def refit_state(source: Source, clusters: Clusters, run: Runner, rows: Ints | None = None) -> State:
    """The state of an index under the method of ``source``.

    Its columns of F' are left out where P is enough (``needs_no_columns``).

    rows : ascending, those that alone are computed; None for all. Confident neighbours and the
        graph are those of all rows.
    """
    method = source.method
    parameters = method.stage_parameters
    neighbors = source.neighbors
    n = len(source)
    confident = clusters.confident
    pattern = clusters.clusters
    if rows is not None:
        pattern = only_rows(pattern, rows)
    with progress.stage("graph", n):
        graph = graph_of_lists(neighbors, confident, parameters, run)
    with progress.stage("diffusion", n):
        terms = diffusion_terms(method)
        is_power_series = len(terms.series) == 0 and parameters.similarity != "original"
        if rows is not None and is_power_series:
            similarity = unit_rows(diffuse_rows(graph, pattern, terms, rows, run), run)
        else:
            similarity = similarity_on_clusters(graph, pattern, source.distances, parameters, run)
    with progress.stage("smoothing", n):
        smoothed = smooth(similarity, confident, neighbors, parameters, run)
    enhanced = smoothed
    if parameters.enhance_k is not None:
        with progress.stage("enhancement", n):
            lists = neighbors.indices
            k = parameters.enhance_k
            enhanced = enhance(smoothed, confident, lists, k, parameters.kappa, run)
            if rows is not None:
                enhanced = only_rows(enhanced, rows)
    with progress.stage("propagation", n):
        p: SparseRows | None
        if needs_no_columns(method):
            p = transition(enhanced, parameters, source.layout, run)
            encoding = _no_columns(n)
        else:
            p, encoding_rows = propagate(enhanced, parameters, source.layout, run)
            encoding = EncodingColumns.of(encoding_rows, run)
    return make_state(
        source,
        confident=confident,
        half=clusters.half,
        affinity=graph.w,
        similarity=similarity,
        smoothed=smoothed,
        enhanced=enhanced,
        transition=p,
        encoding=encoding,
        paths=None,
        run=run,
    )


def diffuse_rows(
    graph: Graph, pattern: SparseRows, terms: DiffusionTerms, rows: Ints, run: Runner
) -> SparseRows:
    """F of ``rows`` by diffusion over the graph, several rows side by side.

    pattern : (n, n), where F is wanted; only ``rows`` have entries
    terms : F as a sum of powers of S, without a Chebyshev series

    Returns F on the pattern, not normalised.
    """
    values = np.empty(pattern.nnz, np.float32)
    # S and W share a symmetric pattern, so the transposed values are in the same places.
    transposed_affinity = transposed(graph.w, run).values
    job = _DiffusionJob(
        graph.s, transposed_affinity, terms, rows, pattern.indptr, pattern.indices, values
    )
    whole_groups(run, len(rows)).map("diffusion", job.fill, len(rows))
    return pattern.with_data(values)


class _DiffusionJob(NamedTuple):
    """What ``diffuse_rows`` reads, and the values on the pattern that it writes.

    s : S; transposed_affinity : the values of W transposed, on the pattern of S
    indptr, indices, values : of the pattern
    """

    s: SparseRows
    transposed_affinity: Floats
    terms: DiffusionTerms
    rows: Ints
    indptr: Longs
    indices: Ints
    values: Floats

    def fill(self, low: int, high: int) -> None:
        """Write F of rows[low:high]."""
        with free_workspace(len(self.s)) as space:
            power_groups(
                low,
                high,
                self.rows,
                plain_rows(*self.s.csr),
                self.transposed_affinity,
                self.terms,
                self.indptr,
                self.indices,
                self.values,
                space,
            )


def only_rows(matrix: SparseRows, rows: Ints) -> SparseRows:
    """A square matrix whose rows other than ``rows``, ascending, are empty."""
    return placed(take(matrix, rows), rows)


def needs_no_columns(method: CASMethod) -> bool:
    """Whether columns of F' can be made from P when a query needs them: F' = P P, without norms."""
    return method.propagation == "square" and not MEASURES[method.divergence].uses_norms


def _no_columns(n: int) -> EncodingColumns:
    """Encodings of ``n`` rows without an entry."""
    columns = SparseRows(
        np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n
    )
    return EncodingColumns(columns, columns.values, np.ones(n))


def with_all_columns(state: State, run: Runner) -> State:
    """The state with all columns of F'; itself if it has them."""
    if state.columns.nnz or state.transition is None:
        return state
    with progress.stage("propagation", len(state)):
        encoding_rows = product("propagation", state.transition, state.transition, run)
        encoding = EncodingColumns.of(encoding_rows, run)
    return replace(
        state, columns=encoding.columns, entropies=encoding.entropies, norms=encoding.norms
    )


def with_columns(state: State, columns: Ints) -> State:
    """The state with some columns of F' = P P alone, the others empty; columns : which."""
    p = state.transition
    assert p is not None
    is_wanted = np.zeros(p.n_columns, np.bool_)
    is_wanted[columns] = True
    stays = is_wanted[p.indices]
    indptr = np.concatenate([[0], np.cumsum(stays)])[p.indptr]
    wanted_columns = SparseRows(indptr, p.indices[stays], p.values[stays], p.n_columns)
    encoding_rows = product_sum("propagation", [(p, wanted_columns)], len(p), ALONE)
    by_column = transposed(encoding_rows)
    return replace(state, columns=by_column, entropies=entropies(by_column.values))
