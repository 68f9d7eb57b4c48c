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
from kinrank.methods.answer import put_nearest_rows
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

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        lists = rows.neighbors(self.k1 + 1).indices[: rows.n_queries]
        n_queries = rows.n_queries
        ranking = empty_ranking(n_queries, k)
        size = max(1, _CELLS // len(rows.gallery))
        for low in range(0, n_queries, size):
            high = min(low + size, n_queries)
            scores = self._scores(rows, lists[low:high], low, run)
            for query, score in enumerate(scores, start=low):
                put_nearest_rows(ranking, query, -score, rows.row_filter)
        return ranking

    def _scores(self, rows: JointRows, lists: Ints, low: int, run: Runner) -> Floats:
        """Scores of a block of queries, whose first is number ``low``."""
        scores = np.zeros((len(lists), len(rows.gallery)), np.float32)
        voters, inverse = np.unique(lists, return_inverse=True)
        uses = np.argsort(inverse.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(inverse.ravel(), minlength=len(voters)))
        step = 64 * run.threads
        for begin in range(0, len(voters), step):  # ranks of many rows, votes of one after another
            orders = rank_orders(rows.vectors, voters[begin : begin + step], run)
            for voter, order in enumerate(orders, start=begin):
                votes = uses[ends[voter - 1] if voter else 0 : ends[voter]]
                with_backward_rank = self.dialect == "cas"
                add_votes(order, rows.first, votes, lists.shape[1], low, with_backward_rank, scores)
        return scores


def rank_orders(vectors: Stored, rows: Ints, run: Runner) -> list[Ints]:
    """All vectors by their distance from each of some rows, itself first."""
    blocks = run.map("ranks", _block_of_orders, len(rows), vectors, rows)
    return [order for block in blocks for order in block]


def _block_of_orders(low: int, high: int, vectors: Stored, rows: Ints) -> list[Ints]:
    members = rows[low:high]
    distances = np.empty((len(members), len(vectors)), np.float32)
    dense_values(0, len(members), vectors[members], for_kernels(vectors), False, distances)
    distances[np.arange(len(members)), members] = -1
    return [ascending(to_all).astype(np.int32) for to_all in distances]
