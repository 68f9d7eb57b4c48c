"""Cluster-aware similarity diffusion.

Jifei Luo, Hantao Yao, Changsheng Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval,
ICML 2024.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.filters import Filter, NotItself
from kinrank.kernels.measures import MeasureName
from kinrank.methods.cas_options import check_regularizer, filled_options
from kinrank.methods.common import JointMethod, JointRows, begin_ranking, results
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.runs.run import Run, as_run
from kinrank.stages import diffusion
from kinrank.stages.distances import Distances, VectorDistances, lay_out
from kinrank.stages.divergence import Divergence
from kinrank.stages.encode import encode
from kinrank.stages.graph import Graph
from kinrank.stages.layout import Layout
from kinrank.stages.parameters import StageParameters
from kinrank.stages.precomputed import precomputed_distances
from kinrank.stages.ranking import Ranker
from kinrank.types import Neighbors, Ranking, SparseRows
from kinrank.validation import check_int, reduce_k

_WIDE = (1e-6, 1e6)  # of parameters that are only above 0


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows in the order of their layout, with the graph and the distance d' between them."""

    distances: Distances
    layout: Layout
    graph: Graph
    divergence: Divergence


@dataclass(frozen=True, kw_only=True)
class CASMethod(JointMethod):
    """The parameters and stages of CAS, whose public form with ``fit`` is ``kinrank.CAS``."""

    variant: Literal["authors", "paper"] = option("authors", "whose choices fill in the rest")
    k1: int = option(20, "size of the local cluster C")
    k2: int = option(5, "size of the neighbour set xi")
    walk_k: int | None = option(None, "rows of the walk that guides smoothing, itself counted")
    enhance_k: int | None = option(None, "rows averaged in the enhancement, itself counted")
    keep: int | None = option(None, "entries kept per row of the transition matrix P")
    graph_k: int | None = option(None, "neighbours in the affinity graph, itself not counted")
    sigma: float = option(0.3, "width of the affinity exp(-d^2 / sigma^2)", within=_WIDE)
    mu: float = option(0.23, "weight of the regulariser; a = 1 / (1 + mu)", within=_WIDE)
    kappa: float = option(2.0, "weight of the neighbour set xi", within=_WIDE)
    beta: float | None = option(None, "how much smoothing holds on to F", within=(0, 1e6))
    omega: float = option(0.3, "share of the original distance in the result", within=(0, 1))
    clusters: Literal["expanded", "reciprocal", "knn"] | None = option(None, "local clusters")
    self_counts: bool | None = option(None, "a row is one of its own k1 nearest")
    symmetric: bool = option(True, "make the affinity graph symmetric")
    similarity: Literal["bidirectional", "smoothed", "original"] = option(
        "bidirectional", "BSD, SSM or OSM of the paper's ablation"
    )
    regularizer: Any = option("identity", "E of BSD, the regulariser", cli=("identity", "graph"))
    solver: Literal["local", "iterate", "cg", "dense"] | None = option(None, "how BSD is solved")
    steps: int | None = option(None, "steps of the basic iteration")
    start: Literal["graph", "regularizer", "zero"] | None = option(
        None, "where the basic iteration starts"
    )
    tol: float = option(3e-7, "about what may be missing from an entry of F", within=(0, 0.1))
    smoothing: Literal["nss", "aqe"] | None = option("nss", "neighbour-guided smoothing")
    enhancement: bool = option(True, "average the rows of the nearest before propagating")
    guide: Literal["walk", "similarity"] | None = option(None, "what guides the smoothing")
    propagation: Literal["square", "transpose"] | None = option(None, "how P and F' are made")
    divergence: MeasureName = option("js", "distance between the rows of F'")
    fusion: Literal["squared", "euclidean", "diffusion"] | None = option(
        None, "what distance omega weighs"
    )
    geodesic: bool = option(False, "shortest paths instead of the divergence itself")
    geodesic_k: int = option(100, "neighbours in the graph of shortest paths, itself counted")

    def __post_init__(self) -> None:
        passed = {item.name: getattr(self, item.name) for item in fields(self)}
        object.__setattr__(self, "_passed", passed)
        for name, value in filled_options(type(self), passed).items():
            object.__setattr__(self, name, value)

    @property
    def given_options(self) -> dict[str, Any]:
        """The parameters as they were passed: None where a value follows from others."""
        passed: dict[str, Any] = self.__dict__["_passed"]
        return passed

    def replace(self, **changes: Any) -> Self:
        """A copy with other values; what followed from the old ones follows from the new."""
        return type(self)(**{**self.given_options, **changes})

    def rerank_neighbors(
        self,
        distances: Any,
        indices: Any = None,
        *,
        n_queries: int,
        k: int | None = None,
        squared: bool = False,
        farthest: Any = None,
        threads: int | None = None,
        run: Run | None = None,
    ) -> Ranking:
        """Rank from neighbours or distances that were computed before.

        Rows are numbered [queries; gallery]: query 0 is row 0, gallery row 0 is row n_queries.

        Parameters
        ----------
        distances : (n, n) distances between all rows, or (n, K) of the rows in ``indices``
        indices : (n, K) nearest rows of every row, in any order, with or without the row itself;
            -1 for none, so that lists may be of any length, also empty. None when ``distances``
            is the full matrix.
        n_queries : how many of the rows are queries
        squared : whether the distances are squared already (as faiss gives them)
        farthest : with ``indices``: the largest distance from each row to any other, (n,) or one
            number for all (2 is near it for unit vectors and squared distances)
        k, threads : as in ``rerank``
        run : where the stages are computed, in memory or in ``work``, here or on a ``cluster``

        Returns
        -------
        Ranking
            With ``indices``, a gallery row that is neither listed for a query nor shares a cluster
            with it counts as farthest.
        """
        if self.whiten is not None:
            raise InvalidInputError(
                f"`whiten` must be None where distances are given, got {self.whiten!r}: take them "
                "between rows that were projected (Projection.transform)."
            )
        run = as_run(run)
        run.refuse_others("with `rerank_neighbors`", ("work", "cluster", "storage", "block_size"))
        source = precomputed_distances(distances, indices, squared=squared, farthest=farthest)
        n = len(source.neighbors)
        n_queries = check_int("n_queries", n_queries, 1, n - 1)
        k = results(k, n - n_queries)
        limit = n if indices is None else source.neighbors.k
        method = self.resolved(limit, "rows" if indices is None else "listed neighbours")
        inputs = (method, source, n_queries, k)
        with run.execution("rerank_neighbors", inputs, threads) as execution:
            encoded = method.compare(source, n_queries, execution.runner)
            return method.order(encoded, n_queries, k, execution.runner)

    def resolved(self, limit: int, what: str = "rows") -> Self:
        """The same method with no list longer than ``limit``."""
        extra = 0 if self.self_counts else 1
        passed = self.given_options
        sizes = {
            "k1": reduce_k("k1", self.k1, max(limit - extra, 1), what),
            "k2": reduce_k("k2", self.k2, limit, what),
        }
        for name, n_left_out in (("walk_k", 0), ("enhance_k", 0), ("graph_k", 1)):
            size = getattr(self, name)
            most = max(limit - n_left_out, 1)
            if passed[name] is None:
                sizes[name] = min(size, most)
            else:
                sizes[name] = reduce_k(name, size, most, what)
        sizes["geodesic_k"] = min(self.geodesic_k, limit)
        if self.geodesic and self.geodesic_k != type(self).geodesic_k:
            reduce_k("geodesic_k", self.geodesic_k, limit, what)
        sizes["k2"] = min(sizes["k2"], sizes["k1"] + extra)
        if all(getattr(self, name) == size for name, size in sizes.items()):
            return self
        return self.replace(**sizes, keep=self.keep)

    def list_length(self) -> int:
        """The longest list of neighbours that any stage asks for."""
        extra = 0 if self.self_counts else 1
        sizes = [self.k1 + extra, self.k2, int(self.graph_k or 1) + 1, int(self.enhance_k or 1)]
        if self.smoothing == "nss" and self.guide == "walk":
            sizes.append(int(self.walk_k or 1))
        if self.geodesic:
            sizes.append(self.geodesic_k)
        return max(sizes)

    @cached_property
    def stage_parameters(self) -> StageParameters:
        """The parameters of the stages, each with its value."""
        itself = 0 if self.self_counts else 1
        assert self.clusters is not None
        assert self.solver is not None
        assert self.guide is not None
        assert self.propagation is not None
        return StageParameters(
            cluster_k=self.k1 + itself,
            half_k=max(self.k1 // 2 + itself, 1),
            confident_k=self.k2,
            clusters=self.clusters,
            graph_k=int(self.graph_k or 1),
            sigma=self.sigma,
            kappa=self.kappa,
            symmetric=self.symmetric,
            similarity=self.similarity,
            alpha=1 / (1 + self.mu),
            regularizer=self.regularizer if isinstance(self.regularizer, str) else "matrix",
            solver=self.solver,
            steps=int(self.steps or 0),
            start=str(self.start),
            tol=self.tol,
            smoothing=self.smoothing,
            guide=self.guide,
            walk_k=int(self.walk_k or 1),
            beta=float(self.beta or 0),
            enhance_k=int(self.enhance_k or 1) if self.enhancement else None,
            propagation=self.propagation,
            keep=int(self.keep or 0),
        )

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        n_gallery = len(rows.gallery)
        n_queries = rows.n_queries
        depth = rows.depth(k)
        # Lists that hold k gallery rows beside the other queries, and some more, so that k rows are
        # certain; where the whole gallery is ranked, lists do not matter.
        spare = -depth
        if depth < n_gallery:
            spare += (depth + depth // 4 + 16) * len(rows) // n_gallery
        distances = rows.distances(self.list_length(), k, spare)
        encoded = self.compare(distances, n_queries, run)
        return self.order(encoded, n_queries, k, run, rows.row_filter)

    def rank_sharing(self, vectors: Any, k: int, execution: Execution) -> Ranking:
        """All rows among themselves: of each the first ``k`` others that share a column of F'.

        A row is in its own ranking, which has k + 1 places; those that are left hold -1. Lists need
        not be longer than the stages before ask for, which makes the search and the ranking a good
        deal cheaper than those of ``rerank``.
        """
        n = len(vectors)
        among = Filter(n, n, (NotItself(n),))
        rows, k = begin_ranking(self, vectors, None, k, execution, among)
        method = self.resolved(n)
        lists = rows.neighbors(method.list_length())
        itself = Neighbors(
            np.ascontiguousarray(lists.indices[:, :1]),
            np.ascontiguousarray(lists.distances[:, :1]),
            lists.farthest,
        )
        distances = VectorDistances.of(lists, itself, rows.vectors)
        encoded = method.compare(distances, n, execution.runner)
        with progress.stage("ranking", n):
            return method.ranker(encoded, n, None, execution.runner, among).rank_sharing(
                k + 1, execution.runner
            )

    def compare(self, distances: Distances, n_queries: int, run: Runner) -> EncodedRows:
        """All stages up to d': clusters, graph, diffusion, smoothing, propagation, divergence."""
        n = len(distances.neighbors)
        regularizer = check_regularizer(self.regularizer, n)
        with progress.stage("layout", n):
            distances, layout = lay_out(distances, self.k1 + 1, n_queries, run)
            if isinstance(regularizer, SparseRows):
                regularizer = layout.matrix(regularizer)
        stages = encode(self.stage_parameters, distances, layout, run, regularizer)
        divergence = Divergence.of(stages.encoding, self.divergence, run)
        return EncodedRows(distances, layout, stages.graph, divergence)

    def order(
        self,
        encoded: EncodedRows,
        n_queries: int,
        k: int,
        run: Runner,
        row_filter: Filter | None = None,
    ) -> Ranking:
        """The ranking by d*: d' or shortest paths of it, mixed with the original distance."""
        distances = encoded.distances
        paths = None
        if self.geodesic:
            with progress.stage("geodesic", len(distances.neighbors)):
                lists = distances.neighbors.indices
                paths = encoded.divergence.graph(lists, self.geodesic_k, run)
        with progress.stage("ranking", n_queries):
            return self.ranker(encoded, n_queries, paths, run, row_filter).rank(k, run)

    def ranker(
        self,
        encoded: EncodedRows,
        n_queries: int,
        paths: SparseRows | None,
        run: Runner,
        row_filter: Filter | None,
    ) -> Ranker:
        """What ranks encoded rows; paths : d' on the edges of shortest paths, None without."""
        return Ranker(
            distances=encoded.distances,
            divergence=encoded.divergence,
            n_queries=n_queries,
            omega=self.omega,
            fusion=str(self.fusion),
            diffusion=self._diffusion_distance(encoded.graph, n_queries, run),
            graph=paths,
            layout=encoded.layout,
            allowed=row_filter,
        )

    def _diffusion_distance(self, graph: Graph, n_queries: int, run: Runner) -> SparseRows | None:
        """1 - F_ij / sqrt(F_ii F_jj) of the queries, where it is not 1."""
        if self.fusion != "diffusion":
            return None
        alpha = 1 / (1 + self.mu)
        queries = np.arange(n_queries, dtype=np.int32)
        n = len(graph.s)
        ball = diffusion.surroundings(graph, queries, alpha, self.tol, run)
        exact = diffusion.converged(alpha, "identity", self.tol)
        f = diffusion.apply(graph, ball, exact, run, queries)
        identity = SparseRows(
            np.arange(n + 1, dtype=np.int64), np.arange(n, dtype=np.int32), None, n
        )
        root = np.sqrt(diffusion.apply(graph, identity, exact, run).values)
        scale = root[np.repeat(queries, ball.lengths)] * root[ball.indices]
        # A tiny mu leaves the series unfinished, and F_ii perhaps at 0.
        cosine = np.divide(f.values, scale, out=np.zeros_like(scale), where=scale > 0)
        return ball.with_data(np.clip(1 - cosine, 0, 1).astype(np.float32))
