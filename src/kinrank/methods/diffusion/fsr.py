"""Fast spectral ranking.

Ahmet Iscen, Yannis Avrithis, Giorgos Tolias, Teddy Furon, Ondrej Chum: Fast Spectral Ranking for
Similarity Search, CVPR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.kernels.lanes import LANES
from kinrank.methods.answer import rank_scores
from kinrank.methods.common import InductiveMethod
from kinrank.methods.diffusion.solve import (
    LANE_BYTES,
    converged,
    gallery_graph,
    query_starts,
    solutions,
)
from kinrank.options import option
from kinrank.runs.execution import Execution
from kinrank.search.stored import Stored
from kinrank.stages.sparse import times
from kinrank.stages.spectrum import extreme_pairs
from kinrank.types import Floats, Ints, Ranking, SparseRows

# of the converged solution that full rank stands for
_STEPS = 1000
_TOL = 1e-6


@dataclass(frozen=True, kw_only=True)
class FSR(InductiveMethod):
    """Fast spectral ranking: diffusion as a filter of the graph's spectrum.

    f = U h(L) U^T y, h(x) = 1 / (1 - alpha x)

    The graph and y are those of ``dfs``. With a ``rank`` the leading eigenvectors are kept, so that
    a query costs one product with them. At full rank f is the converged solution of
    (I - alpha S) f = y, and it is computed as such, without any n x n matrix.

    Distances are minus the score, <= 0; rows without a positive score have 0 and follow in the
    order of their distance. Vectors are normalised first. At full rank: Time O(n^2 d) to fit and
    O(n d + t n k1) per query, t the steps to convergence (about 35 for alpha = 0.99), memory
    O(n k1). At rank r: O(n^2 d + n k1 r + n r^2) to fit, O(n (d + r)) per query, memory O(n r). A
    new query needs only the fitted gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    k1 : neighbours in the graph, the row itself counted
    kq : neighbours of the query that the diffusion starts from
    rank : eigenvectors kept (1000 to 2000 are usual), or "full"
    residual : with ``rank``: add the part of y outside the kept eigenvectors, as h(0) does
    alpha, gamma : how far it spreads; power of the similarity

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.FSR().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [269, 324, 47]
    """

    ranking_bytes: ClassVar[int] = LANE_BYTES
    k1: int = option(50, "neighbours in the graph, the row itself counted", spare=0)
    kq: int = option(10, "neighbours of the query that the diffusion starts from", spare=0)
    rank: int | Literal["full"] = option("full", "eigenvectors kept")
    residual: bool = option(True, "add what the kept eigenvectors do not hold")
    alpha: float = option(0.99, "how far the diffusion spreads", below=(0, 1))
    gamma: float = option(3.0, "power of the similarity", above=(0, 100))

    def _limits(self, n: int) -> dict[str, int]:
        limits = super()._limits(n)
        return limits if self.rank == "full" else {**limits, "rank": n - 1}

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> Any:
        run = execution.runner
        s, layout = gallery_graph(gallery, self.k1, self.gamma, execution)
        if self.rank == "full":
            return converged(s, self.alpha, _STEPS, _TOL, layout, run)
        vectors, gain = self._spectrum(s)
        return vectors[layout.position], gain

    def _spectrum(self, s: SparseRows) -> tuple[Floats, Floats]:
        """The leading eigenvectors, (n, rank), and h of their eigenvalues."""
        if len(s) < 3:
            raise InvalidInputError(f"`gallery` must have 3 rows or more for a rank, got {len(s)}.")
        start = np.ones(len(s))  # a fixed start: the same bits in every run
        values, vectors = extreme_pairs(lambda x: times(s, x), start, int(self.rank), "LA")
        gain = 1 / (1 - self.alpha * np.minimum(values, 1))
        return vectors.astype(np.float32), (gain - self.residual).astype(np.float32)

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

        def rows(low: int, high: int) -> Floats:
            if self.rank == "full":
                return solutions(state, y, low, high)
            return np.stack([self._filtered(y, state, row) for row in range(low, high)])

        return rank_scores(rows, queries, gallery, k, execution.runner, LANES)

    def _filtered(self, y: SparseRows, spectrum: tuple[Floats, Floats], row: int) -> Floats:
        """One query: matrix times vector, whose bits do not depend on how queries are grouped."""
        vectors, gain = spectrum
        entries = slice(y.indptr[row], y.indptr[row + 1])
        ids = y.indices[entries]
        values = y.values[entries]
        scores: Floats = vectors @ (gain * (values @ vectors[ids]))
        if self.residual:
            scores[ids] += values
        return scores
