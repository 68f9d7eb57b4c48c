"""Sparse contextual activation.

Song Bai, Xiang Bai: Sparse Contextual Activation for Efficient Visual Re-ranking, IEEE TIP 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.methods.answer import rank_by_divergence
from kinrank.methods.common import JointMethod, JointRows
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.stages.clusters import nearest
from kinrank.stages.divergence import Divergence
from kinrank.stages.smoothing import smooth_by_average
from kinrank.stages.sparse import unit_rows
from kinrank.types import Ranking


@dataclass(frozen=True, kw_only=True)
class SCA(JointMethod):
    """Sparse contextual activation: Jaccard distance of neighbourhoods, averaged over the nearest.

    F_i = exp(-d(i, .)) on the k1 nearest, L1 norm 1, with d over the row's largest
    F'_i = the mean of F over the k2 nearest; d* = 1 - m / (2 - m), m = sum min(F'_q, F'_g)

    Distances lie in [0, 1]; rows that share nothing with the query have 1 and follow in the order
    of their distance. Time O(n^2 d) for the exact search and O(n k1 k2) for the rest, memory
    O(n k1 k2).

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1, k2 : rows activated and rows averaged, the row itself counted; the authors' 4 and 2 are for
        UKBench, where every object has four images

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.SCA()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 7, 127]
    """

    k1: int = option(4, "rows activated, the row itself counted", spare=0)
    k2: int = option(2, "rows averaged, the row itself counted", spare=0)

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        distances = rows.distances(max(self.k1, self.k2), k)
        lists = distances.neighbors
        active = nearest(lists.indices, self.k1, run)
        numbers = np.arange(len(rows), dtype=np.int32)
        d = np.sqrt(distances.on_pattern(numbers, active.indptr, active.indices, run))
        f = unit_rows(active.with_data(np.exp(-d)), run)
        f = smooth_by_average(f, lists.indices, self.k2, run)
        divergence = Divergence.of(f, "jaccard", run)
        return rank_by_divergence(divergence, distances, rows.n_queries, k, run, rows.row_filter)
