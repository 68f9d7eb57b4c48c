"""The parameters of the stages, each with its value: ``kinrank.CAS`` resolved against the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class StageParameters:
    """What the stages of CAS are computed with. Sizes count the row itself, but for ``graph_k``.

    cluster_k, half_k : lengths of the lists behind R(i, k1) and R(i, k1 / 2)
    confident_k : k2, the length of the lists behind xi
    clusters : "expanded" R*, "reciprocal" R or "knn" N
    graph_k, sigma, kappa, symmetric : of the affinity graph W
    similarity : "bidirectional" (BSD), "smoothed" (SSM) or "original" (the affinity itself)
    alpha : 1 / (1 + mu); solver, steps, start, tol : how the diffusion is computed
    regularizer : "identity" or "graph" (I + S); a matrix travels beside the parameters
    smoothing : "nss", "aqe" or None; guide, walk_k, beta : of NSS
    enhance_k : rows averaged beside xi; None without enhancement
    propagation : "square" or "transpose"; keep : entries kept in a row of P
    """

    cluster_k: int
    half_k: int
    confident_k: int
    clusters: Literal["expanded", "reciprocal", "knn"]
    graph_k: int
    sigma: float
    kappa: float
    symmetric: bool
    similarity: Literal["bidirectional", "smoothed", "original"]
    alpha: float
    regularizer: str
    solver: Literal["local", "iterate", "cg", "dense"]
    steps: int
    start: str
    tol: float
    smoothing: Literal["nss", "aqe"] | None
    guide: Literal["walk", "similarity"]
    walk_k: int
    beta: float
    enhance_k: int | None
    propagation: Literal["square", "transpose"]
    keep: int

    @property
    def reads_similarity_again(self) -> bool:
        """Whether a change or a query reads rows of F from before the smoothing."""
        if self.smoothing == "aqe":
            return True
        return self.smoothing == "nss" and self.guide == "similarity"
