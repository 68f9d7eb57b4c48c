"""From distances to a ranking: d* = (1 - omega) d' + omega d.

The first k are taken from the rows near the query, when it is certain that no other can be among
them; otherwise, and for the whole gallery, all distances of the query are computed.
Equal d* are ordered by d where omega leaves it out, then by (old) index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinrank.filters import Filter, empty_ranking, first_answer, short_lists
from kinrank.kernels import bounded, paths, select
from kinrank.kernels.answer import first_candidates
from kinrank.kernels.order import rank_rows
from kinrank.ordering import ascending, move_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.search.stored import for_kernels
from kinrank.stages.distances import Distances, VectorDistances
from kinrank.stages.divergence import Columns, Divergence, Levels
from kinrank.stages.layout import Layout
from kinrank.types import Floats, Ints, Ranking, SparseRows

UNREACHABLE = np.float32(50)
_QUERIES = 512  # a thread ranks at a time
_WIDE = 4096  # results from which on there is no copy of a ranking: new memory costs more
_CELLS = 1 << 20  # of a dense block, so that it stays near the caches


def within_one(values: Floats) -> Floats:
    """Lengths of paths x as x / (1 + x), which lies in [0, 1) in the same order."""
    wide = values.astype(np.float64)
    return np.divide(wide, 1 + wide, out=wide, where=np.isfinite(wide)).astype(np.float32)


def fuse(modified: Floats, base: Floats, omega: float) -> Floats:
    """d* = (1 - omega) d' + omega d, in float32 as the kernels compute it."""
    share = np.float32(omega)
    return (np.float32(1) - share) * modified + share * base


