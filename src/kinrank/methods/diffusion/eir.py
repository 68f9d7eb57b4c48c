"""Efficient image retrieval by decoupled diffusion.

Fan Yang, Ryota Hinami, Yusuke Matsui, Steven Ly, Shin'ichi Satoh: Efficient Image Retrieval via
Decoupling Diffusion into Online and Offline Processing, AAAI 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.filters import Filter
from kinrank.kernels import truncated as kernels
from kinrank.kernels.lanes import LANES
from kinrank.methods.answer import rank_scores
from kinrank.methods.common import FittedMethod, InductiveMethod, JointRows, begin_ranking
from kinrank.methods.diffusion.solve import query_starts
from kinrank.options import option
from kinrank.parallel import Out
from kinrank.runs.execution import Execution
from kinrank.runs.run import Run
from kinrank.search.stored import Stored
from kinrank.stages.graph import mutual_graph
from kinrank.types import Floats, Ints, Ranking


@dataclass(frozen=True, kw_only=True)
class EIR(InductiveMethod):
    """Offline diffusion: from every row in advance, on its ``truncation`` nearest rows.

    S is the normalised mutual graph of all rows, as in ``dfs``; row i of F solves
    (I - alpha S) f = e_i on the nearest rows of i
    online: score = the sum over the kq nearest j of q of max(s(q, j), 0)^gamma F_j
    joint: F of queries and gallery together, score = the cosine of F_q and F_g

    Distances are minus the score, <= 0; rows that are not reached have 0 and follow in the order of
    their distance. Vectors are normalised first. Time O(n^2 d + n steps truncation k1) to fit and
    O(n d + kq truncation) per query (joint: O(n truncation) per query), memory O(n truncation). A
    new query needs only the fitted gallery (online).

    Parameters
    ----------
    metric : "cosine", the only one of this method
    k1, kq : neighbours in the graph, the row itself counted; neighbours of a query
    truncation : nearest rows that the diffusion from a row may reach, itself counted
    alpha, gamma : how far it spreads; power of the similarity
    steps, tol : of conjugate gradients
    mode : "online" (the paper) or "joint" (the authors' later code, better and transductive)

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.EIR(truncation=100)
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [324, 269, 47]
    """

    ranking_bytes: ClassVar[int] = 64
    k1: int = option(50, "neighbours in the graph, the row itself counted", spare=0)
    kq: int = option(10, "neighbours of the query that rows are taken from", spare=0)
    truncation: int = option(1000, "nearest rows that the diffusion from a row may reach")
    alpha: float = option(0.99, "how far the diffusion spreads", below=(0, 1))
    gamma: float = option(3.0, "power of the similarity", above=(0, 100))
    steps: int = option(20, "steps of conjugate gradients, at most")
    tol: float = option(1e-6, "residual at which they stop", within=(0, 0.1))
    mode: Literal["online", "joint"] = option("online", "queries one by one, or with the gallery")

    def fit(
        self, gallery: Any, *, threads: int | None = None, run: Run | None = None
    ) -> FittedMethod:
        if self.mode == "joint":
            raise InvalidInputError("`mode` must be 'online' for a fitted gallery, got 'joint'.")
        return super().fit(gallery, threads=threads, run=run)

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Ranking:
        if self.mode == "online":
            return super().ranked(queries, gallery, k, execution, row_filter)
        rows, k = begin_ranking(self, queries, gallery, k, execution, row_filter)
        return self.resolved(len(rows))._rank_joint(rows, k, execution)

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> tuple[Ints, Floats]:
        """F by rows: the places, (n, truncation), and the values there."""
        reach = min(self.truncation, len(gallery))  # no warning: nothing is lost
        run = execution.runner
        neighbors = execution.searcher(gallery).neighbors(max(reach, self.k1))
        s = mutual_graph(neighbors, self.k1, self.gamma, run)
        lists = np.ascontiguousarray(neighbors.indices[:, :reach])
        args = (lists, s.indptr, s.indices, s.values, self.alpha, self.steps, self.tol)
        out = Out(np.float32, reach)
        return lists, run.fill("diffusion", kernels.diffused_rows, args, len(gallery), out)

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
        lists, values = state
        args = (y.indptr, y.indices, y.values, lists, values)

        def block(low: int, high: int) -> Floats:
            out = np.empty((high - low, len(gallery)), np.float32)
            kernels.gathered_rows(low, high, *args, out)
            return out

        return rank_scores(block, queries, gallery, k, execution.runner, LANES)

    def _rank_joint(self, rows: JointRows, k: int, execution: Execution) -> Ranking:
        lists, values = self.prepare_gallery(rows.vectors, execution)
        values = values / np.linalg.norm(values, axis=1, keepdims=True)

        def block(low: int, high: int) -> Floats:
            out = np.empty((high - low, len(rows.gallery)), np.float32)
            kernels.row_cosines(low, high, lists, values, rows.first, out)
            return out

        return rank_scores(
            block, rows.queries, rows.gallery, k, execution.runner, LANES, rows.row_filter
        )
