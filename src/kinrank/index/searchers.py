"""Where the nearest rows of a query come from: all vectors, cells of them, or a store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.index.ids import IdTable, as_ids
from kinrank.kernels.online_search import search_all, search_cells
from kinrank.neighbors.search import exact_search
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, Longs

# From this many queries on, products of whole blocks are quicker than one query at a time.
_MANY = 12
_PROBES = 32  # cells that a query looks into


@dataclass(frozen=True, eq=False)
class Rows:
    """The nearest rows of each query, ascending by (distance, row).

    indices : (n_queries, k) int32; distances : squared; counts : (n_queries,) how many are known
    """

    indices: Ints
    distances: Floats
    counts: Longs


class RowSearch(Protocol):
    """Finds rows of the index; ``exact`` tells whether all of them are seen."""

    @property
    def exact(self) -> bool:
        """Whether the answer is certain."""

    def search(self, queries: Floats, k: int, run: Runner) -> Rows:
        """The ``k`` nearest rows of each query."""


class Store(Protocol):
    """A collection of vectors that somebody else keeps, such as a vector database."""

    def __len__(self) -> int:
        """The number of rows."""

    def search(self, queries: Floats, k: int) -> tuple[Any, Any]:
        """Ids (n_queries, k) and squared distances, nearest first; infinite where there is none."""

    def fetch(self, ids: Any) -> Floats:
        """The vectors of some rows, in the order asked for."""


@dataclass(frozen=True, eq=False)
class ExactSearch:
    """Every row is looked at. One query and many give the same bits."""

    vectors: Floats
    exact: bool = True

    @cached_property
    def _numbers(self) -> Ints:
        return np.arange(len(self.vectors), dtype=np.int32)

    def search(self, queries: Floats, k: int, run: Runner) -> Rows:
        """See RowSearch."""
        k = min(k, len(self.vectors))
        if len(queries) >= _MANY or 4 * k > len(self.vectors):
            found = exact_search(queries, self.vectors, k, run)
            return _full(found.indices, found.values)
        out = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)

        def some(low: int, high: int) -> None:
            scratch = np.empty(len(self.vectors), np.float32)
            search_all(low, high, queries, self.vectors, self._numbers, scratch, *out)

        Runner(run.threads, 1).map("search", some, len(queries))
        return _full(*out)


@dataclass(frozen=True, eq=False)
class CellSearch:
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

    def search(self, queries: Floats, k: int, run: Runner) -> Rows:
        """See RowSearch."""
        k = min(k, len(self.vectors))
        out = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        args = (queries, self.vectors, self.centres, *self._members, _PROBES, *out)
        run.map("search", lambda a, b: search_cells(a, b, *args), len(queries))
        return _full(*out)


@dataclass(frozen=True, eq=False)
class StoreSearch:
    """The store is asked; its ids become rows. Without one, only searching is refused."""

    store: Store | None
    table: IdTable
    places: Ints
    exact: bool = False

    def search(self, queries: Floats, k: int, run: Runner) -> Rows:  # noqa: ARG002
        """See RowSearch."""
        if self.store is None:
            raise InvalidInputError(
                "`store` must be given to kinrank.open: the index was made over one, and holds no "
                "vectors."
            )
        k = min(k, len(self.table))
        ids, squared = self.store.search(queries, k)
        values = np.asarray(squared, np.float32)
        if values.shape[0] != len(queries) or values.shape != np.shape(ids):
            raise InvalidInputError(
                f"The store must answer ids and distances for {len(queries)} queries, got shapes "
                f"{np.shape(ids)} and {values.shape}."
            )
        known = np.isfinite(values)
        rows = np.full(values.shape, -1, np.int32)
        rows[known] = self.table.find(as_ids(np.asarray(ids)[known].tolist()))
        known &= rows >= 0  # rows that came into the store later are not in the graph
        rows[known] = self.places[rows[known]]
        values = np.where(known, values, np.inf).astype(np.float32)
        order = np.lexsort((rows, values), axis=1)
        return Rows(
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(values, order, axis=1),
            known.sum(axis=1).astype(np.int64),
        )


def _full(indices: Ints, values: Floats) -> Rows:
    return Rows(indices, values, np.full(len(indices), indices.shape[1], np.int64))
