"""Re-ranking as a graph neural network; the same operator as contextual affinity (ConAff).

Xuanmeng Zhang, Minyue Jiang, Zhedong Zheng, Xiao Tan, Errui Ding, Yi Yang: Understanding Image
Retrieval Re-Ranking: A Graph Neural Network Perspective, 2020 (ACM TOMM). Chunlin Yu, Ye Shi,
Jingya Wang: Contextually Affinitive Neighborhood Refinery for Deep Clustering, NeurIPS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from kinrank.kernels import cross as kernels
from kinrank.kernels.lists import euclidean_rows
from kinrank.methods.answer import rank_scores
from kinrank.methods.common import JointMethod, JointRows, cosine_only
from kinrank.options import option
from kinrank.parallel import Out, Runner
from kinrank.search.exact import dense_search
from kinrank.stages.clusters import nearest, regular
from kinrank.stages.sparse import half_sum, product, sorted_rows, transposed
from kinrank.types import Floats, Neighbors, Ranking, SparseRows


@dataclass(frozen=True, kw_only=True)
class GNN(JointMethod):
    """GNN re-ranking: cosine between neighbourhoods that are passed on to the nearest twice.

    A = indicator of the k1 nearest; twice: A <- A + A^T, A_i <- sum over the k2 nearest j of
    s_ij^alpha A_j, L2 norm 1; score = A_q A_g, and with ``mix`` the cosine of the vectors

    Distances are minus the score, in [-1, 0]; rows without a score have 0 and follow in the order
    of their distance. Vectors are normalised first. Time O(n^2 d) for the exact search,
    O(n k1 k2) for the first round and O(k1^2 k2^2) per query for the second, which is never stored;
    memory O(n k1 k2).

    Parameters
    ----------
    metric : "cosine", the only one of this method
    k1, k2 : size of a neighbourhood; rows it is passed on to; the row itself counts in both
    alpha : power of the similarity
    mix : share of the cosine of the vectors (0.3 in the authors' newer code, 0 in the older)
    dialect : "cas" (the CAS authors: a row's own neighbourhood counts once more, which their tables
        are made with) or "zhang" (the original, whose settings are k1=26, k2=7)

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.GNN()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [269, 191, 179]
    """

    ranking_bytes: ClassVar[int] = 64
    metric: Literal["cosine"] = cosine_only()
    k1: int = option(40, "size of a neighbourhood, the row itself counted", spare=0)
    k2: int = option(10, "rows a neighbourhood is passed on to, the row itself counted", spare=0)
    alpha: float = option(2.0, "power of the similarity", within=(0, 100))
    mix: float = option(0.0, "share of the cosine of the vectors", within=(0, 1))
    dialect: Literal["cas", "zhang"] = option("cas", "whose copy of the method to reproduce")

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        n = len(rows)
        first = rows.first
        lists = rows.neighbors(max(self.k1, self.k2))
        m = nearest(lists.indices, self.k1, run)
        if self.k2 == 1:  # the original does not propagate then
            back = transposed(m, run)
            numbers = np.arange(n + 1)
            passed = SparseRows(numbers, numbers[:n].astype(np.int32), None, n)
        else:
            passed = self._passing(lists)
            a = sorted_rows(product("context", passed, half_sum(m, run), run), run)
            out = Out(np.float32, indptr=a.indptr)  # Euclidean norm 1
            values = run.fill("context", euclidean_rows, (a.indptr, a.values), n, out)
            m = back = half_sum(a.with_data(values), run)
        args = (passed.csr, m.csr)
        norms = run.fill("context", kernels.propagated_norms, args, n, Out(np.float32))

        def block(low: int, high: int) -> Floats:
            out = np.empty((high - low, n - first), np.float32)
            kernels.propagated_cosines(low, high, *args, back.csr, norms, first, out)
            if self.mix == 0:
                return out
            cosine = dense_search(rows.queries[low:high], rows.gallery, "inner")
            mixed = np.float32(1 - self.mix) * out - np.float32(self.mix) * cosine
            return mixed.astype(np.float32)

        return rank_scores(block, rows.queries, rows.gallery, k, run, row_filter=rows.row_filter)

    def _passing(self, lists: Neighbors) -> SparseRows:
        """P: the k2 nearest with their similarity, and the row itself once more."""
        nearest_rows = lists.indices[:, : self.k2]
        d = lists.distances[:, : self.k2]
        similarity = np.maximum(1 - d / 2, 0) ** np.float32(self.alpha)
        if self.dialect == "cas":
            similarity[:, 0] += 1
        return regular(np.ascontiguousarray(nearest_rows), similarity, len(lists))
