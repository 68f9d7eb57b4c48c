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
import numpy.typing as npt

from kinrank.graph.layout import Layout
from kinrank.kernels import paths, select
from kinrank.parallel import Runner
from kinrank.stages.distance import Distances, VectorDistances
from kinrank.stages.diverge import Divergence
from kinrank.types import Floats, Ints, Longs, Ranking, SparseRows

UNREACHABLE = np.float32(50)
_QUERIES = 1024  # whose candidates are held at a time
_CELLS = 1 << 22  # of a dense block, so that it stays near the caches


@dataclass(frozen=True, eq=False)
class Ranker:
    """All that a ranking is made from.

    fusion : "squared", "euclidean" or "diffusion", what d is
    diffusion : (n_queries rows) the diffusion distance where it is not 1; for that fusion
    graph : d' on an edge list; with it d' is the length of the shortest path
    layout : the old numbers of the rows, which the ranking tells; None if they have no others
    """

    distances: Distances
    divergence: Divergence
    n_queries: int
    omega: float
    fusion: str
    diffusion: SparseRows | None
    graph: SparseRows | None
    run: Runner
    layout: Layout | None = None

    def rank(self, k: int) -> Ranking:
        """The first ``k`` gallery rows of every query."""
        shape = (self.n_queries, k)
        found = Ranking(np.empty(shape, np.int32), np.empty(shape, np.float32))
        if self.graph is not None:
            self._rank_part(slice(0, self.n_queries), None, found)
            return found
        # Candidates may be many: a part of the queries at a time, so that they stay in the caches.
        lists = self.distances.query_lists.indices
        columns = self.divergence.columns(self.n_queries)
        for low in range(0, self.n_queries, _QUERIES):
            part = slice(low, min(low + _QUERIES, self.n_queries))
            near = self.divergence.near(self.n_queries, lists, self.run, part, columns)
            self._rank_part(part, near, found)
        return found

    def _rank_part(self, part: slice, near: SparseRows | None, found: Ranking) -> None:
        missing = np.arange(part.start, part.stop, dtype=np.int32)
        n_gallery = len(self.distances.neighbors) - self.n_queries
        if found.k < n_gallery and not self._ties:
            first = self._first_by_path(found) if near is None else self._first(part, near, found)
            missing = missing[~first]
        self._all(missing, part.start, near, found)

    @cached_property
    def _layout(self) -> Layout:
        return self.layout or Layout.identity(len(self.distances.neighbors))

    @property
    def _ties(self) -> bool:
        """Whether d does not tell apart rows that are far from the query."""
        return self.omega == 0 or self.fusion == "diffusion"

    def _first(self, part: slice, near: SparseRows, found: Ranking) -> npt.NDArray[np.bool_]:
        """The first k among the candidates; returns for which queries that is the answer."""
        queries = np.arange(part.start, part.stop, dtype=np.int32)
        complete, least = np.zeros(self.n_queries, np.bool_), np.zeros(self.n_queries, np.float32)
        least[part] = [np.min(self.divergence.background(q, self.n_queries)) for q in queries]
        out = (found.indices, found.distances, complete)
        listed, omega, low = self._listed(), np.float32(self.omega), part.start
        if isinstance(self.distances, VectorDistances):
            known = self.distances.query_lists
            args: tuple[Any, ...] = (
                near.indptr, near.indices, near.values, omega, self.fusion == "euclidean",
                self.distances.vectors, known.farthest, known.indices, listed, self.n_queries,
                least, self._layout.names,
            )  # fmt: skip
            kernel = select.first_near
        else:
            base = self._root(self.distances.at(queries, near.indptr, near.indices, self.run))
            fused, bounds = self._fuse(near.values, base), self._fuse(least, listed[:, -1])
            args = (near.indptr, near.indices, fused, bounds, self.n_queries, self._layout.names)
            kernel = select.first_of
        self.run.map(
            "ranking", lambda a, b: kernel(low + a, low + b, low, *args, *out), len(queries)
        )
        return complete[part]

    def _listed(self) -> Floats:
        """d to the rows in the lists of the queries."""
        known = self.distances.query_lists
        scale = np.maximum(known.farthest, np.finfo(np.float32).tiny)[: self.n_queries, None]
        return self._root(np.minimum(known.distances[: self.n_queries] / scale, 1))

    def _first_by_path(self, found: Ranking) -> npt.NDArray[np.bool_]:
        """As _first, along shortest paths."""
        complete = np.zeros(self.n_queries, np.bool_)
        if not isinstance(self.distances, VectorDistances):
            return complete
        known, graph = self.distances.query_lists, self.graph
        assert graph is not None
        args = (
            np.arange(self.n_queries, dtype=np.int32), graph.indptr, graph.indices, graph.values,
            UNREACHABLE, np.float32(self.omega), self.fusion == "euclidean",
            self.distances.vectors, known.farthest, known.indices, self._listed(),
            self.n_queries, self._layout.names,
        )  # fmt: skip
        out = (found.indices, found.distances, complete)
        self.run.map("ranking", lambda a, b: paths.first_by_path(a, b, *args, *out), self.n_queries)
        return complete

    def _all(self, queries: Ints, start: int, near: SparseRows | None, found: Ranking) -> None:
        """Rank by all distances of ``queries``, a few at a time; ``near`` begins at ``start``."""
        if len(queries) == 0:
            return
        n_gallery = len(self.distances.neighbors) - self.n_queries
        size = max(1, min(_CELLS // n_gallery, -(-len(queries) // (4 * self.run.threads))))
        Runner(self.run.threads, size).map(
            "ranking", lambda a, b: self._dense(queries[a:b], start, near, found), len(queries)
        )

    def _dense(self, queries: Ints, start: int, near: SparseRows | None, found: Ranking) -> None:
        alone = Runner(1)
        d2 = self.distances.dense(queries, self.n_queries, alone)
        fused = self._fuse(self._modified(queries, start, near), self._base(queries, d2))
        places = self._layout.places[self.n_queries :] - self.n_queries
        for at, query in enumerate(self._layout.names[queries]):
            row = fused[at][places]
            order = _ascending(d2[at][places]) if self._ties else None
            row = row if order is None else row[order]
            first = _ascending(row)[: found.k]
            found.distances[query] = row[first]
            found.indices[query] = first if order is None else order[first]

    def _modified(self, queries: Ints, start: int, near: SparseRows | None) -> Floats:
        """d' from each query to the whole gallery."""
        first = self.n_queries
        out = np.empty((len(queries), len(self.distances.neighbors) - first), np.float32)
        if near is None:
            assert self.graph is not None
            graph = (self.graph.indptr, self.graph.indices, self.graph.values)
            paths.path_rows(0, len(queries), queries, *graph, UNREACHABLE, first, out)
            return out
        for at, query in enumerate(queries):
            out[at] = self.divergence.background(int(query), first)
            part = slice(near.indptr[query - start], near.indptr[query - start + 1])
            out[at, near.indices[part] - first] = near.values[part]
        return out

    def _base(self, queries: Ints, d2: Floats) -> Floats:
        """d from each query to the whole gallery."""
        if self.diffusion is None:
            return self._root(d2)
        out = np.ones_like(d2)
        for at, query in enumerate(queries):
            part = slice(self.diffusion.indptr[query], self.diffusion.indptr[query + 1])
            ids = self.diffusion.indices[part]
            late = ids >= self.n_queries
            out[at, ids[late] - self.n_queries] = self.diffusion.values[part][late]
        return out

    def _root(self, d2: Floats) -> Floats:
        return np.sqrt(d2) if self.fusion == "euclidean" else d2

    def _fuse(self, modified: Floats, base: Floats) -> Floats:
        omega = np.float32(self.omega)
        return (np.float32(1) - omega) * modified + omega * base


def _ascending(values: Floats) -> Longs:
    """The order of non-negative values, ties by position: one sort of (value, position) keys."""
    bits = (values + np.float32(0)).view(
        np.uint32
    )  # + 0 turns -0.0, which would sort last, into 0.0
    keys = bits.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(values), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
