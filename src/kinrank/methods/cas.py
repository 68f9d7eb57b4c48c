"""Cluster-aware similarity diffusion.

Jifei Luo, Hantao Yao, Changsheng Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval,
ICML 2024.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.filters import Filter
from kinrank.kernels.measures import MeasureName
from kinrank.methods.cas_options import check_regularizer, filled_options
from kinrank.methods.common import JointMethod, JointRows, results
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.runs.run import Run, as_run
from kinrank.stages import diffusion
from kinrank.stages.distances import Distances, lay_out
from kinrank.stages.divergence import Divergence
from kinrank.stages.encode import encode
from kinrank.stages.graph import Graph
from kinrank.stages.layout import Layout
from kinrank.stages.parameters import StageParameters
from kinrank.stages.precomputed import precomputed_distances
from kinrank.stages.ranking import Ranker
from kinrank.types import Ranking, SparseRows
from kinrank.validation import check_choice, check_int, reduce_k

if TYPE_CHECKING:
    from kinrank.index.index import Index


_WIDE = (1e-6, 1e6)  # of parameters that are only above 0


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows as the ranking takes them: laid out anew, with the distance d' between them."""

    distances: Distances
    layout: Layout
    graph: Graph
    divergence: Divergence


@dataclass(frozen=True, kw_only=True)
class CAS(JointMethod):
    """Cluster-aware similarity diffusion: diffuse inside local clusters, smooth, compare.

    Distances lie in [0, 1] (with any ``divergence`` but "euclidean"), smaller is better.

    Time O(n^2 d) for the exact search and O(n k^2) for all that follows, memory O(n k).

    Parameters
    ----------
    whiten : None, "pairs", "views", a power between 0 and 0.5, or a fitted ``kinrank.Projection``;
        see ``Method``
    variant : "authors" or "paper"
        Sets the options below that are left out: as the authors' code computes, or as the paper's
        text says. ``CAS(variant=...)`` shows all values.
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1, k2 : size of the local cluster C and of the neighbour set xi
    walk_k, enhance_k, keep, graph_k
        Rows of the two-step walk that guides the smoothing; rows averaged in the enhancement;
        entries kept per row of P; neighbours in the graph W. They follow from k1 and k2.
    sigma, mu, kappa, beta, omega
        Width of the affinity; weight of the regulariser, a = 1 / (1 + mu); weight of xi; how much
        smoothing holds on to F; share of the original distance in the result.
    clusters : "expanded" R*(i, k1), "reciprocal" R(i, k1) or "knn" N(i, k1)
    self_counts : whether a row is one of its own k1 nearest in cluster lists
    symmetric : make W symmetric before it is normalised
    similarity : "bidirectional" (BSD), "smoothed" (SSM, the tensor-product diffusion of RDP) or
        "original" (OSM, the affinity itself)
    regularizer : E of BSD: "identity", "graph" (I + S) or a sparse, symmetric, positive
        semi-definite and non-negative matrix over [queries; gallery]
    solver : of BSD: "local" (row by row, converged), "iterate" (``steps`` of the basic iteration
        from ``start``, row by row), "cg" (the paper's conjugate gradients) or "dense" (closed
        form); the last two hold n x n matrices and refuse more than 4096 rows
    steps, start : of "iterate"; start is "graph" (W), "regularizer" (E) or "zero"
    tol : about what may be missing from an entry of F (walks lighter than that are left out)
    smoothing : "nss", "aqe" (mean over N(i, k2)) or None
    enhancement : average the rows of xi and of the nearest before propagating
    guide : T and r of NSS from the "walk" or from the "similarity" F itself
    propagation : "square" (P = F F, F' = P P) or "transpose" (P = F^T F, F' = P F)
    divergence : "js", "jaccard", "cosine", "euclidean" or "similarity" (F' itself)
    fusion : what omega weighs: "squared" or "euclidean" distance, or "diffusion", which is
        1 - F_ij / sqrt(F_ii F_jj) with the converged F
    geodesic : replace the divergence by shortest paths over each row's geodesic_k nearest; d* is
        then x / (1 + x) of its mix x with the original distance, which lies in [0, 1)

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> kinrank.CAS(k1=6, k2=3).rerank(points[:3], points[3:], k=5).distances.shape
    (3, 5)
    """

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
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        object.__setattr__(self, "_given", given)
        for name, value in filled_options(CAS, given).items():
            object.__setattr__(self, name, value)

    @classmethod
    def auto(cls, gallery: Any, queries: Any = None, **options: Any) -> CAS:
        """CAS with parameters chosen for ``gallery`` without labels; see ``kinrank.tune``.

        options : parameters that stay as they are given, and those of ``kinrank.tune``

        ``CAS.auto(gallery).fit(gallery)`` is an index of it.
        """
        from kinrank._api import tune

        return cls(**tune(queries, gallery, "cas", **options).params)

    def replace(self, **changes: Any) -> CAS:
        """A copy with other values; what followed from the old ones follows from the new."""
        given: dict[str, Any] = getattr(self, "_given")  # noqa: B009
        return CAS(**{**given, **changes})

    def fit(
        self,
        gallery: Any,
        ids: Any = None,
        context: Any = None,
        *,
        attributes: Any = None,
        params: str | None = None,
        threads: int | None = None,
        run: Run | None = None,
    ) -> Index:
        """Prepare the gallery for queries that come one at a time (online).

        Parameters
        ----------
        gallery : (n_gallery, d) array of any real dtype, or a torch tensor
        ids : (n_gallery,) names of the rows, all text or all 64-bit integers; None numbers them
        context : (n_context, d) rows that enrich the graph and are never answers, such as past
            queries and unlabelled images; what ``whiten`` fits is fitted to gallery and context
        attributes : what is known of the rows, such as ``{"camera": [...], "species": [...]}``, one
            value per gallery row: all text, all integers, all numbers or all True and False.
            ``Index.search`` takes conditions on them.
        params : "auto" chooses the parameters that are at their defaults by ``kinrank.tune``, and
            keeps what was chosen and why in ``Index.chosen``
        threads : how many threads to use; never changes the result
        run : its ``search`` is taken, for lists and for queries: "approximate" is for many rows;
            and its ``block_size``

        Returns
        -------
        Index
        """
        from kinrank.index.index import Index

        method = self
        chosen = None
        if params is not None:
            from kinrank._api import tune

            check_choice("params", params, ("auto",))
            tuning = tune(None, gallery, "cas", threads=threads, **self._not_default())
            method = CAS(**tuning.params)
            chosen = tuning.chosen
        index = Index.fit(
            method, gallery, ids, context, attributes=attributes, threads=threads, run=run
        )
        index.chosen = chosen
        return index

    def _not_default(self) -> dict[str, Any]:
        """The parameters that were given and are not their defaults."""
        given: dict[str, Any] = getattr(self, "_given")  # noqa: B009
        defaults = {item.name: item.default for item in fields(self)}
        return {name: value for name, value in given.items() if value is not defaults[name]}

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
        """Rank from neighbours or distances that are already known.

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
        run : its ``block_size`` is taken

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
        runner = as_run(run).in_memory(threads, "rerank_neighbors").runner
        source = precomputed_distances(distances, indices, squared=squared, farthest=farthest)
        n = len(source.neighbors)
        n_queries = check_int("n_queries", n_queries, 1, n - 1)
        k = results(k, n - n_queries)
        limit = n if indices is None else source.neighbors.k
        fitted = self.resolved(limit, "rows" if indices is None else "listed neighbours")
        return fitted.order(fitted.compare(source, n_queries, runner), n_queries, k, runner)

    def resolved(self, limit: int, what: str = "rows") -> CAS:
        """The same method with no list longer than ``limit``."""
        extra = 0 if self.self_counts else 1
        given: dict[str, Any] = getattr(self, "_given")  # noqa: B009
        sizes = {
            "k1": reduce_k("k1", self.k1, max(limit - extra, 1), what),
            "k2": reduce_k("k2", self.k2, limit, what),
        }
        for name, low in (("walk_k", 0), ("enhance_k", 0), ("graph_k", 1)):
            size, top = getattr(self, name), max(limit - low, 1)
            sizes[name] = min(size, top) if given[name] is None else reduce_k(name, size, top, what)
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
        sizes += [int(self.walk_k or 1)] if self.smoothing == "nss" and self.guide == "walk" else []
        sizes += [self.geodesic_k] if self.geodesic else []
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

    def _rank(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        # Long enough to hold k gallery rows and some beside the other queries, so that k rows are
        # certain; where the whole gallery is ranked, lists do not matter.
        n_gallery, n_queries = len(rows.gallery), rows.n_queries
        deep = rows.depth(k)
        spare = (
            (deep + deep // 4 + 16) * len(rows) // n_gallery - deep if deep < n_gallery else -deep
        )
        distances = rows.distances(self.list_length(), k, spare)
        encoded = self.compare(distances, n_queries, run)
        return self.order(encoded, n_queries, k, run, rows.allowed)

    def compare(self, distances: Distances, n_queries: int, run: Runner) -> EncodedRows:
        """All stages before shortest paths and the original distance come in."""
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
        self, encoded: EncodedRows, n_queries: int, k: int, run: Runner,
        allowed: Filter | None = None,
    ) -> Ranking:  # fmt: skip
        """What ``geodesic``, ``omega`` and ``fusion`` make of rows that were compared."""
        distances = encoded.distances
        paths = None
        if self.geodesic:
            with progress.stage("geodesic", len(distances.neighbors)):
                lists = distances.neighbors.indices
                paths = encoded.divergence.graph(lists, self.geodesic_k, run)
        with progress.stage("ranking", n_queries):
            ranker = Ranker(
                distances=distances,
                divergence=encoded.divergence,
                n_queries=n_queries,
                omega=self.omega,
                fusion=str(self.fusion),
                diffusion=self._diffusion_distance(encoded.graph, n_queries, run),
                graph=paths,
                layout=encoded.layout,
                allowed=allowed,
            )
            return ranker.rank(k, run)

    def _diffusion_distance(self, graph: Graph, n_queries: int, run: Runner) -> SparseRows | None:
        """1 - F_ij / sqrt(F_ii F_jj) of the queries, where it is not 1."""
        if self.fusion != "diffusion":
            return None
        alpha, queries = 1 / (1 + self.mu), np.arange(n_queries, dtype=np.int32)
        n = len(graph.s)
        ball = diffusion.surroundings(graph, queries, alpha, self.tol, run)
        exact = diffusion.converged(alpha, "identity", self.tol)
        f = diffusion.apply(graph, ball, exact, run, queries)
        own = SparseRows(np.arange(n + 1, dtype=np.int64), np.arange(n, dtype=np.int32), None, n)
        root = np.sqrt(diffusion.apply(graph, own, exact, run).values)
        scale = root[np.repeat(queries, ball.lengths)] * root[ball.indices]
        # A tiny mu leaves the series unfinished, and F_ii perhaps at 0.
        near = np.divide(f.values, scale, out=np.zeros_like(scale), where=scale > 0)
        return ball.with_data(np.clip(1 - near, 0, 1).astype(np.float32))
