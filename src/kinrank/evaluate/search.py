"""Plain exact search: what every method is compared with, and the first step of the pool protocol.

The gallery is read a block at a time, so it may be larger than memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank import progress
from kinrank.datasets.rows import StackedRows
from kinrank.errors import InvalidInputError
from kinrank.methods.base import Method
from kinrank.parallel import Runner
from kinrank.search.exact import search_pieces
from kinrank.types import Ranking
from kinrank.validation import as_matrix, as_vectors, check_choice, check_int

GALLERY_BLOCK = 32768


@dataclass(frozen=True, kw_only=True)
class Plain(Method):
    """No re-ranking: exact search by Euclidean distance, ties by the lower gallery row.

    Time O(q n d) for q queries, memory O(q n) for whole rankings.

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    """

    reads_in_blocks: ClassVar[bool] = True

    metric: Literal["euclidean", "cosine"] = "euclidean"

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, ("euclidean", "cosine"))

    def ranked(self, queries: Any, gallery: Any, k: int | None, run: Runner) -> Ranking:
        """Rank the gallery for each query by distance alone."""
        rows, kept = gallery_rows(gallery, k)
        cosine = self.metric == "cosine"
        vectors = as_vectors(("queries", queries), cosine=cosine, together=False)
        if vectors.shape[1] != rows.shape[1]:
            raise InvalidInputError(
                f"`gallery` must have as many columns as `queries` ({vectors.shape[1]}), "
                f"got {rows.shape[1]}."
            )
        cuts = (slice(low, low + GALLERY_BLOCK) for low in range(0, len(rows), GALLERY_BLOCK))
        pieces = (as_vectors(("gallery", rows[cut]), cosine=cosine, together=False) for cut in cuts)
        with progress.stage("search", len(rows)):
            found = search_pieces(vectors, pieces, kept, run)
        return Ranking(found.indices, np.sqrt(found.values))


def gallery_rows(gallery: Any, k: int | None) -> tuple[Any, int]:
    """Rows that are read when they are wanted, and how many results a query gets."""
    rows = gallery if isinstance(gallery, StackedRows) else as_matrix("gallery", gallery)
    return rows, len(rows) if k is None else check_int("k", k, 1, len(rows))
