"""Re-ranking with global features only (SuperGlobal).

Shihao Shao, Kaifeng Chen, Arjun Karpur, Qinghua Cui, André Araujo, Bingyi Cao: Global Features are
All You Need for Image Retrieval and Reranking, ICCV 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinrank.kernels.expand import refined_list
from kinrank.methods.answer import reorder_first
from kinrank.methods.common import InductiveMethod
from kinrank.options import option
from kinrank.ordering import ascending
from kinrank.parallel import Runner
from kinrank.search.exact import SearchResult, exact_search
from kinrank.search.stored import Stored
from kinrank.types import Floats, Ints, Ranking


@dataclass(frozen=True, kw_only=True)
class SG(InductiveMethod):
    """Refine the first m of a query among themselves, and the query by the best of them.

    x'_i = the mean of x_i and its k1 most similar in the list, these weighted by beta s
    r_i = q x'_i; q' = the largest of each component over the k1 + 1 of highest r
    score = (r_i + q' x'_i) / 2

    Distances are minus the score; rows behind the first m keep their order and lie as far behind
    the list's last as their similarity lies below that of the list's last. Vectors are normalised
    first. Time O(n_queries n d) for the search and O(m^2 d) per query, memory O(n d + m^2). A new
    query needs only the gallery.

    Parameters
    ----------
    m : length of the list that is re-ranked
    k1 : most similar members that a member is refined by
    beta : their weight
    """

    m: int = option(400, "length of the list that is re-ranked")
    k1: int = option(9, "most similar members that a member is refined by")
    beta: float = option(0.15, "their weight", within=(0, 100))

    def _limits(self, n: int) -> dict[str, int]:
        return {"m": n, "k1": min(n, self.m) - 1}

    def _prepare(self, gallery: Stored, run: Runner) -> None:
        """Nothing is known before the query is."""

    def _search(
        self, state: Any, gallery: Stored, queries: Stored, k: int, run: Runner,
        own: Ints | None = None,
    ) -> Ranking:  # fmt: skip
        del state  # nothing was prepared
        first = exact_search(queries, gallery, max(k, self.m), run, own=own)

        def block(low: int, high: int) -> None:
            for row in range(low, high):
                self._rerank_list(queries[row], gallery, first, row)

        run.map("refinement", block, len(queries))
        return Ranking(first.indices[:, :k], first.values[:, :k])

    def _rerank_list(self, query: Floats, gallery: Stored, first: SearchResult, row: int) -> None:
        """Replace the list of one query by its better order."""
        own = gallery[first.indices[row, : self.m]]
        refined = refined_list(own @ own.T, own, min(self.k1 + 1, self.m), self.beta)
        direct = refined @ query
        best = ascending(-direct)[: self.k1 + 1]
        reorder_first(first, row, (direct + refined @ refined[best].max(axis=0)) / 2)
