"""Efficient image retrieval by decoupled diffusion.

Fan Yang, Ryota Hinami, Yusuke Matsui, Steven Ly, Shin'ichi Satoh: Efficient Image Retrieval via
Decoupling Diffusion into Online and Offline Processing, AAAI 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.graph.build import mutual_graph
from kinrank.kernels import truncated as kernels
from kinrank.methods.common import FittedMethod, InductiveMethod, Rows, fitted_to, results, stacked
from kinrank.methods.diffusion.gallery import query_starts, rank_by_scores
from kinrank.neighbors.find import find_neighbors
from kinrank.options import check_fields, option
from kinrank.parallel import Out, Runner
from kinrank.stored import Stored
from kinrank.types import Floats, Ints, Ranking
from kinrank.validation import check_float

MODES = ("online", "joint")


@dataclass(frozen=True, kw_only=True)
class EIR(InductiveMethod):
    """Diffusion from every row in advance, on its ``truncation`` nearest rows.

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
    k1, kq : neighbours in the graph, the row itself counted; neighbours of a query
    truncation : nearest rows that the diffusion from a row may reach, itself counted
    alpha, gamma : how far it spreads; power of the similarity
    steps, tol : of conjugate gradients
    mode : "online" (the paper) or "joint" (the authors' later code, better and transductive)
    """

    ranking_bytes: ClassVar[int] = 64
    k1: int = option(50, "neighbours in the graph, the row itself counted")
    kq: int = option(10, "neighbours of the query that rows are taken from")
    truncation: int = option(1000, "nearest rows that the diffusion from a row may reach")
    alpha: float = option(0.99, "how far the diffusion spreads")
    gamma: float = option(3.0, "power of the similarity")
    steps: int = option(20, "steps of conjugate gradients, at most")
    tol: float = option(1e-6, "residual at which they stop")
    mode: Literal["online", "joint"] = option("online", "queries one by one, or with the gallery")

    def __post_init__(self) -> None:
        check_fields(
            self,
            sizes=("k1", "kq", "truncation", "steps"),
            floats={"tol": (0, 0.1)},
            positive={"gamma": (0, 100)},
            choices={"mode": MODES},
        )
        check_float("alpha", self.alpha, 0, 1, high_open=True)

    def fit(
        self, gallery: Any, *, threads: int | None = None, block_size: int | None = None
    ) -> FittedMethod:
        if self.mode == "joint":
            raise InvalidInputError("`mode` must be 'online' for a fitted gallery, got 'joint'.")
        return super().fit(gallery, threads=threads, block_size=block_size)

    def ranked(self, queries: Any, gallery: Any, k: int | None, run: Runner) -> Ranking:
        if self.mode == "online":
            return super().ranked(queries, gallery, k, run)
        rows = stacked(queries, gallery, True, run)
        k = results(k, len(rows.gallery))
        return fitted_to(self, self._limits(len(rows)), "rows")._rank_joint(rows, k, run)

    def _limits(self, n: int) -> dict[str, int]:
        return {"k1": n, "kq": n}

    def _prepare(self, gallery: Stored, run: Runner) -> tuple[Ints, Floats]:
        """F by rows: the places, (n, truncation), and the values there."""
        reach = min(self.truncation, len(gallery))  # no warning: nothing is lost
        neighbors = find_neighbors(gallery, max(reach, self.k1), run)
        s = mutual_graph(neighbors, self.k1, self.gamma, run)
        lists = np.ascontiguousarray(neighbors.indices[:, :reach])
        args = (lists, s.indptr, s.indices, s.values, self.alpha, self.steps, self.tol)
        out = Out(np.float32, reach)
        return lists, run.fill("diffusion", kernels.diffused_rows, args, len(gallery), out)

    def _search(self, state: Any, gallery: Stored, queries: Stored, k: int, run: Runner) -> Ranking:
        y = query_starts(queries, gallery, self.kq, self.gamma, run)
        lists, values = state
        args = (y.indptr, y.indices, y.values, lists, values)

        def some(low: int, high: int) -> Floats:
            out = np.empty((high - low, len(gallery)), np.float32)
            kernels.gathered_rows(low, high, *args, out)
            return out

        return rank_by_scores(some, queries, gallery, k, run)

    def _rank_joint(self, rows: Rows, k: int, run: Runner) -> Ranking:
        lists, values = self._prepare(rows.vectors, run)
        values = values / np.linalg.norm(values, axis=1, keepdims=True)

        def some(low: int, high: int) -> Floats:
            out = np.empty((high - low, len(rows.gallery)), np.float32)
            kernels.row_cosines(low, high, lists, values, rows.n_queries, out)
            return out

        return rank_by_scores(some, rows.queries, rows.gallery, k, run)
