"""Expanded cross neighbourhood distance.

M. Saquib Sarfraz, Arne Schumann, Andreas Eberle, Rainer Stiefelhagen: A Pose-Sensitive Embedding
for Person Re-Identification with Expanded Cross Neighborhood Re-Ranking, CVPR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kinrank.methods.answer import rank_candidates
from kinrank.methods.common import JointMethod, JointRows
from kinrank.options import option
from kinrank.parallel import Out, Runner
from kinrank.search.exact import dense_search
from kinrank.stages.clusters import regular
from kinrank.stages.graph import weighted_lists
from kinrank.stages.sparse import columns_as_rows, product_sum
from kinrank.types import Floats, Ints, Ranking, SparseRows


@dataclass(frozen=True, kw_only=True)
class ECN(JointMethod):
    """Expanded cross neighbourhood: how similar the rank lists around query and gallery row are.

    r(i, j) = sum over x of max(0, k1 - pos_i(x)) max(0, k1 - pos_j(x))
    E(i) = the t nearest of i and the q nearest of each of them
    d* = - mean of r(e, g), e in E(q), and of r(e, q), e in E(g)

    Distances are <= 0; rows without any common neighbour have 0 and follow in the order of their
    distance. Time O(n^2 d) for the exact search and O(n k1 t q) for
    the rest, memory O(n k1 t q).

    Parameters
    ----------
    metric : "cosine", which divides every vector by its norm first (the authors), or "euclidean"
    k1 : length of the rank lists that are compared, the row itself counted
    t, q : nearest rows, and nearest of each of these

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.ECN()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [269, 266, 324]
    """

    metric: Literal["euclidean", "cosine"] = option("cosine", "cosine normalises the vectors")
    k1: int = option(25, "length of the rank lists, the row itself counted", spare=0)
    t: int = option(3, "nearest rows that join the neighbourhood", spare=1)
    q: int = option(8, "nearest of each of these that join too", spare=1)

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        n = len(rows)
        distances = rows.distances(max(self.k1, self.t + 1, self.q + 1), k)
        lists = distances.neighbors.indices
        # Row i has k1 - position at each of its first k1.
        weights = run.fill("context", _positions, (), n, Out(np.float32, self.k1))
        positions = weighted_lists(lists, 0, weights, run)
        args = (lists, self.t, self.q)
        out = Out(np.int32, self.t * (1 + self.q))
        expanded = run.fill("context", _expanded_rows, args, n, out)
        scores = cross_scores(expanded, positions, positions, rows, run)
        means = np.float32(-1 / (2 * expanded.shape[1])) * scores.values
        return rank_candidates(
            scores.with_data(means),
            distances.query_lists,
            lambda numbers: dense_search(rows.queries[numbers], rows.gallery),
            k,
            0.0,
            run,
            rows.row_filter,
        )


def _positions(low: int, high: int, out: Floats) -> None:
    out[low:high] = np.arange(out.shape[1], 0, -1)


def _expanded_rows(low: int, high: int, lists: Ints, t: int, q: int, out: Ints) -> None:
    """The t nearest of each row, and the q nearest of each of these."""
    nearest = lists[low:high, 1 : t + 1]
    out[low:high, :t] = nearest
    out[low:high, t:] = lists[nearest, 1 : q + 1].reshape(high - low, -1)


def cross_scores(
    lists: Ints, k: SparseRows, v: SparseRows, rows: JointRows, run: Runner
) -> SparseRows:
    """Scores from both sides, U V^T + V U^T of queries and gallery rows, where not zero.

    U_i = the sum of the rows K_e, e in lists[i]; one that is listed twice counts twice
    """
    members = regular(np.ascontiguousarray(lists), None, len(k))
    u = product_sum("context", [(members, k)], len(lists), run)
    pairs = [
        (u, _columns_of_gallery(v, u, rows, run)),
        (v, _columns_of_gallery(u, v, rows, run)),
    ]
    return product_sum("context", pairs, rows.n_queries, run)


def _columns_of_gallery(
    a: SparseRows, multiplied: SparseRows, rows: JointRows, run: Runner
) -> SparseRows:
    """A^T for gallery rows: the columns that the rows of the queries in another matrix use."""
    is_used = np.zeros(a.n_columns, np.bool_)
    is_used[multiplied.indices[: multiplied.indptr[rows.n_queries]]] = True
    return columns_as_rows(a, rows.first, is_used, run)
