"""Rows put into an order in which neighbours are near each other.

The old number of a row is its place as the rows were given, the new one its place in this order.

The stages after the search visit, for every row, the rows of its neighbours. Where these lie all
over the memory, each visit waits for it, the longer the more rows there are; side by side they are
in the caches, left there by the row before. Ties still go to the lower of the old numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.kernels.layout import (
    count_drawn,
    find_pairs,
    follow_groups,
    join_pairs,
    put_drawn,
)
from kinrank.kernels.lists import gather_lists
from kinrank.parallel import ALONE, Out, Runner
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows

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
        order = near_order(lists, min(k, _NEAR))
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


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Rows in groups, and how strongly these draw each other.

    ptr, ids, pull : a symmetric sparse matrix: group g draws ids[ptr[g]:ptr[g + 1]], and is drawn
        by them, with ``pull``; nothing draws itself
    starts, rows : group g has rows[starts[g]:starts[g + 1]]
    """

    ptr: Longs
    ids: Ints
    pull: Floats
    starts: Longs
    rows: Ints

    @classmethod
    def single(cls, lists: Ints, k: int) -> RowGroups:
        """A group of every row: it and the first ``k`` of its list draw each other."""
        n = len(lists)
        ptr = np.zeros(n + 1, np.int64)
        count_drawn(lists, k, ptr)
        ids = np.empty(ptr[n], np.int32)
        pull = np.empty(ptr[n], np.float32)
        put_drawn(lists, k, ptr.copy(), ids, pull)
        return cls(ptr, ids, pull, np.arange(n + 1), np.arange(n, dtype=np.int32))

    def pairs(self) -> Ints:
        """For each group the other of its pair, or itself."""
        count = len(self.ptr) - 1
        mates = np.arange(count, dtype=np.int32)
        find_pairs(self.ptr, self.ids, self.pull, np.ones(count, np.bool_), mates)
        return mates

    def joined(self, mates: Ints) -> RowGroups:
        """Every pair as one group; mates : of ``pairs``."""
        is_first = mates >= np.arange(len(mates))
        joined_group = (np.cumsum(is_first) - 1).astype(np.int32)
        joined_group[~is_first] = joined_group[mates[~is_first]]
        count = int(is_first.sum())
        ptr = np.empty(count + 1, np.int64)
        starts = np.empty(count + 1, np.int64)
        ids = np.empty_like(self.ids)
        pull = np.empty_like(self.pull)
        rows = np.empty_like(self.rows)
        size = join_pairs(
            self.ptr,
            self.ids,
            self.pull,
            self.starts,
            self.rows,
            mates,
            joined_group,
            np.full(count, -1),
            ptr,
            ids,
            pull,
            starts,
            rows,
        )
        return RowGroups(ptr, ids[:size].copy(), pull[:size].copy(), starts, rows)

    def order(self) -> Ints:
        """All rows, each group behind one that draws it."""
        count = len(self.ptr) - 1
        is_free = np.ones(count, np.bool_)
        path = np.empty(count, np.int32)
        order = np.empty_like(self.rows)
        follow_groups(self.ptr, self.ids, self.pull, self.starts, self.rows, is_free, path, order)
        return order


def near_order(lists: Ints, k: int) -> Ints:
    """All rows in an order in which the first ``k`` of each list are near it; (n,) int32.

    Rows are joined in pairs, these in pairs again; then groups follow each other.
    """
    groups = RowGroups.single(lists, k)
    groups = groups.joined(np.arange(len(lists), dtype=np.int32))  # sums what is there twice
    for _ in range(_TIMES):
        groups = groups.joined(groups.pairs())
    return groups.order()
