"""Plain exact search: what every method is compared with, and the first step of the pool protocol.

The gallery is read a block at a time, so it may be larger than memory. Distances are those of the
products, which whole rankings take a tenth of the time of exact ones with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.datasets.rows import StackedRows
from kinrank.errors import InvalidInputError
from kinrank.methods.base import Method
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, Ranking
from kinrank.validation import as_matrix, as_vectors, check_choice, check_int

GALLERY_BLOCK = 32768
QUERY_BLOCK = 64


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
        best = _Best(vectors, kept, run.cut(run.block_size or QUERY_BLOCK))
        with progress.stage("search", len(rows)) as advance:
            for low in range(0, len(rows), GALLERY_BLOCK):
                part = ("gallery", rows[low : low + GALLERY_BLOCK])
                block = as_vectors(part, cosine=cosine, together=False)
                best.take(block, low)
                advance(len(block))
            indices, distances = best.settle()
        return Ranking(indices, np.sqrt(distances))


def gallery_rows(gallery: Any, k: int | None) -> tuple[Any, int]:
    """Rows that are read when they are wanted, and how many results a query gets."""
    rows = gallery if isinstance(gallery, StackedRows) else as_matrix("gallery", gallery)
    return rows, len(rows) if k is None else check_int("k", k, 1, len(rows))


class _Best:
    """The nearest so far of each query; sorted only when there are many more than asked for."""

    def __init__(self, queries: Floats, k: int, run: Runner) -> None:
        self.queries, self.k, self.run = queries, k, run
        self.norms = np.einsum("ij,ij->i", queries, queries)[:, None]
        self._distances: list[Floats] = []
        self._indices: list[Ints] = []
        self._held = 0

    def take(self, block: Floats, first: int) -> None:
        """Take in gallery rows ``first`` and after."""
        norms = np.einsum("ij,ij->i", block, block)
        near = np.empty((len(self.queries), len(block)), np.float32)

        def part(low: int, high: int) -> None:
            rows = near[low:high]
            np.matmul(self.queries[low:high], block.T, out=rows)
            rows *= -2
            rows += norms
            rows += self.norms[low:high]
            np.maximum(rows, 0, out=rows)

        self.run.map("search", part, len(self.queries))
        ids = np.arange(first, first + len(block), dtype=np.int32)
        self._distances.append(near)
        self._indices.append(np.broadcast_to(ids, near.shape))
        self._held += len(block)
        if self._held > 2 * max(self.k, GALLERY_BLOCK):
            self.settle()

    def settle(self) -> tuple[Ints, Floats]:
        """Keep the ``k`` nearest of what is held, ascending."""

        def part(low: int, high: int) -> tuple[Ints, Floats]:
            # Blocks are in the order of the gallery, so a stable order settles ties by row.
            distances = np.concatenate([block[low:high] for block in self._distances], axis=1)
            indices = np.concatenate([block[low:high] for block in self._indices], axis=1)
            order = _stable_order(distances)[:, : self.k]
            taken = np.take_along_axis(indices, order, axis=1)
            return taken, np.take_along_axis(distances, order, axis=1)

        parts = self.run.map("search", part, len(self.queries))
        indices = np.concatenate([taken for taken, _ in parts])
        distances = np.concatenate([values for _, values in parts])
        self._indices, self._distances, self._held = [indices], [distances], indices.shape[1]
        return indices, distances


def _stable_order(values: Floats) -> npt.NDArray[np.int64]:
    """``argsort(values, axis=1, kind="stable")``, four times as fast: few values are tied."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    same = ordered[:, 1:] == ordered[:, :-1]
    tied = np.zeros(values.shape, bool)
    tied[:, 1:] |= same
    tied[:, :-1] |= same
    rows, columns = np.nonzero(tied)
    # A run of ties begins where the value is not that of the entry before it.
    begins = np.ones(values.shape, bool)
    begins[:, 1:] = ~same
    runs = np.cumsum(begins[rows, columns])
    places = order[rows, columns]
    order[rows, columns] = places[np.lexsort((places, runs))]
    return order
