"""Distances that a store is asked for because its lists lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from kinrank.index.searchers import Rows, RowSearch
from kinrank.index.store_search import StoreSearch
from kinrank.kernels.online import Told
from kinrank.kernels.online_told import asked_rows
from kinrank.types import Floats, Ints, Longs

if TYPE_CHECKING:
    from kinrank.index.online import Engine


def nothing_told(n_queries: int) -> Told:
    """No rows beside the nearest."""
    none = np.empty(0, np.int32), np.empty(0, np.float32)
    return Told(np.zeros(n_queries + 1, np.int64), *none)


def told_rows(engine: Engine, queries: Floats, near: Rows) -> Told:
    """The rows whose distances the rows of queries are made with, beside the nearest."""
    search, state = engine.search, engine.state
    if not _asks(search):
        return nothing_told(len(queries))
    with engine.workspace() as space:
        known = (near.indices, near.distances, near.counts, state.stored, state.options)
        asked = asked_rows(*known, state.walk is None, space)
    return search.completed(queries, Told(*asked))


def more_told(
    engine: Engine, queries: Floats, told: Told, undecided: list[tuple[Longs, Ints]]
) -> tuple[Longs, Told]:
    """The queries that have to be answered once more, and what is told of them by then.

    undecided : of ``encode_rows``, from parts of the queries
    """
    search, counts = engine.search, np.concatenate([np.diff(ptr) for ptr, _ in undecided])
    if not (_asks(search) and counts.any()):
        return np.empty(0, np.int64), nothing_told(0)
    rows = np.concatenate([ids for _, ids in undecided])
    asked = Told(_pointers(counts), rows, np.full(len(rows), np.inf, np.float32))
    found = search.completed(queries, asked)
    left = np.flatnonzero(np.diff(found.ptr))
    if len(left) == 0:  # all of them have left the store
        return left, nothing_told(0)
    pairs = [(one, row) for row in left for one in (told, found)]
    parts = [slice(one.ptr[row], one.ptr[row + 1]) for one, row in pairs]
    ids, values = (
        np.concatenate([one[place][part] for (one, _), part in zip(pairs, parts, strict=True)])
        for place in (1, 2)
    )
    return left, Told(_pointers(np.diff(told.ptr)[left] + np.diff(found.ptr)[left]), ids, values)


def cut(told: Told, low: int, high: int) -> Told:
    """What is told of queries low to high."""
    return Told(told.ptr[low : high + 1], told.ids, told.d)


def _asks(search: RowSearch) -> TypeGuard[StoreSearch]:
    return isinstance(search, StoreSearch) and search.refine


def _pointers(counts: Longs) -> Longs:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
