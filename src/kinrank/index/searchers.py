"""Where the nearest rows of a query come from: all vectors, or cells of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from kinrank.kernels.scan import search_cells
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.types import Floats, Ints, Longs

_PROBES = 32  # cells that a query looks into


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest rows of each query, ascending by (distance, row).

    indices : (n_queries, k) int32; distances : squared; counts : (n_queries,) how many are known
    """

    indices: Ints
    distances: Floats
    counts: Longs

    def some(self, queries: slice) -> Nearest:
        """Those of some queries."""
        return Nearest(self.indices[queries], self.distances[queries], self.counts[queries])


class RowSearch(Protocol):
    """Finds rows of the index; ``exact`` tells whether all of them are seen."""

    @property
    def exact(self) -> bool:
        """Whether the answer is certain."""

    def search(self, queries: Floats, k: int, run: Runner) -> Nearest:
        """The ``k`` nearest rows of each query."""


@dataclass(frozen=True, eq=False)
class ExactSearch:
    """Every row is looked at. One query and many give the same bits."""

    vectors: Floats
    exact: bool = True

    def search(self, queries: Floats, k: int, run: Runner) -> Nearest:
        """See RowSearch."""
        found = exact_search(queries, self.vectors, min(k, len(self.vectors)), run)
        return _full(found.indices, found.values)


@dataclass(frozen=True, eq=False)
class ProbedSearch:
    """Rows of the cells nearest to the query are looked at; one query and many give the same bits.

    centres : (c, d); cell : (n,) the cell of each row
    """

    vectors: Floats
    centres: Floats
    cell: Ints
    exact: bool = False

    @cached_property
    def _members(self) -> tuple[Longs, Ints]:
        """The rows of each cell: pointers and rows."""
        counts = np.bincount(self.cell, minlength=len(self.centres))
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return pointers, np.argsort(self.cell, kind="stable").astype(np.int32)

    def search(self, queries: Floats, k: int, run: Runner) -> Nearest:
        """See RowSearch."""
        k = min(k, len(self.vectors))
        out = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        args = (queries, self.vectors, self.centres, *self._members, _PROBES, *out)
        run.map("search", lambda a, b: search_cells(a, b, *args), len(queries))
        return _full(*out)


def _full(indices: Ints, values: Floats) -> Nearest:
    return Nearest(indices, values, np.full(len(indices), indices.shape[1], np.int64))
