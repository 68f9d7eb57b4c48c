"""Rows put into an order in which neighbours are near each other.

The old number of a row is its place as the rows were given, the new one its place in this order.

The stages after the search visit, for every row, the rows of its neighbours. Where these lie all
over the memory, each visit waits for it, the longer the more rows there are; side by side they are
in the caches, left there by the row before. Ties still go to the lower of the old numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.kernels.layout import near_order
from kinrank.kernels.lists import gather_lists
from kinrank.parallel import ALONE, Out, Runner
from kinrank.types import Ints, Neighbors, SparseRows

_NEAR = 6  # neighbours that count; the farther ones of a list change little
_TIMES = 5  # pairs of pairs: groups of up to 32 rows


@dataclass(frozen=True, eq=False)
class Layout:
    """New numbers for the rows; the queries stay first.

    order : (n,) int32, the old number of each row: row i was row order[i]
    position : (n,) int32, the inverse, the new number of each row by its old one
    """

    order: Ints
    position: Ints

    @classmethod
    def identity(cls, n: int) -> Layout:
        """Every row where it was."""
        rows = np.arange(n, dtype=np.int32)
        return cls(rows, rows)

    @classmethod
    def of(cls, order: Ints) -> Layout:
        """The layout of rows in an order of their old numbers; order : as above."""
        position = np.empty_like(order)
        position[order] = np.arange(len(order), dtype=np.int32)
        return cls(order, position)

    @classmethod
    def near(cls, lists: Ints, k: int, n_queries: int) -> Layout:
        """Rows near the first few of their ``k`` neighbours.

        lists : (n, K) int32, the nearest rows of each, K at least k; n_queries : the first rows,
            which stay first
        """
        order = near_order(lists, min(k, _NEAR), _TIMES)
        is_gallery = order >= n_queries
        return cls.of(np.concatenate([order[~is_gallery], order[is_gallery]]))

    def neighbors(self, lists: Neighbors, run: Runner = ALONE) -> Neighbors:
        """Lists, old numbers inside, under new numbers; of all rows, or of the queries alone."""
        indices, distances, farthest = run.fill(
            "layout",
            gather_lists,
            (self.order, self.position, lists.indices, lists.distances, lists.farthest),
            len(lists),
            Out(np.int32, lists.k),
            Out(np.float32, lists.k),
            Out(np.float32),
        )
        return Neighbors(indices, distances, farthest)

    def matrix(self, a: SparseRows) -> SparseRows:
        """A square matrix under new numbers of its rows and columns."""
        rows = self.position[a.owners]
        columns = self.position[a.indices]
        return SparseRows.of_entries(rows, columns, a.values, len(a))
