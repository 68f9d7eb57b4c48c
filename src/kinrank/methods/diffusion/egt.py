"""Explore-exploit graph traversal.

Cheng Chang, Guangwei Yu, Chundi Liu, Maksims Volkovs: Explore-Exploit Graph Traversal for Image
Retrieval, CVPR 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank.kernels.traverse import traversals
from kinrank.methods.answer import ScoredRows
from kinrank.methods.common import InductiveMethod
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.exact import dense_search
from kinrank.search.find import search_others
from kinrank.search.stored import Stored
from kinrank.stages.graph import weighted_lists
from kinrank.stages.sparse import half_sum, transposed
from kinrank.types import Floats, Ints, Ranking, SparseRows


@dataclass(frozen=True, kw_only=True)
class EGT(InductiveMethod):
    """Explore-exploit graph traversal: from the query, heaviest edge first.

    The frontier is a heap of edges. Rows behind edges above t are taken at once (explore), then
    their edges join the frontier; if none is above t, the heaviest is taken (exploit).

    Distances are positions, 0, 1, 2, ...: they order the rows of one query and cannot be compared
    between queries. Rows that are not reached follow in the order of their distance. Vectors are
    normalised first. Time O(n^2 d) to fit, O(n d + p k1 log n) per query, memory O(n k1). A new
    query needs only the fitted gallery; other queries are never part of the graph.

    Parameters
    ----------
    metric : "cosine", the only one of this method
    k1 : neighbours in the graph, the row itself not counted
    t : similarity above which edges are followed at once
    p : rows taken by traversal
    dialect : "symmetric", or "layer6", which reproduces the authors' program: a row keeps only the
        last of its reverse edges, and weights are rounded to three decimals

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> index = kinrank.EGT().fit(data.gallery.features)
    >>> index.search(data.query.features, k=3).indices[0].tolist()
    [324, 317, 191]
    """

    ranking_bytes: ClassVar[int] = 64
    k1: int = option(50, "neighbours in the graph, the row itself not counted", spare=1)
    t: float = option(0.42, "similarity above which edges are followed at once", within=(-1, 2))
    p: int = option(1000, "rows taken by traversal")
    dialect: Literal["symmetric", "layer6"] = option("symmetric", "how edges are made two-way")

    def prepare_gallery(self, gallery: Stored, execution: Execution) -> SparseRows:
        """The graph of gallery rows."""
        run = execution.runner
        lists = execution.searcher(gallery).neighbors(min(self.k1, len(gallery) - 1) + 1)
        weights = self._weights(lists.distances[:, 1:])
        directed = weighted_lists(lists.indices, 1, weights, run)
        if self.dialect == "layer6":
            return _last_reverse(directed)
        return _both_ways(directed, run)

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        run = execution.runner
        n_gallery = len(gallery)
        near = search_others(execution.searcher(gallery), queries, self.k1, n_gallery, own_rows)
        scored = ScoredRows.empty(len(queries), k)
        scored.values[:] = np.arange(k)
        run.map(
            "traversal",
            traversals,
            len(queries),
            near.indices,
            self._weights(near.distances),
            state.csr,
            np.float32(self.t),
            min(k, self.p),
            scored.indices,
            scored.counts,
        )
        return scored.then_nearest(
            lambda numbers: dense_search(queries[numbers], gallery), n_gallery, run
        )

    def _weights(self, squared: Floats) -> Floats:
        s = 1 - squared / 2
        return (np.round(s, 3) if self.dialect == "layer6" else s).astype(np.float32)


def _both_ways(directed: SparseRows, run: Runner) -> SparseRows:
    """Every edge in both directions."""
    # 1 for mutual edges, 1/2 for others.
    count = half_sum(directed.with_data(None), run).values
    halved = half_sum(directed, run)
    return halved.with_data(halved.values / count)


def _last_reverse(directed: SparseRows) -> SparseRows:
    """The edges, and for each row the last that leads to it turned round."""
    n = len(directed)
    reverse = transposed(directed)
    reached = np.flatnonzero(reverse.lengths > 0)
    last = reverse.indptr[reached + 1] - 1
    rows = np.concatenate([directed.owners, reached])
    ids = np.concatenate([directed.indices, reverse.indices[last]])
    values = np.concatenate([directed.values, reverse.values[last]])
    edges, entry = np.unique(rows * n + ids, return_inverse=True)
    mean = np.bincount(entry, values) / np.bincount(entry)  # of edges that are in both
    return SparseRows.of_entries(edges // n, edges % n, mean.astype(np.float32), n)
