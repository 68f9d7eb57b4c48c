"""Where d(i, j) comes from: vectors, a matrix, or lists of neighbours.

All give the squared distance over the row's largest, ``farthest``, so that values lie in [0, 1].
``Neighbors`` has for each row its K nearest, itself first, with squared distances, and
``farthest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinrank.kernels import select as kernels
from kinrank.parallel import Out, Runner
from kinrank.search.exact import dense_search
from kinrank.search.stored import Stored, for_kernels, rows_between
from kinrank.stages.layout import Layout
from kinrank.types import Floats, Ints, Longs, Neighbors


class Distances(Protocol):
    """Distances between the n rows that are ranked, queries and gallery."""

    @property
    def neighbors(self) -> Neighbors:
        """The nearest rows of every row."""

    @property
    def query_lists(self) -> Neighbors:
        """The nearest rows of the first rows, the queries: lists long enough to rank by."""

    def on_pattern(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:
        """From rows[i] to the rows ids[indptr[i]:indptr[i + 1]], a sparse pattern.

        Returns a squared distance over that row's largest for each of ``ids``, float32.
        """

    def to_all(self, rows: Ints, first: int, run: Runner) -> Floats:
        """From each of ``rows`` to all rows from ``first`` on, (len(rows), n - first) float32.

        Squared distances over the row's largest.
        """


@dataclass(frozen=True, eq=False)
class VectorDistances:
    """Computed from vectors when asked for; they stay where they are when rows are renumbered.

    neighbors : the nearest rows of every row; query_lists : longer lists of the first rows, the
        queries
    vectors : (n, dimensions) as they are stored; order : (n,) int32, row i has the vector order[i]
    """

    neighbors: Neighbors
    query_lists: Neighbors
    vectors: Stored
    order: Ints

    @classmethod
    def of(cls, neighbors: Neighbors, query_lists: Neighbors, vectors: Stored) -> VectorDistances:
        """Rows that are numbered as their vectors are."""
        order = np.arange(len(neighbors), dtype=np.int32)
        return cls(neighbors, query_lists, vectors, order)

    def on_pattern(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:
        """See ``Distances``."""
        args = (rows, for_kernels(self.vectors), self.order, self.neighbors.farthest, indptr, ids)
        out = Out(np.float32, indptr=indptr)
        values: Floats = run.fill("distances", kernels.distances_at, args, len(rows), out)
        return values

    def squared(self, rows: Ints, first: int) -> Floats:
        """From each of ``rows`` to the vectors first, first + 1, ..., in the order of the vectors.

        Squared distances that are not divided, (len(rows), n - first) float32.
        """
        return dense_search(self.vectors[self.order[rows]], rows_between(self.vectors, first))

    def to_all(self, rows: Ints, first: int, run: Runner) -> Floats:
        """See ``Distances``."""
        out = Out(np.float32, len(self.vectors) - first)
        values: Floats = run.fill("distances", _dense_rows, (self, rows, first), len(rows), out)
        return values


def _dense_rows(
    low: int, high: int, distances: VectorDistances, rows: Ints, first: int, out: Floats
) -> None:
    """``VectorDistances.to_all`` of rows[low:high]: what a ``Runner`` calls for each block.

    All distances are computed in the order in which the vectors lie, then put in that of the rows.
    """
    block = rows[low:high]
    vector_numbers = distances.order[first:]
    begin = int(vector_numbers.min())
    squared = dense_search(
        distances.vectors[distances.order[block]], rows_between(distances.vectors, begin)
    )
    farthest = distances.neighbors.farthest[block, None]
    scale = np.where(farthest > 0, farthest, np.float32(np.inf))
    np.minimum(squared[:, vector_numbers - begin] / scale, np.float32(1), out=out[low:high])


@dataclass(frozen=True, eq=False)
class MatrixDistances:
    """Taken from a full matrix of squared distances, (n, n), that the user brought."""

    neighbors: Neighbors
    matrix: Floats

    @property
    def query_lists(self) -> Neighbors:
        """The lists themselves."""
        return self.neighbors

    def on_pattern(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:  # noqa: ARG002
        """See ``Distances``."""
        owner = np.repeat(rows, np.diff(indptr))
        return over_farthest(self.matrix[owner, ids], self.neighbors.farthest[owner])

    def to_all(self, rows: Ints, first: int, run: Runner) -> Floats:  # noqa: ARG002
        """See ``Distances``."""
        return over_farthest(self.matrix[rows, first:], self.neighbors.farthest[rows, None])


@dataclass(frozen=True, eq=False)
class ListDistances:
    """Known only inside the lists; whatever is not listed counts as farthest."""

    neighbors: Neighbors

    @property
    def query_lists(self) -> Neighbors:
        """The lists themselves."""
        return self.neighbors

    def on_pattern(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:  # noqa: ARG002
        """See ``Distances``."""
        out = np.empty(len(ids), np.float32)
        for at, row in enumerate(rows):
            part = slice(indptr[at], indptr[at + 1])
            out[part] = self._row(row)[ids[part]]
        return out

    def to_all(self, rows: Ints, first: int, run: Runner) -> Floats:  # noqa: ARG002
        """See ``Distances``."""
        return np.stack([self._row(row)[first:] for row in rows])

    def _row(self, row: int) -> Floats:
        """d from a row to all rows."""
        lists = self.neighbors
        values = np.ones(len(lists), np.float32)
        is_filled = lists.indices[row] >= 0
        listed = lists.indices[row, is_filled]
        values[listed] = over_farthest(lists.distances[row, is_filled], lists.farthest[row])
        return values


def lay_out(distances: Distances, k: int, n_queries: int, run: Runner) -> tuple[Distances, Layout]:
    """The distances with each row near its ``k`` nearest, and the layout that says where rows were.

    n_queries : the first rows, which stay first
    A full matrix stays as it is: it is not worth a copy.
    """
    neighbors = distances.neighbors
    if not isinstance(distances, VectorDistances | ListDistances):
        return distances, Layout.identity(len(neighbors))
    layout = Layout.near(neighbors.indices, min(k, neighbors.k), n_queries)
    moved = layout.neighbors(neighbors, run)
    if isinstance(distances, ListDistances):
        return ListDistances(moved), layout
    query_lists = layout.neighbors(distances.query_lists, run)
    order = distances.order[layout.order]
    return VectorDistances(moved, query_lists, distances.vectors, order), layout


def over_farthest(squared: Floats, farthest: Floats) -> Floats:
    """Squared distances over the largest of the row, at most 1; 0 where all rows are equal.

    squared : any shape; farthest : of a shape that fits
    """
    scale = np.where(farthest > 0, farthest, np.float32(np.inf))
    # The smaller one first: a quotient could overflow.
    return (np.minimum(squared, farthest) / scale).astype(np.float32)
