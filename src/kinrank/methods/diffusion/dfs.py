"""Diffusion for retrieval.

Ahmet Iscen, Giorgos Tolias, Yannis Avrithis, Teddy Furon, Ondrej Chum: Efficient Diffusion on
Region Manifolds: Recovering Small Objects with Compact CNN Representations, CVPR 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from kinrank.kernels.lanes import LANES
from kinrank.methods.answer import rank_scores
from kinrank.methods.common import InductiveMethod
from kinrank.methods.diffusion.solve import (
    LANE_BYTES,
    Solver,
    by_conjugate_gradients,
    gallery_graph,
    query_starts,
    solutions,
)
from kinrank.options import option
from kinrank.runs.execution import Execution
from kinrank.search.stored import Stored
from kinrank.types import Ints, Ranking


@dataclass(frozen=True, kw_only=True)
class DFS(InductiveMethod):
    """Diffusion of the query's nearest over the mutual graph of the gallery (global descriptors).

    W_ij = max(s_ij, 0)^gamma for mutual neighbours; S = D^-1/2 W D^-1/2
    y = max(s(q, .), 0)^gamma at the kq nearest; (I - alpha S) f = y; score = f

    Distances are minus the score, <= 0; rows that are not reached have 0 and follow in the order of
    their distance. Vectors are normalised first. Time O(n^2 d) to fit, O(n d + steps n k1) per
    query, memory O(n k1). A new query needs only the fitted gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    k1 : neighbours in the graph, the row itself counted
    kq : neighbours of the query that the diffusion starts from (10 in the original, 4 in the CAS
        authors' tables)
    alpha : how far it spreads
    gamma : power of the similarity
    steps, tol : of conjugate gradients; the original stops after 20 steps, converged or not

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.DFS().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [324, 317, 41]
    """

    ranking_bytes: ClassVar[int] = LANE_BYTES
    k1: int = option(50, "neighbours in the graph, the row itself counted", spare=0)
    kq: int = option(4, "neighbours of the query that the diffusion starts from", spare=0)
    alpha: float = option(0.99, "how far the diffusion spreads", below=(0, 1))
    gamma: float = option(3.0, "power of the similarity", above=(0, 100))
    steps: int = option(20, "steps of conjugate gradients, at most")
    tol: float = option(1e-6, "residual at which they stop", within=(0, 0.1))

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> Solver:
        s, layout = gallery_graph(gallery, self.k1, self.gamma, execution)
        return by_conjugate_gradients(s, self.alpha, self.steps, self.tol, layout)

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        y = query_starts(queries, gallery, self.kq, self.gamma, execution, own_rows)
        scores = partial(solutions, state, y)
        return rank_scores(scores, queries, gallery, k, execution.runner, LANES)
