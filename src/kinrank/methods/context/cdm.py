"""Contextual dissimilarity measure.

Herve Jegou, Hedi Harzallah, Cordelia Schmid: A Contextual Dissimilarity Measure for Accurate and
Efficient Image Search, CVPR 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kinrank.methods.answer import rank_dense
from kinrank.methods.common import JointMethod, JointRows
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.search.exact import dense_search
from kinrank.types import Floats, Neighbors, Ranking


@dataclass(frozen=True, kw_only=True)
class CDM(JointMethod):
    """Contextual dissimilarity measure: every neighbourhood is made equally dense.

    r(i) = the mean distance of i to its k1 nearest, rbar = the geometric mean of all r
    d*(i, j) = d(i, j) (rbar^2 / (r(i) r(j)))^(alpha / 2), ``steps`` times over

    Distances are >= 0 and of the size of Euclidean ones. Time O(n^2 d) for the exact search and
    O(n_queries n_gallery d) for the ranking, memory O(n pool).

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1 : nearest rows that a neighbourhood is measured by, the row itself not counted
    alpha : how much is evened out in a step
    steps : 1 is the form without iteration (NICDM)
    pool : from the second step on, the rows among which the nearest are looked for again

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.CDM()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 7, 127]
    """

    ranking_bytes: ClassVar[int] = 64
    k1: int = option(10, "nearest rows that a neighbourhood is measured by", spare=1)
    alpha: float = option(1.0, "how much is evened out in a step", within=(0, 1))
    steps: int = option(1, "iterations")
    pool: int = option(100, "rows among which later steps look for the nearest")

    def _limits(self, n: int) -> dict[str, int]:
        return {"k1": n - 1, "pool": n - 1} if self.steps > 1 else {"k1": n - 1}

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        length = self.k1 if self.steps == 1 else max(self.k1, self.pool)
        # Many steps over copies make factors without end: products of two must fit float32.
        scale = np.minimum(self._scales(rows.neighbors(length + 1)), 1e9).astype(np.float32)
        first = rows.first

        def block(low: int, high: int) -> Floats:
            d = np.sqrt(dense_search(rows.queries[low:high], rows.gallery))
            return d * scale[low:high, None] * scale[first:]

        return rank_dense(block, rows.n_queries, len(rows.gallery), k, run, rows.row_filter)

    def _scales(self, lists: Neighbors) -> npt.NDArray[np.float64]:
        """The factors of d* = d scale_i scale_j."""
        ids = lists.indices[:, 1:]
        d = np.sqrt(lists.distances[:, 1:].astype(np.float64))
        scale = np.ones(len(lists))
        for _ in range(self.steps):
            changed = d * scale[:, None] * scale[ids]
            r = np.partition(changed, self.k1 - 1, axis=1)[:, : self.k1].mean(axis=1)
            # Among copies r is 0: they count as very dense, not as infinitely so.
            r = np.maximum(r, 1e-6 * float(np.median(r)) + float(np.finfo(np.float32).tiny))
            scale *= (np.exp(np.log(r).mean()) / r) ** (self.alpha / 2)
        return scale
