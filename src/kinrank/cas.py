"""CAS as users have it: ranks at once, prepares an index, and chooses its own parameters.

Jifei Luo, Hantao Yao, Changsheng Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval,
ICML 2024. ``methods/cas.py`` has the stages.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kinrank._api import tune
from kinrank.index.index import Index
from kinrank.methods.cas import CASMethod
from kinrank.runs.run import Run
from kinrank.validation import check_choice


@dataclass(frozen=True, kw_only=True)
class CAS(CASMethod):
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
    tol : about what may be missing from an entry of F: rows that weight of the order of its root
        reaches are left out of the diffusion. The order depends on it in proportion
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

    @classmethod
    def auto(cls, gallery: Any, queries: Any = None, **options: Any) -> CAS:
        """CAS with parameters chosen for ``gallery`` without labels; see ``kinrank.tune``.

        options : parameters that stay as they are given, and those of ``kinrank.tune``

        ``CAS.auto(gallery).fit(gallery)`` is an index of it.
        """
        return cls(**tune(queries, gallery, "cas", **options).options)

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
        run : where the index is built, see ``kinrank.Run``; its ``search`` is that of queries too:
            "approximate" is for many rows; a searcher makes the lists alone, as it does not know
            rows that are added. An index lies in memory as float32: no ``memory_budget`` and no
            ``vectors``.

        Returns
        -------
        Index
        """
        method = self
        chosen = None
        if params is not None:
            check_choice("params", params, ("auto",))
            tuning = tune(None, gallery, "cas", threads=threads, **self._not_default())
            method = CAS(**tuning.options)
            chosen = tuning.chosen
        index = Index.fit(
            method, gallery, ids, context, attributes=attributes, threads=threads, run=run
        )
        index.chosen = chosen
        return index

    def _not_default(self) -> dict[str, Any]:
        """The parameters that were passed and are not their defaults."""
        defaults = {item.name: item.default for item in fields(self)}
        passed = self.given_options
        return {name: value for name, value in passed.items() if value is not defaults[name]}
