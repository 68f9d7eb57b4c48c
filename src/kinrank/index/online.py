"""Answers to queries that are not in the graph, each on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import UnknownIdError
from kinrank.index.searchers import Rows, RowSearch
from kinrank.index.state import State
from kinrank.index.store_search import StoreSearch
from kinrank.index.told import cut, more_told, told_rows
from kinrank.kernels.online import Block, Space, Told, told_farthest
from kinrank.kernels.online_encode import ASKED, encode_rows
from kinrank.parallel import Runner, thread_count
from kinrank.types import Floats, Ints, Longs, Ranking

_LAST_STAMP = 2_000_000_000


class Engine:
    """A state with what answering needs beside it: a search, and workspaces."""

    def __init__(self, state: State, search: RowSearch) -> None:
        self.state = state
        self.search = search
        self._spaces: list[Space] = []
        # Of many callers some wait: a thread that holds the interpreter must not wait for a core.
        self._seats: SimpleQueue[None] = SimpleQueue()
        for _ in range(2 * thread_count()):
            self._seats.put(None)

    @contextmanager
    def workspace(self) -> Iterator[Space]:
        """A workspace that nobody else uses meanwhile."""
        try:
            space = self._spaces.pop()  # atomic, as is append
        except IndexError:
            space = new_workspace(len(self.state))
        yield space
        if space.clock[0] < _LAST_STAMP:  # not given back after an error: it may not be clean
            self._spaces.append(space)

    @contextmanager
    def _seat(self) -> Iterator[None]:
        self._seats.get()
        try:
            yield
        finally:
            self._seats.put(None)

    def near(self, queries: Floats, length: int, run: Runner) -> Rows:
        """The nearest rows of each query, as many as there are up to ``length``."""
        return self.search.search(queries, length, run)

    def farthest(self, near: Rows) -> Floats:
        """About the largest squared distance from each query to any row, (n_queries,).

        What its nearest rows say of theirs, and never less than to a row that makes its own.
        """
        known = self.state.neighbors
        own = (near.indices, near.distances, near.counts)
        out: Floats = told_farthest(*own, known.farthest, ASKED, known.k - 1)
        return out

    def squared(self, query: Floats, row: int) -> Floats:
        """The squared distance from a query, (1, d), to a row, (1,)."""
        if not isinstance(self.search, StoreSearch):
            difference = query[0] - self.state.vectors[row]
            return np.array([difference @ difference], np.float32)
        one = np.array([row], np.int32)
        found = self.search.squared(query, np.zeros(1, np.int64), one)
        if np.isinf(found[0]):
            gone = self.state.ids[self.state.names[row]].item()
            raise UnknownIdError(f"The store has no row with the id {gone!r} any more.")
        return found

    def answer(self, queries: Floats, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of each query; indices are names."""
        n, length = len(self.state), self._length(k)
        indices = np.empty((len(queries), k), np.int32)
        distances = np.empty((len(queries), k), np.float32)
        with self._seat():
            complete = self._answer(queries, length, indices, distances, run)
            if length < n and self.search.exact:
                for at in np.flatnonzero(~complete):  # all distances: the lists did not tell
                    part = slice(at, at + 1)
                    self._answer(queries[part], n, indices[part], distances[part], run)
        return Ranking(indices, distances)

    def base(self, queries: Floats, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of each query by their plain distance."""
        state = self.state
        rows = self.near(queries, self._length(k) if len(state) > state.n_gallery else k, run)
        if len(state) > state.n_gallery and self._short(rows, k):
            rows = self.near(queries, len(state), run)
        names = np.where(rows.indices >= 0, state.names[rows.indices], -1)
        scale = np.maximum(self.farthest(rows), np.finfo(np.float32).tiny)[:, None]
        d = np.minimum(rows.distances / scale, 1).astype(np.float32)
        d = np.sqrt(d) if state.method.fusion == "euclidean" else d
        out = Ranking(np.full((len(names), k), -1, np.int32), np.full((len(names), k), np.inf))
        for row in range(len(names)):
            known = (names[row] >= 0) & (names[row] < state.n_gallery)
            count = min(k, int(known.sum()))
            out.indices[row, :count] = names[row][known][:count]
            out.distances[row, :count] = d[row][known][:count]
        return out

    def _short(self, rows: Rows, k: int) -> bool:
        gallery = self.state.names[rows.indices] < self.state.n_gallery
        return bool(((gallery & (rows.indices >= 0)).sum(axis=1) < k).any())

    def _length(self, k: int) -> int:
        """How many neighbours make it likely that the first ``k`` answers are certain."""
        state = self.state
        wanted = (k + k // 4 + 16) * len(state) / max(state.n_gallery, 1)
        return min(len(state), max(state.neighbors.k - 1, int(wanted)))

    def _answer(
        self, queries: Floats, length: int, indices: Ints, distances: Floats, run: Runner
    ) -> npt.NDArray[np.bool_]:
        """Fill in the answers from lists of ``length``; which are certain."""
        near = self.near(queries, length, run)
        out = (indices, distances, np.zeros(len(queries), np.bool_))
        told = told_rows(self, queries, near)
        undecided = self._encode(queries, near, told, out, run)
        left, told = more_told(self, queries, told, undecided)
        if len(left):
            again = tuple(array[left] for array in out)
            self._encode(queries[left], near.some(left), told, again, run)
            for array, part in zip(out, again, strict=True):
                array[left] = part
        return out[2]

    def _encode(
        self, queries: Floats, near: Rows, told: Told, out: tuple[Any, ...], run: Runner
    ) -> list[tuple[Longs, Ints]]:
        """Fill in ``out`` of ``answer_rows``; what that returns, by parts."""
        state = self.state
        known = (state.stored, state.walk, state.options, state.compared)

        def some(low: int, high: int) -> tuple[Longs, Ints]:
            part = slice(low, high)
            block = (queries[part], near.indices[part], near.distances[part], near.counts[part])
            with self.workspace() as space:
                own = (array[part] for array in out)
                made = encode_rows(*block, cut(told, low, high), *known, space, *own)
            undecided: tuple[Longs, Ints] = made[-1]
            return undecided

        return run.map("answers", some, len(queries))


def block_of(engine: Engine, query: Floats, run: Runner) -> Block:
    """A query, (1, d), as kernels take it, with the rows that make its own."""
    near = engine.near(query, engine.state.neighbors.k - 1, run)
    own = (near.indices, near.distances, near.counts, engine.farthest(near))
    return Block(query, *own, told_rows(engine, query, near))


def new_workspace(n: int) -> Space:
    """Arrays for one query at a time over ``n`` rows; the query is row n."""

    def marks(value: int) -> Any:
        return np.full(n + 1, value, np.int32)

    return Space(
        clock=np.zeros(1, np.int32),
        seen=marks(0),
        total=np.empty(n + 1, np.float64),
        touched=np.empty(n + 1, np.int32),
        stepped=marks(0),
        known=marks(0),
        distance=np.empty(n + 1, np.float32),
        slot=marks(-1),
        nodes=np.empty(n + 1, np.int32),
        mass=np.empty(n + 1, np.float64),
    )
