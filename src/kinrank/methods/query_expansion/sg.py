"""Re-ranking with global features only (SuperGlobal).

Shihao Shao, Kaifeng Chen, Arjun Karpur, Qinghua Cui, André Araujo, Bingyi Cao: Global Features are
All You Need for Image Retrieval and Reranking, ICCV 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.kernels.expand import refined_scores
from kinrank.methods.answer import reorder_first
from kinrank.methods.common import InductiveMethod
from kinrank.options import option
from kinrank.parallel import ALONE
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.search.stored import Stored, for_kernels
from kinrank.search.tiles import SPARE, search_pairs, squared_norms
from kinrank.types import Floats, Ints, Neighbors, Ranking


@dataclass(frozen=True, kw_only=True)
class SG(InductiveMethod):
    """SuperGlobal: refine the first m of a query among themselves, and it by the best of them.

    x'_i = the mean of x_i and its k1 most similar in the list, these weighted by beta s
    r_i = q x'_i; q' = the largest of each component over the k1 + 1 of highest r
    score = (r_i + q' x'_i) / 2

    Distances are minus the score; rows behind the first m keep their order and lie as far behind
    the list's last as their similarity lies below that of the list's last. Vectors are normalised
    first. Time O(n_queries n d) for the search and O(m^2 d) per query, or O(n^2 d) once where that
    is less, memory O(n (d + m)). A new query needs only the gallery.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    m : length of the list that is re-ranked
    k1 : most similar members that a member is refined by
    beta : their weight

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.SG(m=100).fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [317, 266, 324]
    """

    m: int = option(400, "length of the list that is re-ranked")
    k1: int = option(9, "most similar members that a member is refined by")
    beta: float = option(0.15, "their weight", within=(0, 100))

    def _limits(self, n: int) -> dict[str, int]:
        return {"m": n, "k1": min(n, self.m) - 1}

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> None:
        """Nothing can be computed before there is a query."""

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        del state  # nothing was prepared
        run = execution.runner
        n = len(gallery)
        m = self.m
        first = exact_search(queries, gallery, max(k, m), run, own_rows=own_rows)
        norms = squared_norms(gallery)
        lists = None
        if len(queries) * m**2 > n**2:  # many lists share their pairs
            neighbors = exact_neighbors(gallery, min(max(m // 2, self.k1 + SPARE), n), run)
            lists = (neighbors.indices, neighbors.distances)

        def block(low: int, high: int) -> None:
            scores = np.empty((high - low, m), np.float32)
            listed = first[low:high]
            self._score(queries[low:high], gallery, norms, listed, lists, scores)
            for row in range(low, high):
                reorder_first(first, row, scores[row - low])

        run.map("refinement", block, len(queries))
        return Ranking(first.indices[:, :k], first.distances[:, :k])

    def _score(
        self,
        queries: Floats,
        gallery: Stored,
        norms: Floats,
        first: Neighbors,
        lists: tuple[Ints, Floats] | None,
        out: Floats,
    ) -> None:
        """Scores of the first rows of queries.

        lists : neighbours of every gallery row; None searches those of each list's rows in it
        """
        k = min(self.k1, self.m - 1)
        if lists is not None:
            refined_scores(
                0,
                len(out),
                queries,
                for_kernels(gallery),
                norms,
                norms.max(),
                first.indices,
                first.distances,
                *lists,
                k,
                self.beta,
                out,
            )
            return
        members_list = np.arange(self.m, dtype=np.int32)[None]
        for query, ids in enumerate(first.indices[:, : self.m]):
            line = slice(query, query + 1)
            member_norms = norms[ids]
            members = gallery[ids]
            refined_scores(
                0,
                1,
                queries[line],
                members,
                member_norms,
                member_norms.max(),
                members_list,
                first.distances[line],
                *_nearest(members, member_norms, min(k + SPARE, self.m)),
                k,
                self.beta,
                out[line],
            )


def _nearest(rows: Floats, norms: Floats, k: int) -> tuple[Ints, Floats]:
    """The nearest of a few rows among themselves, itself first."""
    n = len(rows)
    ids = np.empty((n, k), np.int32)
    values = np.empty((n, k), np.float32)
    search_pairs(0, n, rows, 0, norms, ALONE, ids, values, np.empty(n, np.float32))
    return ids, values
