"""Regularised diffusion process.

Song Bai, Xiang Bai, Qi Tian, Longin Jan Latecki: Regularized Diffusion Process for Visual
Retrieval, AAAI 2017; Regularized Diffusion Process on Bidirectional Context for Object Retrieval,
TPAMI 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kinrank.kernels.lanes import LANES
from kinrank.methods.answer import rank_scores
from kinrank.methods.common import JointMethod, JointRows
from kinrank.methods.diffusion.solve import (
    LANE_BYTES,
    by_series,
    laid_out,
    least_eigenvalue,
    solutions,
    unit_starts,
)
from kinrank.options import option
from kinrank.parallel import Out, Runner
from kinrank.stages.graph import weighted_lists
from kinrank.stages.sparse import half_sum, normalized
from kinrank.types import Floats, Neighbors, Ranking, SparseRows


@dataclass(frozen=True, kw_only=True)
class RDP(JointMethod):
    """Regularised diffusion process: on the tensor product graph, the identity as regulariser.

    W_ij = exp(-(d^2 over the largest of all)^2 / sigma^2) on the k1 nearest, made symmetric
    ``steps`` times A <- alpha S A S^T + (1 - alpha) I from A = I, alpha = 1 / (1 + mu)
    score = A_qg

    S is symmetric, so A is a polynomial of S of degree 2 steps, and only its rows for the queries
    are computed, by Chebyshev polynomials: terms below ``tol`` are left out.

    Distances are minus the score, in [-1, 0]; rows that are not reached have 0 and follow in the
    order of their distance. Time O(n^2 d) for the exact search and O(t n k1) per query, t terms (at
    most 2 steps), memory O(n k1).

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1 : neighbours in the graph, the row itself counted
    sigma, mu : width of the affinity; weight of the regulariser
    steps : iterations
    tol : Chebyshev terms below it are left out; 0 keeps all

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.RDP()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 127, 93]
    """

    ranking_bytes: ClassVar[int] = LANE_BYTES
    k1: int = option(30, "neighbours in the graph, the row itself counted", spare=0)
    sigma: float = option(0.5, "width of the affinity", within=(1e-6, 1e6))
    mu: float = option(0.3, "weight of the regulariser; alpha = 1 / (1 + mu)", within=(1e-6, 1e6))
    steps: int = option(20, "iterations")
    tol: float = option(1e-4, "terms of the polynomial below it are left out", within=(0, 0.1))

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        first = rows.first
        lists, layout = laid_out(rows.neighbors(self.k1), run)
        s = self._graph(lists, run)
        degree = 2 * self.steps
        solve = by_series(s, self._polynomial, least_eigenvalue(s), degree, self.tol, layout)
        starts = unit_starts(rows.n_queries, len(rows))

        def block(low: int, high: int) -> Floats:
            return solutions(solve, starts, low, high, first)

        return rank_scores(block, rows.queries, rows.gallery, k, run, LANES, rows.row_filter)

    def _graph(self, lists: Neighbors, run: Runner) -> SparseRows:
        largest = float(lists.farthest.max())
        args = (lists.distances, largest if largest > 0 else 1.0, self.sigma)
        out = Out(np.float32, self.k1)
        weights = run.fill("graph", _affinity_rows, args, len(lists), out)
        return normalized(half_sum(weighted_lists(lists.indices, 0, weights, run), run), run)

    def _polynomial(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(1 - a) sum of a^t x^2t for t < steps, and a^steps x^(2 steps)."""
        alpha = 1 / (1 + self.mu)
        square = alpha * x**2
        last = square**self.steps
        return (1 - alpha) * (1 - last) / (1 - square) + last


def _affinity_rows(
    low: int, high: int, distances: Floats, largest: float, sigma: float, out: Floats
) -> None:
    """exp(-(d^2 over the largest)^2 / sigma^2)."""
    d2 = distances[low:high, : out.shape[1]] / largest
    out[low:high] = np.exp(-(d2**2) / sigma**2)