@dataclass(frozen=True, eq=False)
class Ranker:
    """All that a ranking is made from.

    fusion : "squared", "euclidean" or "diffusion", what d is
    diffusion : (n_queries rows) the diffusion distance where it is not 1; for that fusion
    graph : d' on an edge list; with it d' is the length of the shortest path, and d* is brought
        into [0, 1) by ``within_one``
    layout : the old numbers of the rows, which the ranking tells; None if they have no others
    allowed : which gallery rows may be answers
    """

    distances: Distances
    divergence: Divergence
    n_queries: int
    omega: float
    fusion: str
    diffusion: SparseRows | None
    graph: SparseRows | None
    layout: Layout | None = None
    allowed: Filter | None = None

    def rank(self, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of every query."""
        levels = columns = None
        depth = k if self.allowed is None else self.allowed.depth(k)
        if self._is_bounded(depth):
            levels, columns = self.divergence.levels(self.n_queries, run, self.first)
        elif self.graph is None:  # else paths tell
            columns = self.divergence.columns(self.n_queries, run, self.first)
        # Candidates may be many: a few queries at a time, so that they stay in the caches.
        size = min(_QUERIES, -(-self.n_queries // (4 * run.threads)))
        few = run.cut(run.block_size or size)
        outs = (Out(np.int32, depth), Out(np.float32, depth))
        if depth:
            args = (self, columns, levels)
            values = few.fill("ranking", rank_queries, args, self.n_queries, *outs)
            indices, distances = (self._by_name(column) for column in values)
            found = Ranking(indices, self._mapped(distances))
        else:
            found = empty_ranking(self.n_queries, k)
        return found if self.allowed is None else self._allowed(found, k, columns, few)

    def _by_name(self, rows: Any) -> Any:
        """Rows of queries in the order in which these were given."""
        order = self._layout.places[: self.n_queries]
        if rows.shape[1] < _WIDE or not rows.flags.writeable:  # files of a run stay as they are
            return rows[order]
        move_rows(rows, order)
        return rows

    def _allowed(self, found: Ranking, k: int, columns: Columns | None, run: Runner) -> Ranking:
        """What is allowed of a ranking; who has too little is ranked by all allowed rows."""
        assert self.allowed is not None
        found, names = self.allowed.drop_others(found, k), self._layout.names
        lacking = np.zeros(self.n_queries, np.bool_)
        lacking[self._layout.places[short_lists(found)]] = True

        def again(low: int, high: int) -> None:
            missing = low + np.flatnonzero(lacking[low:high]).astype(np.int32)
            near = self._near(slice(low, high), columns) if len(missing) else None
            for query in missing:
                self._among_allowed(query, low, near, found, int(names[query]))

        run.map("ranking", again, self.n_queries)
        return found

    def _among_allowed(
        self, query: Any, start: int, near: SparseRows | None, found: Ranking, name: int
    ) -> None:
        """Rank the rows that are allowed for one query, whose old number is ``name``."""
        assert self.allowed is not None
        rows, one = self.allowed.allowed_rows(name), np.array([query], np.int32)
        places = self._layout.places[self.first :][rows]
        d2 = self.distances.at(one, np.array([0, len(rows)]), places, ALONE)
        late = places - self.first
        modified = self._modified(one, start, near)[0, late]
        base = self._root(d2) if self.diffusion is None else self._diffused(one)[0, late]
        first = self._order(self._fuse(modified, base), d2, found.k)
        count = len(first[0])
        found.indices[name, :count] = rows[first[0]]
        found.distances[name, :count] = self._mapped(first[1])

    def _order(self, fused: Floats, d2: Floats, k: int) -> tuple[Any, Floats]:
        """The first ``k`` places by d*, and it there; equal ones by d if it was left out."""
        order = ascending(d2) if self._ties else None
        row = fused if order is None else fused[order]
        first = ascending(row, k)
        return first if order is None else order[first], row[first]

    def _mapped(self, fused: Floats) -> Floats:
        """d* as it is told."""
        return fused if self.graph is None else within_one(fused)

    @property
    def first(self) -> int:
        """The first row that may be an answer."""
        return first_answer(self.n_queries, self.allowed)

    def rank_part(
        self, part: slice, columns: Columns | None, levels: Levels | None, found: Ranking
    ) -> None:
        """Rank some of the queries, rows of ``found`` in the order of the layout."""
        complete, near = np.zeros(self.n_queries, np.bool_), None
        if found.k < len(self.distances.neighbors) - self.first and not self._ties:
            near = self._first(part, columns, levels, (found.indices, found.distances, complete))
        missing = part.start + np.flatnonzero(~complete[part]).astype(np.int32)
        if len(missing):
            near = self._near(part, columns) if near is None else near
            self._all(missing, part.start, near, found)

    def _is_bounded(self, k: int) -> bool:
        """Whether bounds on d' rule out most rows before it is computed."""
        vectors = isinstance(self.distances, VectorDistances) and self.graph is None
        if not vectors or self._ties or self.omega == 1:
            return False
        few = 0 < k < len(self.distances.neighbors) - self.first
        return few and self.divergence.has_long_columns(self.n_queries, k, self.first)

    @cached_property
    def _layout(self) -> Layout:
        return self.layout or Layout.identity(len(self.distances.neighbors))

    @cached_property
    def _least(self) -> Floats:
        """The least d' of any row that shares nothing with the query."""
        return self.divergence.least_background(self.n_queries, self.first)

    @cached_property
    def _listed(self) -> Floats:
        """d to the rows in the lists of the queries."""
        known = self.distances.query_lists
        scale = np.maximum(known.farthest, np.finfo(np.float32).tiny)[: self.n_queries, None]
        near = np.minimum(known.distances[: self.n_queries], scale) / scale
        return self._root(near.astype(np.float32, copy=False))

    @property
    def _ties(self) -> bool:
        """Whether d does not tell apart rows that are far from the query."""
        return self.omega == 0 or self.fusion == "diffusion"

    def _near(self, part: slice, columns: Columns | None) -> SparseRows | None:
        """d' to the rows that may be among the first; None where paths tell it."""
        if columns is None:
            return None
        lists = self.distances.query_lists.indices
        return self.divergence.near(self.n_queries, lists, ALONE, part, columns, self.first)

    def _first(
        self, part: slice, columns: Columns | None, levels: Levels | None, out: tuple[Any, ...]
    ) -> SparseRows | None:
        """The first k among the candidates: ids, d*, and whether that is the answer.

        Returns the candidates where they were stored.
        """
        low, high, base = part.start, part.stop, self.distances
        rest = (self.first, self._layout.names, out)
        if isinstance(base, VectorDistances) and self.graph is not None:
            paths.first_by_path(low, high, self.graph.csr, UNREACHABLE, self._fusion(base), *rest)
            return None
        summed = self.divergence.measure != "similarity"
        if isinstance(base, VectorDistances) and columns is not None and summed:
            sums, more = self.divergence.sums(columns), (self._fusion(base), self._least, *rest)
            if levels is None:
                select.first_near(low, high, *sums, *more)
            else:
                bounded.first_bounded(low, high, levels, *sums[1:-1], *more)
            return None
        near, queries = self._near(part, columns), np.arange(low, high, dtype=np.int32)
        if near is None:
            return None
        d = self._root(base.at(queries, near.indptr, near.indices, ALONE))
        fused = near.with_data(self._fuse(near.values, d)).csr
        indices, values, complete = out
        counts = np.zeros(len(complete), np.int64)
        args = (fused, self.first, np.float32(np.inf), self._layout.names, indices, values)
        first_candidates(low, high, low, *args, counts)
        bounds = self._fuse(self._least, self._listed[:, -1])
        full = counts[part] == values.shape[1]
        complete[part] = full & (values[part, -1] < bounds[part])
        return near

    def _fusion(self, base: VectorDistances) -> tuple[Any, ...]:
        """What kernels fuse d' with, computing distances where they are needed."""
        lists = base.query_lists
        known = (for_kernels(base.vectors), lists.farthest, lists.indices, self._listed)
        return (np.float32(self.omega), self.fusion == "euclidean", *known)

    def _all(self, queries: Ints, start: int, near: SparseRows | None, found: Ranking) -> None:
        """Rank by all distances of ``queries``, a few at a time; ``near`` begins at ``start``."""
        n_gallery = len(self.distances.neighbors) - self.first
        size = max(1, _CELLS // n_gallery)
        for low in range(0, len(queries), size):
            self._dense(queries[low : low + size], start, near, found)

    def _dense(self, queries: Ints, start: int, near: SparseRows | None, found: Ranking) -> None:
        if isinstance(self.distances, VectorDistances) and not self._ties:
            squared = self.distances.squared(queries, self.first)
            farthest = self.distances.neighbors.farthest[queries]
            modified, share = self._modified(queries, start, near), np.float32(self.omega)
            names = self._layout.names[self.first :] - np.int32(self.first)
            last = (names, found.indices, found.distances)
            how = (share, self.fusion == "euclidean")
            rank_rows(queries, squared, farthest, modified, *how, *last)
            return
        d2 = self.distances.dense(queries, self.first, ALONE)
        base = self._root(d2) if self.diffusion is None else self._diffused(queries)
        fused = self._fuse(self._modified(queries, start, near), base)
        places = self._layout.places[self.first :] - self.first
        for at, query in enumerate(queries):
            found.indices[query], found.distances[query] = self._order(
                fused[at][places], d2[at][places], found.k
            )

    def _modified(self, queries: Ints, start: int, near: SparseRows | None) -> Floats:
        """d' from each query to the whole gallery."""
        first = self.first
        out = np.empty((len(queries), len(self.distances.neighbors) - first), np.float32)
        if near is None:
            assert self.graph is not None
            paths.path_rows(0, len(queries), queries, *self.graph.csr, UNREACHABLE, first, out)
            return out
        for at, query in enumerate(queries):
            out[at] = self.divergence.background(int(query), first)
            _put(near, query - start, first, out[at])
        return out

    def _diffused(self, queries: Ints) -> Floats:
        """The diffusion distance from each query to the whole gallery."""
        assert self.diffusion is not None
        out = np.ones((len(queries), len(self.distances.neighbors) - self.first), np.float32)
        for at, query in enumerate(queries):
            _put(self.diffusion, query, self.first, out[at])
        return out

    def _root(self, d2: Floats) -> Floats:
        return np.sqrt(d2) if self.fusion == "euclidean" else d2

    def _fuse(self, modified: Floats, base: Floats) -> Floats:
        return fuse(modified, base, self.omega)


def _put(sparse: SparseRows, row: int, first: int, out: Floats) -> None:
    """Write the entries of a sparse row from column ``first`` on into a dense one."""
    part = slice(sparse.indptr[row], sparse.indptr[row + 1])
    late = sparse.indices[part] >= first
    out[sparse.indices[part][late] - first] = sparse.values[part][late]


def rank_queries(
    low: int, high: int, ranker: Ranker, columns: Columns | None, levels: Levels | None,
    indices: Ints, distances: Floats,
) -> None:  # fmt: skip
    """The kernel of ``Ranker.rank``."""
    ranker.rank_part(slice(low, high), columns, levels, Ranking(indices, distances))
