"""Answers from the lists of a store, and the distances that it is asked for beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank.index.searchers import Rows
from kinrank.index.store_search import StoreSearch
from kinrank.kernels.online import Block, Told
from kinrank.kernels.online_answer import answer_rows
from kinrank.kernels.online_encode import encode_rows
from kinrank.kernels.online_told import asked_rows, undecided_rows
from kinrank.parallel import Runner
from kinrank.types import Floats

if TYPE_CHECKING:
    from kinrank.index.online import Engine

_QUERIES = 256  # whose rows are kept until the store has answered


def nothing_told(n_queries: int) -> Told:
    """No rows beside the nearest."""
    none = np.empty(0, np.int32), np.empty(0, np.float32)
    return Told(np.zeros(n_queries + 1, np.int64), *none)


def told_rows(engine: Engine, queries: Floats, near: Rows) -> Told:
    """The rows whose distances the rows of queries are made with, beside the nearest."""
    search, state = engine.search, engine.state
    if not (isinstance(search, StoreSearch) and search.refine):
        return nothing_told(len(queries))
    with engine.workspace() as space:
        known = (near.indices, near.distances, near.counts, state.stored, state.options)
        asked = asked_rows(*known, state.walk is None, space)
    return search.completed(queries, Told(*asked))


def answer_told(
    engine: Engine, queries: Floats, near: Rows, out: tuple[Any, Any, Any], run: Runner
) -> None:
    """As ``encode_rows`` fills in answers; the store is asked twice for many queries at a time.

    First for what their rows are made with, then for what could be among their answers.
    """
    for low in range(0, len(queries), _QUERIES):
        part = slice(low, low + _QUERIES)
        some = Rows(near.indices[part], near.distances[part], near.counts[part])
        _answer(engine, queries[part], some, tuple(array[part] for array in out), run)


def _answer(engine: Engine, queries: Floats, near: Rows, out: tuple[Any, ...], run: Runner) -> None:
    state, search, k = engine.state, engine.search, out[0].shape[1]
    assert isinstance(search, StoreSearch)
    told, farthest = told_rows(engine, queries, near), engine.farthest(near)
    made: dict[int, Any] = {}

    def encoded(low: int, high: int) -> Told:
        part = slice(low, high)
        own = (near.indices[part], near.distances[part], near.counts[part])
        block = Block(queries[part], *own, farthest[part], cut(told, low, high))
        none = np.empty((high - low, 0), np.int32), np.empty((high - low, 0), np.float32)
        args = (state.stored, state.walk, state.options, state.compared)
        with engine.workspace() as space:
            rows = encode_rows(
                block.x, *own, block.told, *args, space, *none, np.empty(0, np.bool_)
            )
            rows = (*rows[5:7], *rows[9])
            made[low] = block, rows
            return Told(*undecided_rows(block, *rows, *state.compared, space, k))

    def answered(low: int, high: int) -> None:
        block, rows = made.pop(low)
        block = block._replace(told=cut(more, low, high))
        with engine.workspace() as space:
            own = tuple(array[low:high] for array in out)
            answer_rows(block, state.vectors, *rows, *state.compared, space, *own)

    more = search.completed(queries, joined(run.map("encoding", encoded, len(queries))))
    run.map("answers", answered, len(queries))


def cut(told: Told, low: int, high: int) -> Told:
    """What is told of queries low to high."""
    return Told(told.ptr[low : high + 1], told.ids, told.d)


def joined(parts: list[Told]) -> Told:
    """What is told of one query after another, from parts."""
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids, values = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
    return Told(ptr, ids, values)
