"""Contextualised similarity of self-taught metric learning, used for re-ranking.

Sungyeon Kim, Dongwon Kim, Minsu Cho, Suha Kwak: Self-Taught Metric Learning without Labels,
CVPR 2022; for re-ranking as in Luo et al., ICML 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kinrank.methods.answer import rank_dense
from kinrank.methods.common import JointMethod, JointRows
from kinrank.methods.context.ecn import cross_scores
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.stages import clusters
from kinrank.types import Floats, Ranking


@dataclass(frozen=True, kw_only=True)
class STML(JointMethod):
    """Self-taught metric learning: half pairwise similarity, half overlap of reciprocal neighbours.

    W_P = exp(-(d^2 over the row's largest)^2 / sigma)
    V_i = indicator of R(i, k1); W~ = V V^T / |V_i|; W^_i = the mean of W~ over the k1 / 2 nearest
    W_C = (W^ + W^^T) / 2; score = (W_P + W_C) / 2

    Distances are minus the score, in [-1, 0]. Time O(n^2 d) for the exact search, O(n k1^2) for the
    context and O(n_queries n_gallery d) for W_P, memory O(n k1^2).

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1 : size of the reciprocal neighbourhood, the row itself counted
    sigma : width of the pairwise similarity

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.STML()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [58, 284, 176]
    """

    ranking_bytes: ClassVar[int] = 64
    k1: int = option(20, "size of the reciprocal neighbourhood, the row itself counted", spare=0)
    sigma: float = option(0.1, "width of the pairwise similarity", within=(1e-6, 1e6))

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        distances = rows.distances(self.k1, k)
        lists = distances.neighbors.indices
        first = rows.first
        v = clusters.reciprocal(lists, self.k1, run)
        half = max(self.k1 // 2, 1)
        shares = (1 / (half * v.lengths)).astype(np.float32)
        shared = v.with_data(np.repeat(shares, v.lengths))
        context = cross_scores(lists[:, :half], shared, v, rows, run)

        def block(low: int, high: int) -> Floats:
            queries = np.arange(low, high, dtype=np.int32)
            d2 = distances.to_all(queries, first, Runner(1))
            out: Floats = np.exp(-(d2**2) / np.float32(self.sigma)) / np.float32(-2)
            for line, query in enumerate(queries):
                entries = slice(context.indptr[query], context.indptr[query + 1])
                rows_there = context.indices[entries] - first
                out[line, rows_there] -= context.values[entries] / np.float32(4)
            return out

        return rank_dense(block, rows.n_queries, len(rows.gallery), k, run, rows.row_filter)
