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

from kinrank.graph.layout import Layout
from kinrank.kernels import bounded, paths, select
from kinrank.kernels.answer import first_candidates
from kinrank.ordering import ascending
from kinrank.parallel import ALONE, Out, Runner
from kinrank.search.stored import for_kernels
from kinrank.stages.distance import Distances, VectorDistances
from kinrank.stages.diverge import Columns, Divergence, Levels
from kinrank.types import Floats, Ints, Ranking, SparseRows

UNREACHABLE = np.float32(50)
_QUERIES = 512  # a thread ranks at a time
_CELLS = 1 << 22  # of a dense block, so that it stays near the caches


def within_one(values: Floats) -> Floats:
    """Lengths of paths x as x / (1 + x), which lies in [0, 1) in the same order."""
    wide = values.astype(np.float64)
    return np.divide(wide, 1 + wide, out=wide, where=np.isfinite(wide)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Ranker:
    """All that a ranking is made from.

    fusion : "squared", "euclidean" or "diffusion", what d is
    diffusion : (n_queries rows) the diffusion distance where it is not 1; for that fusion
    graph : d' on an edge list; with it d' is the length of the shortest path, and d* is brought
        into [0, 1) by ``within_one``
    layout : the old numbers of the rows, which the ranking tells; None if they have no others
    """

    distances: Distances
    divergence: Divergence
    n_queries: int
    omega: float
    fusion: str
    diffusion: SparseRows | None
    graph: SparseRows | None
    layout: Layout | None = None

    def rank(self, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of every query."""
        levels = columns = None
        if self._is_bounded(k):
            levels, columns = self.divergence.levels(self.n_queries, run)
        elif self.graph is None:
            columns = self.divergence.columns(self.n_queries, run)
        # Candidates may be many: a few queries at a time, so that they stay in the caches.
        size = min(_QUERIES, -(-self.n_queries // (4 * run.threads)))
        few = run.cut(run.block_size or size)
        outs = (Out(np.int32, k), Out(np.float32, k))
        found = few.fill("ranking", rank_queries, (self, columns, levels), self.n_queries, *outs)
        order = self._layout.places[: self.n_queries]
        indices, values = (array[order] for array in found)
        return Ranking(indices, values if self.graph is None else within_one(values))

    def rank_part(
        self, part: slice, columns: Columns | None, levels: Levels | None, found: Ranking
    ) -> None:
        """Rank some of the queries, rows of ``found`` in the order of the layout."""
        complete, near = np.zeros(self.n_queries, np.bool_), None
        if found.k < len(self.distances.neighbors) - self.n_queries and not self._ties:
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
        few = k < len(self.distances.neighbors) - self.n_queries
        return few and self.divergence.has_long_columns(self.n_queries, k)

    @cached_property
    def _layout(self) -> Layout:
        return self.layout or Layout.identity(len(self.distances.neighbors))

    @cached_property
    def _least(self) -> Floats:
        """The least d' of any row that shares nothing with the query."""
        return self.divergence.least_background(self.n_queries)

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
        return self.divergence.near(self.n_queries, lists, ALONE, part, columns)

    def _first(
        self, part: slice, columns: Columns | None, levels: Levels | None, out: tuple[Any, ...]
    ) -> SparseRows | None:
        """The first k among the candidates: ids, d*, and whether that is the answer.

        Returns the candidates where they were stored.
        """
        low, high, base = part.start, part.stop, self.distances
        rest = (self.n_queries, self._layout.names, out)
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
        args = (fused, self.n_queries, np.float32(np.inf), self._layout.names, indices, values)
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
        n_gallery = len(self.distances.neighbors) - self.n_queries
        size = max(1, _CELLS // n_gallery)
        for low in range(0, len(queries), size):
            self._dense(queries[low : low + size], start, near, found)

    def _dense(self, queries: Ints, start: int, near: SparseRows | None, found: Ranking) -> None:
        d2 = self.distances.dense(queries, self.n_queries, ALONE)
        fused = self._fuse(self._modified(queries, start, near), self._base(queries, d2))
        places = self._layout.places[self.n_queries :] - self.n_queries
        for at, query in enumerate(queries):
            row = fused[at][places]
            order = ascending(d2[at][places]) if self._ties else None
            row = row if order is None else row[order]
            first = ascending(row, found.k)
            found.distances[query] = row[first]
            found.indices[query] = first if order is None else order[first]

    def _modified(self, queries: Ints, start: int, near: SparseRows | None) -> Floats:
        """d' from each query to the whole gallery."""
        first = self.n_queries
        out = np.empty((len(queries), len(self.distances.neighbors) - first), np.float32)
        if near is None:
            assert self.graph is not None
            paths.path_rows(0, len(queries), queries, *self.graph.csr, UNREACHABLE, first, out)
            return out
        for at, query in enumerate(queries):
            out[at] = self.divergence.background(int(query), first)
            _put(near, query - start, first, out[at])
        return out

    def _base(self, queries: Ints, d2: Floats) -> Floats:
        """d from each query to the whole gallery."""
        if self.diffusion is None:
            return self._root(d2)
        out = np.ones_like(d2)
        for at, query in enumerate(queries):
            _put(self.diffusion, query, self.n_queries, out[at])
        return out

    def _root(self, d2: Floats) -> Floats:
        return np.sqrt(d2) if self.fusion == "euclidean" else d2

    def _fuse(self, modified: Floats, base: Floats) -> Floats:
        omega = np.float32(self.omega)
        return (np.float32(1) - omega) * modified + omega * base


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
