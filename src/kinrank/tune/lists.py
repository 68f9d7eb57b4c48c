"""Lists of neighbours of any rows of a collection, as it is or under a projection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.parallel import Runner
from kinrank.projection.arrays import unit
from kinrank.projection.projection import Projection
from kinrank.search.blas import one_blas_thread
from kinrank.search.exact import exact_neighbors, exact_search, search_pieces
from kinrank.types import Floats, Neighbors

Integers: TypeAlias = npt.NDArray[np.integer[Any]]

WHOLE = 8192  # rows up to which the lists of all are found at once
LONGEST = 100  # neighbours that are looked at
PIECE = 8192  # rows that are projected at a time


@dataclass(frozen=True, eq=False)
class Lists:
    """Who is near whom in a collection.

    vectors : (n, d) float32
    onto : the projection under which rows are compared; None for rows as they are
    """

    vectors: Floats
    run: Runner
    onto: Projection | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def few(self) -> bool:
        """Whether the lists of all rows are found at once."""
        return len(self) <= WHOLE

    def of(self, rows: Integers, k: int) -> Neighbors:
        """The ``k`` nearest of these rows, at most LONGEST + 1, each row itself first."""
        if self.few:
            return Neighbors(self.every.indices[rows, :k], self.every.distances[rows, :k])
        return self.of_vectors(self.projected(self.vectors[rows]), k)

    def of_vectors(self, projected: Floats, k: int, first: int = 0) -> Neighbors:
        """The ``k`` nearest of vectors that were projected before.

        first : the row from which on rows are searched, and counted
        """
        if self.few or self.onto is None:
            return exact_search(projected, self._projected_rows[first:], k, self.run)
        return search_pieces(projected, self._pieces(first), k, self.run)

    @cached_property
    def every(self) -> Neighbors:
        """The lists of all rows."""
        k = min(len(self), LONGEST + 1)
        return exact_neighbors(self._projected_rows, k, self.run)

    def projected(self, rows: Floats) -> Floats:
        """Rows under the projection, in float32: near enough to be looked at."""
        if self.onto is None:
            return rows
        # One thread adds in the same order however many there are.
        with one_blas_thread(wait=True):
            return np.asarray(self.onto.apply(unit(rows)), np.float32)

    def _pieces(self, first: int) -> Iterator[Floats]:
        """The rows from ``first`` on under the projection, some at a time."""
        for low in range(first, len(self), PIECE):
            yield self.projected(self.vectors[low : low + PIECE])

    @cached_property
    def _projected_rows(self) -> Floats:
        return self.projected(self.vectors)


def compare_lists(
    asked: Integers, ranks: tuple[int, ...], lists: Lists
) -> tuple[dict[int, float], dict[int, float]]:
    """What rows have in common with their k-th neighbours, for each rank k that there is.

    asked : the rows

    Returns two dicts by rank: ``together``, the share of its k nearest that a row has in common
    with its k-th neighbour, and ``mutual``, the share of rows that are among its k nearest.
    """
    ranks = tuple(k for k in ranks if k < len(lists))
    length = max(ranks) + 1
    mine = lists.of(asked, length).indices
    partners, position = np.unique(mine[:, list(ranks)], return_inverse=True)
    theirs = lists.of(partners, length).indices
    position = position.reshape(len(asked), len(ranks))
    together = {}
    mutual = {}
    for number, k in enumerate(ranks):
        of_partners = theirs[position[:, number], : k + 1]
        together[k] = share_together(mine[:, : k + 1], of_partners)
        mutual[k] = share_together(asked[:, None], of_partners)
    return together, mutual


def share_together(mine: Integers, theirs: Integers) -> float:
    """The share of the entries of each row of ``mine`` that the same row of ``theirs`` has.

    No row of either has an entry twice.
    """
    both = np.sort(np.concatenate([mine, theirs], axis=1), axis=1)
    return float((both[:, 1:] == both[:, :-1]).sum() / mine.size)
