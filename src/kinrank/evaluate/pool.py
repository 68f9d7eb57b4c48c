"""The large-scale protocol: search everything, then re-rank the first few thousand of each query.

As the paper does for the sets with a million distractors: Euclidean search over the whole gallery,
then the method over the first 5,000 of each query, as if they were all there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinrank import progress
from kinrank.evaluate.search import Plain, gallery_rows
from kinrank.methods.base import Method
from kinrank.parallel import Runner
from kinrank.types import Ranking
from kinrank.validation import as_matrix, check_int

PAPER_POOL = 5000


@dataclass(frozen=True, kw_only=True)
class Pooled(Method):
    """A method over the first ``pool`` of each query; what comes after keeps its first order.

    Distances are the method's inside the pool. After it they go on from the last one by what the
    first distance grows, so that they ascend; they are not the method's there.

    Parameters
    ----------
    method : the method, of this package or any object with the same ``rerank``
    pool : how many of the first search are re-ranked
    """

    reads_in_blocks: ClassVar[bool] = True

    method: Method
    pool: int = PAPER_POOL

    def __post_init__(self) -> None:
        check_int("pool", self.pool, 1)

    def ranked(self, queries: Any, gallery: Any, k: int | None, run: Runner) -> Ranking:
        """Search the whole gallery, then re-rank the pool of each query on its own."""
        rows, kept = gallery_rows(gallery, k)
        vectors = as_matrix("queries", queries)
        pool = min(self.pool, len(rows))
        plain = Plain(metric=getattr(self.method, "metric", "euclidean"))
        first = plain.ranked(vectors, rows, max(pool, kept), run)
        indices, distances = first.indices.copy(), first.distances.copy()
        with progress.stage("pools", len(vectors)) as advance:
            for query, vector in enumerate(vectors):
                # In the order of the gallery, so that ties are settled as in the whole one.
                members = np.sort(first.indices[query, :pool])
                second = self.method.rerank(
                    vector[None],
                    rows[members],
                    pool,
                    threads=run.threads,
                    block_size=run.block_size,
                )
                found = second.indices[0]
                indices[query, :pool] = np.where(found >= 0, members[found], -1)
                distances[query, :pool] = second.distances[0]
                advance(1)
        _continue(distances, pool)
        return Ranking(indices, distances).top(kept)


def _continue(distances: Any, pool: int) -> None:
    """Move the distances after the pool up, so that they begin where those of the pool end."""
    if pool < distances.shape[1]:
        tail = distances[:, pool:]
        tail += distances[:, pool - 1 : pool] - tail[:, :1]
