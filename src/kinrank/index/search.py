"""Where the nearest rows of a query come from: all vectors, cells of them, or a store.

A store names rows by ids, which become rows of the state here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownIdError
from kinrank.index.ids import IdTable, as_ids
from kinrank.index.state import Scaling, State
from kinrank.kernels.scan import pair_distances, search_cells
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.search.searcher import (
    Store,
    check_squared_distances,
    checked_fetch,
    checked_search,
)
from kinrank.types import Floats, Ints, Longs, Neighbors
from kinrank.validation import check_bool

_PROBES = 32  # cells that a query looks into
_CHECKED_ROWS = 4  # whose distances are compared with those of fetched vectors
_CHECKED_NEIGHBORS = 16  # of each of them
_TILE = 1 << 24  # numbers of fetched vectors that are here at a time


@dataclass(frozen=True, eq=False)
class VectorSearch:
    """Every row is looked at, or those of the cells nearest to the query where there are cells.

    One query and many give the same bits.
    """

    state: State

    @property
    def exact(self) -> bool:
        """Whether all rows are seen."""
        return len(self.state.cell) == 0

    @cached_property
    def _members(self) -> tuple[Longs, Ints]:
        """The rows of each cell: pointers and rows."""
        cell = self.state.cell
        counts = np.bincount(cell, minlength=len(self.state.centres))
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return pointers, np.argsort(cell, kind="stable").astype(np.int32)

    def search(self, queries: Floats, k: int, run: Runner) -> Neighbors:
        """The ``k`` nearest rows of each query."""
        state = self.state
        n = len(queries)
        k = min(k, len(state.vectors))
        if self.exact:
            listed = exact_search(queries, state.vectors, k, run, numbers=state.order)
            names = listed.indices
            distances = listed.distances
        else:
            pointers, members = self._members
            names = np.empty((n, k), np.int32)
            distances = np.empty((n, k), np.float32)
            run.map(
                "search",
                lambda low, high: search_cells(
                    low,
                    high,
                    queries,
                    state.vectors,
                    state.order,
                    state.centres,
                    pointers,
                    members,
                    _PROBES,
                    names,
                    distances,
                ),
                n,
            )
        return Neighbors(state.position[names], distances)


@dataclass(frozen=True, eq=False)
class StoreSearch:
    """The store is asked; its ids become rows. Without one, only searching is refused.

    refine : whether vectors are fetched for distances that its answer does not have
    """

    store: Store | None
    state: State
    refine: bool = True
    exact: bool = False

    def search(self, queries: Floats, k: int, run: Runner) -> Neighbors:  # noqa: ARG002
        """The ``k`` nearest rows of each query, as far as the store knows them."""
        state = self.state
        names, values = store_search(self.opened(), queries, min(k, len(state)), state.id_table)
        known = names >= 0
        rows = np.where(known, state.position[names], np.int32(-1))
        order = np.lexsort((names, values), axis=1)
        return Neighbors(
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(values, order, axis=1),
        )

    def squared(self, queries: Floats, owners: Longs, rows: Ints) -> Floats:
        """Squared distances from ``queries[owners]`` to rows, each of which is fetched once.

        Infinite to rows that left the store.
        """
        out = np.full(len(rows), np.inf, np.float32)
        asked = np.flatnonzero(~self._gone[rows])
        different, places = np.unique(rows[asked], return_inverse=True)
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(len(different) + 1))
        size = max(1, _TILE // self.state.scaling.dims)
        for start in range(0, len(different), size):
            for low, high, vectors in self._pieces(different, start, start + size):
                mine = order[bounds[low] : bounds[high]]
                fetched = np.empty(len(mine), np.float32)
                pair_distances(queries, owners[asked[mine]], vectors, places[mine] - low, fetched)
                out[asked[mine]] = fetched
        return out

    def _pieces(self, rows: Ints, low: int, high: int) -> Iterator[tuple[int, int, Floats]]:
        """The vectors of rows low to high, in pieces that the store has whole."""
        high = min(high, len(rows))
        state = self.state
        try:
            ids = state.ids[state.order[rows[low:high]]]
            vectors = checked_fetch(self.opened(), ids, state.scaling.dims)
        except UnknownIdError:
            if high - low == 1:
                self._gone[rows[low]] = True
                return
            middle = (low + high) // 2
            yield from self._pieces(rows, low, middle)
            yield from self._pieces(rows, middle, high)
            return
        yield low, high, state.scaling.after_projection.apply("vectors", vectors)

    @cached_property
    def _gone(self) -> npt.NDArray[np.bool_]:
        """(n,) rows that the store did not have when it was asked; it is not asked again."""
        return np.zeros(len(self.state), np.bool_)

    def opened(self) -> Store:
        """The store; an error without one."""
        if self.store is None:
            raise InvalidInputError(
                "This index was built over a store and keeps no vectors: open it with "
                "kinrank.open(path, store=store)."
            )
        return self.store


RowSearch: TypeAlias = VectorSearch | StoreSearch


def search_of(state: State, store: Store | None = None, refine: bool = True) -> RowSearch:
    """The search that suits a state."""
    if len(state.vectors) == 0:
        searcher = StoreSearch(store, state, check_bool("refine", refine))
        if store is not None:
            check_store(store, state.id_table, state.scaling)
        return searcher
    if store is not None:
        raise InvalidInputError("This index has its own vectors: leave out `store`.")
    return VectorSearch(state)


def check_store(store: Store, table: IdTable, scaling: Scaling) -> None:
    """Compare a few distances that a store returns with those of the vectors that it fetches."""
    ids = table.ids
    sample = np.unique(np.linspace(0, len(ids) - 1, _CHECKED_ROWS).astype(np.int64))
    after_projection = scaling.after_projection
    try:
        fetched = checked_fetch(store, ids[sample], scaling.dims)
        rows = after_projection.apply("vectors", fetched)
        places, squared = store_search(store, rows, min(_CHECKED_NEIGHBORS, len(ids)), table)
        owners, columns = np.nonzero(places >= 0)
        found = checked_fetch(store, ids[places[owners, columns]], scaling.dims)
    except UnknownIdError:  # rows have left since
        return
    if len(owners) == 0:
        return
    vectors = after_projection.apply("vectors", found)
    computed = np.empty(len(owners), np.float32)
    pair_distances(rows, owners, vectors, np.arange(len(owners)), computed)
    check_squared_distances(type(store).__name__, squared[owners, columns], computed)


def store_search(store: Store, queries: Floats, k: int, table: IdTable) -> tuple[Ints, Floats]:
    """Places in ``table`` of the nearest rows, and their squared distances, (n_queries, <= k).

    Ascending, each row once for a query; -1 and infinity behind the last. Rows that the table does
    not have, as they came into the store later, are left out.
    """
    answer = checked_search(store, queries, k)
    values = answer.distances
    known = np.isfinite(values)
    places = np.full(values.shape, -1, np.int32)
    places[known] = _places(answer.indices[known], table)
    places, values = _ascending(places, values, places < 0)
    again = _repeated(places)
    if again.any():
        places, values = _ascending(places, values, again)
    return places[:, :k], values[:, :k]


def _places(ids: Any, table: IdTable) -> Ints:
    try:
        wanted = as_ids(ids.tolist())
    except InvalidInputError as error:
        raise InvalidInputError(
            f"The store answered something else than ids of its rows: {error}"
        ) from error
    if len(wanted) and (wanted.dtype.kind == "U") != (table.ids.dtype.kind == "U"):
        kinds = ("text", "integers") if table.ids.dtype.kind == "U" else ("integers", "text")
        raise InvalidInputError(
            f"The store answered ids that are {kinds[1]}; those of the index are {kinds[0]}."
        )
    return table.find(wanted)


def _ascending(places: Ints, values: Floats, dropped: Any) -> tuple[Ints, Floats]:
    """The entries of each query by distance, those that are dropped last as -1 and infinity."""
    places = np.where(dropped, np.int32(-1), places)
    values = np.where(dropped, np.float32(np.inf), values)
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(values, order, axis=1)


def _repeated(places: Ints) -> Any:
    """Which entries are rows that the same query has further in front."""
    order = np.argsort(places, axis=1, kind="stable")
    ordered = np.take_along_axis(places, order, axis=1)
    again = np.zeros(places.shape, np.bool_)
    same = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    np.put_along_axis(again, order[:, 1:], same, axis=1)
    return again
