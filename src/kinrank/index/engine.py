"""Answers to queries that are not in the graph, each on its own."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import UnknownIdError
from kinrank.filters import Filter, empty_ranking
from kinrank.index.attributes import Attributes
from kinrank.index.choice import Choice, ChosenRows, everything
from kinrank.index.line import Caller, Line
from kinrank.index.query import Overlay, QueryStages, encode_queries
from kinrank.index.search import RowSearch, StoreSearch
from kinrank.index.state import State
from kinrank.kernels.overlay import Workspace, lent_space
from kinrank.kernels.path_answer import answer_by_path, near_divergences
from kinrank.kernels.query import farthest_rows
from kinrank.kernels.ranking import answer_rows
from kinrank.kernels.scan import pair_distances
from kinrank.parallel import Runner, thread_count
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking

_TOGETHER = 64  # queries
_FETCHED = 4096  # rows of a store whose vectors are fetched because they alone are allowed
_NO_ROWS, _NO_DISTANCES = np.empty(0, np.int32), np.empty(0, np.float32)


class Engine:
    """A state with what answering needs beside it: a search, and workspaces."""

    def __init__(
        self, state: State, search: RowSearch, attributes: Attributes | None = None
    ) -> None:
        self.state = state
        self.attributes = attributes or Attributes()
        self.search = search
        self._spaces: list[Workspace] = []
        self._line = Line(thread_count())

    def with_attributes(self, attributes: Attributes) -> Engine:
        """The same with others; it shares the workspaces and those who wait for an answer."""
        other = copy(self)
        other.attributes = attributes
        return other

    def workspace(self) -> lent_space:
        """A workspace that nobody else uses inside ``with``."""
        return lent_space(len(self.state), self._spaces)

    def near(self, queries: Floats, length: int, run: Runner) -> Neighbors:
        """The nearest rows of each query, as many as there are up to ``length``."""
        return self.search.search(queries, length, run)

    def farthest(self, near: Neighbors) -> Floats:
        """About the largest squared distance from each query to any row, (n_queries,).

        What its nearest rows say of theirs, and never less than to a row that makes its own.
        """
        known = self.state.neighbors
        out: Floats = farthest_rows(
            near.indices, near.distances, near.counts, known.farthest, known.k - 1
        )
        return out

    def squared(self, queries: Floats, owners: Longs, rows: Ints) -> Floats:
        """Squared distances from ``queries[owners]`` to rows; infinite where nobody knows."""
        if isinstance(self.search, StoreSearch):
            return self.search.squared(queries, owners, rows)
        out = np.empty(len(rows), np.float32)
        pair_distances(queries, owners, self.state.vectors, rows, out)
        return out

    def distance(self, query: Floats, row: int) -> Floats:
        """The squared distance from a query, (1, d), to a row, (1,)."""
        found = self.squared(query, np.zeros(1, np.int64), np.array([row], np.int32))
        if np.isinf(found[0]):
            gone = self.state.ids[self.state.names[row]].item()
            raise UnknownIdError(f"The store has no row with the id {gone!r} any more.")
        return found

    def answer(
        self, queries: Floats, k: int, run: Runner, allowed: Filter | None = None
    ) -> Ranking:
        """The first ``k`` gallery rows of each query; indices are names."""
        alone = allowed is not None or len(queries) > 1 or isinstance(self.search, StoreSearch)

        def rank(rows: Floats) -> Ranking:
            if allowed is not None:
                return self._rank_allowed(rows, k, run, allowed)
            return self._rank(rows, k, run if rows is queries else run.cut(None, threads=1))

        return self._line.answer(Caller(queries, None if alone else k), rank)

    def _rank(self, queries: Floats, k: int, run: Runner) -> Ranking:
        n, length = len(self.state), self._length(k)
        indices = np.empty((len(queries), k), np.int32)
        distances = np.empty((len(queries), k), np.float32)
        complete = self._answer(queries, length, indices, distances, run)
        if length < n and self.search.exact and not all(complete.tolist()):
            for at in np.flatnonzero(~complete):  # all distances: the lists did not tell
                part = slice(at, at + 1)
                self._answer(queries[part], n, indices[part], distances[part], run)
        return Ranking(indices, distances)

    def _rank_allowed(self, queries: Floats, k: int, run: Runner, allowed: Filter) -> Ranking:
        """As ``_rank``; who lacks results is ranked again, by all rows that are allowed."""
        if self.state.paths is not None:  # they lead through rows that are not allowed
            return allowed.ranked(
                k,
                lambda some, depth: self._rank(
                    queries if some is None else queries[some], depth, run
                ),
            )
        found, every, depth = (
            empty_ranking(len(queries), k),
            np.arange(len(queries)),
            allowed.depth(k),
        )

        def rank(some: Longs, length: int, *, only: bool) -> Longs:
            out = empty_ranking(len(some), k)
            choice = Choice(allowed, some, self.state.places, only)
            own = (queries[some], length, out.indices, out.distances, run, choice)
            complete = self._answer(*own)
            found.indices[some], found.distances[some] = out.indices, out.distances
            return some[~complete if self.search.exact else out.indices[:, -1] < 0]

        lacking = rank(every, self._length(depth), only=False) if depth else every
        if isinstance(self.search, StoreSearch):
            few = np.array([len(allowed.rows(int(query))) <= _FETCHED for query in lacking], bool)
            many, lacking = lacking[~few], lacking[few]
            if len(many):  # too many to fetch: the store is asked for all it has
                rank(many, len(self.state), only=False)
        if len(lacking):
            rank(lacking, self._length(1), only=True)
        return found

    def base(self, queries: Floats, k: int, run: Runner, allowed: Filter | None = None) -> Ranking:
        """The first ``k`` gallery rows of each query by their plain distance."""
        state = self.state
        if allowed is not None:
            return allowed.ranked(
                k,
                lambda some, depth: self.base(
                    queries if some is None else queries[some], depth, run
                ),
            )
        has_context = len(state) > state.n_gallery
        # The scale of a query is told by the lists that its stages are made from: shorter ones
        # would give other distances.
        length = self._length(k) if has_context else max(k, state.neighbors.k - 1)
        rows = self.near(queries, length, run)
        if has_context and self._short(rows, k):
            rows = self.near(queries, len(state), run)
        names = np.where(rows.indices >= 0, state.names[rows.indices], -1)
        scale = np.maximum(self.farthest(rows), np.finfo(np.float32).tiny)[:, None]
        d = (np.minimum(rows.distances, scale) / scale).astype(np.float32)
        d = np.sqrt(d) if state.method.fusion == "euclidean" else d
        out = empty_ranking(len(names), k)
        for row in range(len(names)):
            is_answer = (names[row] >= 0) & (names[row] < state.n_gallery)
            count = min(k, int(is_answer.sum()))
            out.indices[row, :count] = names[row][is_answer][:count]
            out.distances[row, :count] = d[row][is_answer][:count]
        return out

    def _short(self, rows: Neighbors, k: int) -> bool:
        gallery = self.state.names[rows.indices] < self.state.n_gallery
        return bool(((gallery & (rows.indices >= 0)).sum(axis=1) < k).any())

    def _length(self, k: int) -> int:
        """How many neighbours make it likely that the first ``k`` answers are certain."""
        state = self.state
        wanted = (k + k // 4 + 16) * len(state) / max(state.n_gallery, 1)
        return min(len(state), max(state.neighbors.k - 1, int(wanted)))

    def _answer(
        self, queries: Floats, length: int, indices: Ints, distances: Floats, run: Runner,
        choice: Choice | None = None,
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Fill in the answers from lists of ``length``; which are certain."""
        near, n = self.near(queries, length, run), len(queries)
        if n == 1 and choice is None:
            return self._answer_few(queries, near, everything(1), indices, distances)

        def some(low: int, high: int) -> npt.NDArray[np.bool_]:
            part = slice(low, high)
            chosen = everything(high - low) if choice is None else choice.some(part)
            listed = near[part]
            return self._answer_few(queries[part], listed, chosen, indices[part], distances[part])

        # A few at a time: what is made for a query is larger than its answer.
        few = run.cut(min(_TOGETHER, -(-n // run.threads)))
        return np.concatenate(few.map("answers", some, n))

    def encode(self, queries: Floats, near: Neighbors, space: Workspace) -> QueryStages:
        """The stages of queries; near : at least as long as the lists of rows."""

        def squared(owners: Longs, rows: Ints) -> Floats:
            listed = near.indices[owners] == rows[:, None]
            out: Floats = np.where(listed, near.distances[owners], np.float32(np.inf)).min(axis=1)
            missing = np.flatnonzero(~listed.any(axis=1))
            if len(missing) and self._refines:
                out[missing] = self.squared(queries, owners[missing], rows[missing])
            return out

        return encode_queries(self.state, near, squared, space)

    @property
    def _refines(self) -> bool:
        """Whether distances that the lists lack are to be had."""
        return not isinstance(self.search, StoreSearch) or self.search.refine

    def _answer_few(
        self, queries: Floats, near: Neighbors, chosen: ChosenRows, indices: Ints, distances: Floats
    ) -> npt.NDArray[np.bool_]:
        """Fill in the answers; which are certain. A store is asked for distances that matter."""
        with self.workspace() as space:
            stages = self.encode(queries, near, space)
            encoding = stages.encoding
            out = (indices, distances, space)
            own = (queries, near.indices, near.distances, near.counts, stages.farthest)
            n, kernel = len(queries), answer_rows
            known = _compared(self.state, encoding)
            if self.state.paths is not None:
                kernel = answer_by_path
                known = self.edges(near, encoding, space), tuple(self.state.path_graph)
            fetched = (everything(n)[0], _NO_ROWS, _NO_DISTANCES)
            complete, ptr, left = kernel(0, n, (*own, *fetched, *chosen), *known, *out)
            if len(left) and self._refines:
                owners = np.repeat(np.arange(n), np.diff(ptr))
                asked = (*own, ptr, left, self.squared(queries, owners, left), *chosen)
                complete = kernel(0, n, asked, *known, *out)[0]
        certain: npt.NDArray[np.bool_] = complete
        return certain

    def edges(self, near: Neighbors, encoding: Overlay, space: Workspace) -> Floats:
        """d' from queries to their nearest rows, with which their paths begin."""
        count = self.state.method.geodesic_k - 1
        first = (np.ascontiguousarray(near.indices[:, :count]), near.counts)
        n, rows = len(near), _compared(self.state, encoding)
        out: Floats = near_divergences(0, n, *first, *rows, space)
        return out


def _compared(state: State, encoding: Overlay) -> tuple[Any, ...]:
    """F' of queries and of the rows they change, and of all rows, as kernels take them."""
    return (*encoding[1:], tuple(state.compared))
