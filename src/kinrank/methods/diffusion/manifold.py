"""Ranking on data manifolds: the basic diffusion.

Dengyong Zhou, Jason Weston, Arthur Gretton, Olivier Bousquet, Bernhard Schölkopf: Ranking on Data
Manifolds, NIPS 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kinrank.kernels.lanes import LANES
from kinrank.methods.answer import rank_scores
from kinrank.methods.common import JointMethod, JointRows
from kinrank.methods.diffusion.solve import (
    LANE_BYTES,
    converged,
    laid_out,
    solutions,
    unit_starts,
)
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.stages.graph import affinity_graph
from kinrank.types import Floats, Ranking, SparseRows

_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Manifold(JointMethod):
    """Ranking on manifolds: spread from the query until it converges.

    f <- alpha S f + (1 - alpha) e_q

    W_ij = exp(-d^2 / sigma^2) on the k1 nearest, made symmetric, d^2 over the row's largest and the
    row itself without an edge; S = D^-1/2 W D^-1/2; f = (1 - alpha) (I - alpha S)^-1 e_q

    Distances are minus the score, in [-1, 0]; rows that are not reached have 0 and follow in the
    order of their distance. Time O(n^2 d) for the exact search and O(t n k1) per query, t the steps
    of conjugate gradients to ``tol``, memory O(n k1).

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1 : neighbours in the graph, the row itself not counted
    sigma, alpha : width of the affinity; how far it spreads
    tol : residual at which the solution counts as converged

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.Manifold()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [58, 264, 41]
    """

    ranking_bytes: ClassVar[int] = LANE_BYTES
    k1: int = option(20, "neighbours in the graph, the row itself not counted", spare=1)
    sigma: float = option(0.3, "width of the affinity", within=(1e-6, 1e6))
    alpha: float = option(0.99, "how far the diffusion spreads", below=(0, 1))
    tol: float = option(1e-6, "residual at which it counts as converged", above=(0, 0.1))

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        n = len(rows)
        first = rows.first
        lists, layout = laid_out(rows.neighbors(self.k1 + 1), run)
        nobody = SparseRows(np.zeros(n + 1, np.int64), np.empty(0, np.int32), None, n)
        s = affinity_graph(lists, self.k1, self.sigma, 1.0, nobody, symmetric=True, run=run).s
        solver = converged(s, self.alpha, _STEPS, self.tol, layout, run)
        starts = unit_starts(rows.n_queries, n)

        def block(low: int, high: int) -> Floats:
            return np.float32(1 - self.alpha) * solutions(solver, starts, low, high, first)

        return rank_scores(block, rows.queries, rows.gallery, k, run, LANES, rows.row_filter)
