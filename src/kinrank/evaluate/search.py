"""Plain exact search, and re-ranking of its first results.

The gallery is read a block at a time, so it may be larger than memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank import progress
from kinrank.datasets.base import StackedRows
from kinrank.errors import InvalidInputError
from kinrank.filters import Filter, RankAndDrop
from kinrank.methods.base import Method
from kinrank.projection.kinds import projection_for
from kinrank.runs.execution import Execution
from kinrank.runs.run import Run
from kinrank.search.exact import search_pieces
from kinrank.types import Longs, Ranking
from kinrank.validation import as_matrix, as_vectors, check_int

GALLERY_BLOCK = 32768
PAPER_POOL = 5000


@dataclass(frozen=True, kw_only=True)
class Plain(Method):
    """No re-ranking: exact search by Euclidean distance, ties by the lower gallery row.

    Time O(q n d) for q queries, memory O(q n) for whole rankings.

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.evaluate.Plain()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 7, 58]
    """

    reads_in_blocks: ClassVar[bool] = True

    metric: Literal["euclidean", "cosine"] = "euclidean"

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        allowed: Filter | None = None,
    ) -> Ranking:
        """Rank the gallery for each query by distance alone."""
        if allowed is not None:
            return _filtered(self, queries, gallery, k, execution, allowed)
        rows, kept = _gallery_rows(gallery, k)
        asked = as_matrix("queries", queries)
        if asked.shape[1] != rows.shape[1]:
            raise InvalidInputError(
                f"`gallery` must have as many columns as `queries` ({asked.shape[1]}), "
                f"got {rows.shape[1]}."
            )
        as_asked: dict[str, Any] = {
            "cosine": self.metric == "cosine",
            "together": False,
            "onto": projection_for(self.whiten, [("gallery", rows)], execution.runner.threads),
        }
        vectors = as_vectors(("queries", asked), **as_asked)
        cuts = (slice(low, low + GALLERY_BLOCK) for low in range(0, len(rows), GALLERY_BLOCK))
        pieces = (as_vectors(("gallery", rows[cut]), **as_asked) for cut in cuts)
        with progress.stage("search", len(rows)):
            nearest = search_pieces(vectors, pieces, kept, execution.runner)
        return Ranking(nearest.indices, np.sqrt(nearest.distances))


@dataclass(frozen=True, kw_only=True)
class Pooled(Method):
    """A method over the first ``pool`` of each query; what comes after keeps its first order.

    The paper's protocol for a million distractors: Euclidean search over the whole gallery, then
    the method over the first 5,000 of each query, as if they were all there is.

    Distances are the method's inside the pool. After it they go on from the last one by what the
    first distance grows, so that they ascend; they are not the method's there.

    Parameters
    ----------
    method : the method, of this package or any object with the same ``rerank``
    pool : how many of the first search are re-ranked

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.evaluate.Pooled(method=kinrank.CAS(), pool=100)
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 7, 58]
    """

    reads_in_blocks: ClassVar[bool] = True

    method: Method
    pool: int = PAPER_POOL

    def __post_init__(self) -> None:
        check_int("pool", self.pool, 1)
        if self.whiten is not None:
            raise InvalidInputError(
                f"`whiten` must be set in the method that ranks the pools, got {self.whiten!r}."
            )

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        allowed: Filter | None = None,
    ) -> Ranking:
        """Search the whole gallery, then re-rank the pool of each query on its own."""
        if allowed is not None:
            return _filtered(self, queries, gallery, k, execution, allowed)
        rows, kept = _gallery_rows(gallery, k)
        vectors = as_matrix("queries", queries)
        pool = min(self.pool, len(rows))
        method: Any = self.method
        projection = projection_for(
            getattr(method, "whiten", None), [("gallery", rows)], execution.runner.threads
        )
        if projection is not None:  # by the whole gallery
            method = replace(method, whiten=projection)
        plain = Plain(metric=getattr(method, "metric", "euclidean"), whiten=projection)
        first = plain.ranked(vectors, rows, max(pool, kept), execution)
        indices = first.indices.copy()
        distances = first.distances.copy()
        with progress.stage("pools", len(vectors)) as advance:
            for query, vector in enumerate(vectors):
                # In the order of the gallery, so that ties are settled as in the whole one.
                members = np.sort(first.indices[query, :pool])
                second = method.rerank(
                    vector[None],
                    rows[members],
                    pool,
                    threads=execution.runner.threads,
                    run=Run(block_size=execution.runner.block_size),
                )
                order = second.indices[0]
                indices[query, :pool] = np.where(order >= 0, members[order], -1)
                distances[query, :pool] = second.distances[0]
                advance(1)
        if pool < distances.shape[1]:  # the distances after the pool begin where it ends
            tail = distances[:, pool:]
            tail += distances[:, pool - 1 : pool] - tail[:, :1]
        return Ranking(indices, distances).top(kept)


def _filtered(
    method: Plain | Pooled,
    queries: Any,
    gallery: Any,
    k: int | None,
    execution: Execution,
    allowed: Filter,
) -> Ranking:
    """The first ``k`` that are allowed."""
    asked = as_matrix("queries", queries)
    if allowed.among_themselves and isinstance(method, Pooled):
        raise InvalidInputError("`gallery` must be given for pools of its rows, got None.")
    rows = asked if allowed.among_themselves else gallery
    most = allowed.n_gallery - allowed.among_themselves
    k = most if k is None else check_int("k", k, 1, most)

    def rank(part: Longs | None, depth: int) -> Ranking:
        return method.ranked(asked if part is None else asked[part], rows, depth, execution)

    return allowed.rank(k, RankAndDrop(allowed, rank))


def _gallery_rows(gallery: Any, k: int | None) -> tuple[Any, int]:
    """Rows that are read when they are wanted, and how many results a query gets."""
    rows = gallery if isinstance(gallery, StackedRows) else as_matrix("gallery", gallery)
    return rows, len(rows) if k is None else check_int("k", k, 1, len(rows))
