"""The stages of CAS in their order: from lists of neighbours to the encoding F'.

    stage          reads                                   makes
    clusters       lists of neighbours                     xi, C: confident neighbours, clusters
    graph          lists, xi                               W, S: affinity, normalised
    diffusion      S (or distances), C                     F: similarity on the clusters
    smoothing      F, xi, lists                            smoothed F
    enhancement    smoothed F, xi, lists                   enhanced F
    propagation    enhanced F                              P and F': transition, encoding

Every stage is a function of all rows, or of ``rows`` alone. ``encode`` calls them for all rows,
``kinrank.index.change`` for those that a change reaches, and ``kinrank.index.query`` calls the same
kernels for a query, which is a row in an overlay.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinrank import progress
from kinrank.parallel import Runner
from kinrank.stages.clusters import local_clusters, reciprocal
from kinrank.stages.diffusion import similarity_on_clusters
from kinrank.stages.distances import Distances
from kinrank.stages.enhancement import enhance
from kinrank.stages.graph import Graph, affinity_graph
from kinrank.stages.layout import Layout
from kinrank.stages.parameters import StageParameters
from kinrank.stages.propagation import propagate
from kinrank.stages.smoothing import smooth
from kinrank.types import Neighbors, SparseRows


@dataclass(frozen=True, eq=False, kw_only=True)
class Stages:
    """What the stages make of all rows.

    confident : xi, confident neighbours; half : R(i, k1 / 2), reciprocal neighbours by which
        clusters are expanded, else None
    graph : W and S, affinities and these normalised
    similarity : F on the clusters; smoothed, enhanced : what becomes of it
    transition : P, None with propagation "transpose"; encoding : F'
    All but ``graph`` are ``SparseRows``, n rows.
    """

    confident: SparseRows
    half: SparseRows | None
    graph: Graph
    similarity: SparseRows
    smoothed: SparseRows
    enhanced: SparseRows
    transition: SparseRows | None
    encoding: SparseRows


def encode(
    parameters: StageParameters,
    distances: Distances,
    layout: Layout,
    run: Runner,
    regularizer: str | SparseRows | None = None,
) -> Stages:
    """All stages of all rows, one after the other.

    distances : between the rows, and their lists of neighbours
    layout : where rows were as they were given: ties go to the lower place
    run : computes blocks of rows on threads, or in files
    regularizer : E of the diffusion where it is a matrix over the same rows; None for that of the
        parameters
    """
    neighbors = distances.neighbors
    n = len(neighbors)
    with progress.stage("clusters", n):
        confident = reciprocal(neighbors.indices, parameters.confident_k, run)
        half = None
        if parameters.clusters == "expanded":
            half = reciprocal(neighbors.indices, parameters.half_k, run)
        clusters = local_clusters(neighbors.indices, parameters, half, run)
    with progress.stage("graph", n):
        graph = graph_of_lists(neighbors, confident, parameters, run)
    with progress.stage("diffusion", n):
        similarity = similarity_on_clusters(
            graph, clusters, distances, parameters, run, regularizer=regularizer
        )
    del clusters
    with progress.stage("smoothing", n):
        smoothed = smooth(similarity, confident, neighbors, parameters, run)
    with progress.stage("enhancement", n):
        enhanced = smoothed
        if parameters.enhance_k is not None:
            enhanced = enhance(
                smoothed,
                confident,
                neighbors.indices,
                parameters.enhance_k,
                parameters.kappa,
                run,
            )
    with progress.stage("propagation", n):
        transition, encoding = propagate(enhanced, parameters, layout, run)
    return Stages(
        confident=confident,
        half=half,
        graph=graph,
        similarity=similarity,
        smoothed=smoothed,
        enhanced=enhanced,
        transition=transition,
        encoding=encoding,
    )


def graph_of_lists(
    neighbors: Neighbors, confident: SparseRows, parameters: StageParameters, run: Runner
) -> Graph:
    """W and S of all rows: ``affinity_graph`` with the sizes that ``parameters`` have.

    neighbors : the lists of all rows; confident : xi
    """
    return affinity_graph(
        neighbors,
        parameters.graph_k,
        parameters.sigma,
        parameters.kappa,
        confident,
        symmetric=parameters.symmetric,
        run=run,
    )
