"""k-nearest-neighbour re-ranking.

Xiaohui Shen, Zhe Lin, Jonathan Brandt, Shai Avidan, Ying Wu: Object Retrieval and Localization with
Spatially-Constrained Similarity Measure and k-NN Re-ranking, CVPR 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from kinrank.filters import empty_ranking
from kinrank.kernels.answer import add_votes
from kinrank.kernels.search import dense_values
from kinrank.methods.answer import put_first
from kinrank.methods.common import JointMethod, JointRows
from kinrank.options import option
from kinrank.ordering import ascending
from kinrank.parallel import Runner
from kinrank.search.stored import Stored, for_kernels
from kinrank.types import Floats, Ints, Ranking

_CELLS = 1 << 26  # of the scores that are summed at a time


@dataclass(frozen=True, kw_only=True)
class KNN(JointMethod):
    """k-NN re-ranking: a vote of the query's nearest, each by the rank it gives to a row.

    With c_0 = q, c_1 .. c_k1 the query's list and R_i(x) the rank of x in the list of i, from 1:
    score(x) = sum over j of w_j / R_cj(x)

    Distances are minus the score, < 0. Time O(n^2 d) for the exact search and O(n d + n log n) for
    each row that is in any query's list, memory O(n k1) and a block of queries by gallery rows.

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1 : rows that vote beside the query
    dialect : "cas" (the CAS authors: w_j = 1 / (j + 1 + R_cj(q)), forward and backward rank) or
        "shen" (the original: w_j = 1 / (j + 1))

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.KNN()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 7, 58]
    """

    ranking_bytes: ClassVar[int] = 1024
    k1: int = option(50, "rows that vote beside the query", spare=1)
    dialect: Literal["cas", "shen"] = option("cas", "how votes are weighted")

    def _rank(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        lists = rows.neighbors(self.k1 + 1).indices[: rows.n_queries]
        n_queries = rows.n_queries
        n_gallery = len(rows.gallery)
        found = empty_ranking(n_queries, k)
        size = max(1, _CELLS // n_gallery)
        for low in range(0, n_queries, size):
            high = min(low + size, n_queries)
            scores = self._scores(rows, lists[low:high], low, run)
            for query, score in enumerate(scores, start=low):
                put_first(found, query, -score, rows.allowed)
        return found

    def _scores(self, rows: JointRows, lists: Ints, low: int, run: Runner) -> Floats:
        """Scores of a block of queries, whose first is number ``low``."""
        scores = np.zeros((len(lists), len(rows.gallery)), np.float32)
        voters, inverse = np.unique(lists, return_inverse=True)
        uses = np.argsort(inverse.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(inverse.ravel(), minlength=len(voters)))
        step = 64 * run.threads
        for begin in range(0, len(voters), step):  # ranks of many rows, votes of one after another
            some = voters[begin : begin + step]
            orders = run_orders(rows.vectors, some, run)
            for at, order in enumerate(orders, start=begin):
                votes = uses[ends[at - 1] if at else 0 : ends[at]]
                shape = (lists.shape[1], low, self.dialect == "cas")
                add_votes(order, rows.first, votes, *shape, scores)
        return scores


def run_orders(vectors: Stored, some: Ints, run: Runner) -> list[Ints]:
    """All rows by their distance from each of ``some``, itself first."""
    every = for_kernels(vectors)

    def ordered(low: int, high: int) -> list[Ints]:
        values = np.empty((high - low, len(vectors)), np.float32)
        dense_values(0, high - low, vectors[some[low:high]], every, False, values)
        values[np.arange(high - low), some[low:high]] = -1
        return [ascending(row).astype(np.int32) for row in values]

    return [order for part in run.map("ranks", ordered, len(some)) for order in part]
