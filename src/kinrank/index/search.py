"""Where the nearest rows of a query come from: all vectors, cells of them, or a store.

Rows are counted as in the state, as everywhere behind ``Index``; the vectors that are searched and
the ids of a store are counted by gallery index, which is turned into rows here. Queries are
(n_queries, d) float32, scaled as the index keeps its own vectors. Distances are squared. ``run``
says how many threads work, and changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownIdError
from kinrank.filters import Rule, SameForAll
from kinrank.index.attributes import Attributes
from kinrank.index.ids import IdTable, as_ids
from kinrank.index.state import Scaling, State
from kinrank.kernels.scan import pair_distances, search_cells
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.search.searcher import (
    FilteringStore,
    Store,
    check_squared_distances,
    checked_fetch,
    checked_search,
)
from kinrank.types import Floats, Ints, Longs, Neighbors
from kinrank.validation import check_bool

_PROBES = 64  # cells that a query looks into
_CHECKED_ROWS = 4  # whose distances are compared with those of fetched vectors
_CHECKED_NEIGHBORS = 16  # of each of them
_TILE = 1 << 24  # numbers of fetched vectors that are here at a time


@dataclass(frozen=True, eq=False)
class VectorSearch:
    """Searches the vectors of a state: all of them, or those of the cells nearest to the query.

    One query and many give the same bits.
    """

    state: State

    @property
    def exact(self) -> bool:
        """Whether all vectors are searched: the state has no cells."""
        return len(self.state.cell) == 0

    @cached_property
    def _rows_of_cells(self) -> tuple[Longs, Ints]:
        """The rows of each cell as CSR arrays: cell c has rows[indptr[c] : indptr[c + 1]]."""
        cell = self.state.cell
        counts = np.bincount(cell, minlength=len(self.state.centres))
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return indptr, np.argsort(cell, kind="stable").astype(np.int32)

    def search(self, queries: Floats, k: int, run: Runner) -> Neighbors:
        """The ``k`` nearest rows of each query, nearest first, ties by gallery index."""
        state = self.state
        n = len(queries)
        k = min(k, len(state.vectors))
        if self.exact:
            listed = exact_search(queries, state.vectors, k, run, numbers=state.order)
            return Neighbors(state.position[listed.indices], listed.distances)
        indptr, rows_of_cells = self._rows_of_cells
        indices = np.empty((n, k), np.int32)
        distances = np.empty((n, k), np.float32)
        run.map(
            "search",
            search_cells,
            n,
            queries,
            state.vectors,
            state.order,
            state.centres,
            indptr,
            rows_of_cells,
            _PROBES,
            indices,
            distances,
        )
        return Neighbors(state.position[indices], distances)


@dataclass(frozen=True, eq=False)
class StoreSearch:
    """Searches the store that has the vectors; its ids become rows.

    store : None for an index that was opened without it, which cannot search
    refine : whether vectors are fetched for distances that the store's answer does not have
    exact : never, as far as anybody can tell
    """

    store: Store | None
    state: State
    refine: bool = True
    exact: bool = False

    def search(self, queries: Floats, k: int, run: Runner) -> Neighbors:  # noqa: ARG002
        """The ``k`` nearest rows of each query, as far as the store knows them, ties by index."""
        state = self.state
        n_listed = min(k, len(state))
        indices, squared = store_search(self.opened(), queries, n_listed, state.id_table)
        rows = np.where(indices >= 0, state.position[indices], np.int32(-1))
        order = np.lexsort((indices, squared), axis=1)
        return Neighbors(
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(squared, order, axis=1),
        )

    def squared(self, queries: Floats, query_positions: Longs, rows: Ints) -> Floats:
        """Squared distances of p pairs by fetched vectors, (p,); each row is fetched once.

        query_positions, rows : (p,) which of ``queries``, and which row of the index, each pair has
        Infinite to rows that left the store.
        """
        squared = np.full(len(rows), np.inf, np.float32)
        pairs = np.flatnonzero(~self._is_lost[rows])
        fetched_rows, row_of_pair = np.unique(rows[pairs], return_inverse=True)
        # The pairs of fetched_rows[t] are pairs[by_row[bounds[t] : bounds[t + 1]]].
        by_row = np.argsort(row_of_pair, kind="stable")
        bounds = np.searchsorted(row_of_pair[by_row], np.arange(len(fetched_rows) + 1))
        step = max(1, _TILE // self.state.scaling.dims)
        for start in range(0, len(fetched_rows), step):
            stop = min(start + step, len(fetched_rows))
            for low, high, vectors in self._fetch(fetched_rows, start, stop):
                of_rows = by_row[bounds[low] : bounds[high]]
                distances = np.empty(len(of_rows), np.float32)
                pair_distances(
                    queries,
                    query_positions[pairs[of_rows]],
                    vectors,
                    row_of_pair[of_rows] - low,
                    distances,
                )
                squared[pairs[of_rows]] = distances
        return squared

    def _fetch(self, rows: Ints, low: int, high: int) -> Iterator[tuple[int, int, Floats]]:
        """The vectors of rows[low:high], scaled, in pieces (low, high, vectors).

        A store refuses a request with an id that it lost: the request is then made in halves, until
        the lost row is alone, which is noted.
        """
        state = self.state
        try:
            ids = state.ids[state.order[rows[low:high]]]
            vectors = checked_fetch(self.opened(), ids, state.scaling.dims)
        except UnknownIdError:
            if high - low == 1:
                self._is_lost[rows[low]] = True
                return
            middle = (low + high) // 2
            yield from self._fetch(rows, low, middle)
            yield from self._fetch(rows, middle, high)
            return
        yield low, high, state.scaling.after_projection.apply("vectors", vectors)

    @cached_property
    def _is_lost(self) -> npt.NDArray[np.bool_]:
        """(n,) rows that the store did not have once; it is not asked for them again."""
        return np.zeros(len(self.state), np.bool_)

    def opened(self) -> Store:
        """The store; raises without one."""
        if self.store is None:
            raise InvalidInputError(
                "This index was built over a store and keeps no vectors: open it with "
                "kinrank.open(path, store=store)."
            )
        return self.store


@dataclass(frozen=True, eq=False)
class StoreAttributes:
    """The attributes of an index, and beside them those that its store knows and filters by.

    kept : of the index; table : finds the gallery index of an id of the store
    """

    kept: Attributes
    store: FilteringStore
    table: IdTable

    def where(self, wanted: Any) -> list[Rule]:
        """See ``Attributes.where``; for names that the index does not have the store is asked."""
        if not isinstance(wanted, Mapping):
            return self.kept.where(wanted)
        in_index = {name: given for name, given in wanted.items() if name in self.kept.columns}
        in_store = {name: given for name, given in wanted.items() if name not in in_index}
        rules = self.kept.where(in_index)
        if in_store:
            rows = self.table.find(as_ids(self.store.matching(in_store)))
            allowed = np.zeros(len(self.table), np.bool_)
            allowed[rows[rows >= 0]] = True  # others came after the index was made
            rules.append(SameForAll(allowed))
        return rules

    def differ(self, of_queries: Any, n_queries: int) -> list[Rule]:
        """See ``Attributes.differ``: of the attributes of the index alone."""
        return self.kept.differ(of_queries, n_queries)


RowSearch: TypeAlias = VectorSearch | StoreSearch


def search_of(state: State, store: Store | None = None, refine: bool = True) -> RowSearch:
    """The search that suits a state: of its vectors, or of the store that keeps them.

    store, refine : as users gave them to ``kinrank.open`` or ``Index.from_neighbors``
    """
    if len(state.vectors) == 0:
        searcher = StoreSearch(store, state, check_bool("refine", refine))
        if store is not None:
            check_store(store, state.id_table, state.scaling)
        return searcher
    if store is not None:
        raise InvalidInputError("This index has its own vectors: leave out `store`.")
    return VectorSearch(state)


def check_store(store: Store, table: IdTable, scaling: Scaling) -> None:
    """Raise if a store does not compute the distances that its vectors have.

    A few of its rows are searched for, and the distances that it answers are compared with those
    of fetched vectors.

    table : the ids of the store's rows; scaling : of its vectors
    """
    ids = table.ids
    sample = np.unique(np.linspace(0, len(ids) - 1, _CHECKED_ROWS).astype(np.int64))
    scaling = scaling.after_projection
    try:
        fetched = checked_fetch(store, ids[sample], scaling.dims)
        queries = scaling.apply("vectors", fetched)
        k = min(_CHECKED_NEIGHBORS, len(ids))
        indices, squared = store_search(store, queries, k, table)
        query_positions, columns = np.nonzero(indices >= 0)
        listed = checked_fetch(store, ids[indices[query_positions, columns]], scaling.dims)
    except UnknownIdError:  # rows have left since
        return
    if len(query_positions) == 0:
        return
    vectors = scaling.apply("vectors", listed)
    computed = np.empty(len(query_positions), np.float32)
    pair_distances(queries, query_positions, vectors, np.arange(len(query_positions)), computed)
    check_squared_distances(type(store).__name__, squared[query_positions, columns], computed)


def store_search(store: Store, queries: Floats, k: int, table: IdTable) -> tuple[Ints, Floats]:
    """The nearest rows of a store as indices of ids in ``table``, and their squared distances.

    Returns two arrays (n_queries, at most k), ascending, each row once for a query; -1 and infinity
    behind the last. Rows that the table does not have, as they came into the store later, are left
    out.
    """
    listed = checked_search(store, queries, k)
    squared = listed.distances
    is_filled = np.isfinite(squared)
    indices = np.full(squared.shape, -1, np.int32)
    indices[is_filled] = _indices_of_ids(listed.indices[is_filled], table)
    indices, squared = _without(indices < 0, indices, squared)
    is_repeated = _repeated(indices)
    if is_repeated.any():
        indices, squared = _without(is_repeated, indices, squared)
    return indices[:, :k], squared[:, :k]


def _indices_of_ids(ids: Any, table: IdTable) -> Ints:
    """The index in ``table`` of each id that a store returned, (m,) int32; -1 for those not in it.

    ids : (m,) array; raises unless they are ids of the kind that the table has, text or integers
    """
    try:
        checked_ids = as_ids(ids.tolist())
    except InvalidInputError as error:
        raise InvalidInputError(
            f"The store answered something else than ids of its rows: {error}"
        ) from error
    table_has_text = table.ids.dtype.kind == "U"
    if len(checked_ids) and (checked_ids.dtype.kind == "U") != table_has_text:
        kinds = ("integers", "text") if table_has_text else ("text", "integers")
        raise InvalidInputError(
            f"The store answered ids that are {kinds[0]}; those of the index are {kinds[1]}."
        )
    return table.find(checked_ids)


def _without(is_dropped: Any, indices: Ints, squared: Floats) -> tuple[Ints, Floats]:
    """The entries of each query by distance; dropped ones become -1 and infinity, at the end.

    All arrays are (n_queries, k).
    """
    indices = np.where(is_dropped, np.int32(-1), indices)
    squared = np.where(is_dropped, np.float32(np.inf), squared)
    order = np.argsort(squared, axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(squared, order, axis=1)


def _repeated(indices: Ints) -> Any:
    """Which entries, (n_queries, k), are rows that the same query has further in front."""
    order = np.argsort(indices, axis=1, kind="stable")
    ascending = np.take_along_axis(indices, order, axis=1)
    is_repeated = np.zeros(indices.shape, np.bool_)
    as_the_one_before = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
    np.put_along_axis(is_repeated, order[:, 1:], as_the_one_before, axis=1)
    return is_repeated
