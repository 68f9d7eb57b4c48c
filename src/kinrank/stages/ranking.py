"""From distances to a ranking: d* = (1 - omega) d' + omega d.

d' compares rows of F' (``stages/divergence.py``), or is the length of a shortest path over it; d is
the squared distance over the largest one of the query, its root, or a diffusion distance. Queries
are the first rows; the gallery begins with row ``first``.

There are two ways to finish a ranking. ``_first_k`` takes the first k from the candidates of a
query, the rows that share a column of F' with it or are in its list of nearest rows, and says for
which queries it is certain that no other row can be among them. ``_rank_all`` computes d* to the
whole gallery; it serves the other queries, and rankings of the whole gallery. Where a filter leaves
a query too few results, ``rank_allowed`` ranks all rows that are allowed for it. Equal d* are
ordered by d where omega leaves it out, then by (old) index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.filters import Filter, empty_ranking, first_answer, short_lists
from kinrank.kernels import bounded, paths, select
from kinrank.kernels.answer import first_candidates
from kinrank.kernels.order import rank_rows
from kinrank.kernels.records import Fusion
from kinrank.ordering import ascending, move_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.search.stored import for_kernels
from kinrank.stages.distances import Distances, VectorDistances
from kinrank.stages.divergence import CandidateColumns, Divergence
from kinrank.stages.layout import Layout
from kinrank.types import Floats, Ints, Longs, Ranking, SparseRows

UNREACHABLE = np.float32(50)  # the length of a path where there is none
_QUERIES = 512  # that a thread ranks at a time
_WIDE = 4096  # results from which on a ranking is reordered in place: new memory costs more
_CELLS = 1 << 20  # of queries times gallery rows that are ranked at a time, near the caches


def within_one(values: Floats) -> Floats:
    """Lengths of paths x as x / (1 + x), which lies in [0, 1) in the same order."""
    wide = values.astype(np.float64)
    return np.divide(wide, 1 + wide, out=wide, where=np.isfinite(wide)).astype(np.float32)


def fuse(divergence: Floats, distance: Floats, omega: float) -> Floats:
    """d* = (1 - omega) d' + omega d, in float32 as the kernels compute it."""
    weight = np.float32(omega)
    return (np.float32(1) - weight) * divergence + weight * distance


@dataclass(frozen=True, eq=False)
class Ranker:
    """All that a ranking is made from.

    distances : d, between all rows; divergence : F' and how its rows are compared
    n_queries : how many of the rows, the first, are queries; omega : the share of d
    fusion : "squared", "euclidean" or "diffusion", what d is
    diffusion : (n_queries rows) the diffusion distance where it is not 1; for that fusion
    graph : d' on edges between rows; with it d' is the length of the shortest path, and d* is
        brought into [0, 1) by ``within_one``
    layout : where rows were before they were put into this order: results and ties go by their
        places there; None if rows are in the order in which they were given
    allowed : which gallery rows may be results; None for all
    listed_d : d to the rows in the lists of queries; None where it is computed when it is needed
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
    listed_d: Floats | None = None

    def rank(self, k: int, run: Runner) -> Ranking:
        """The first ``k`` gallery rows of every query, of those that are allowed."""
        blocks = self._few_queries(run)
        if self._are_many and self.listed_d is None:
            return self._with_listed_d(blocks).rank(k, run)
        depth = k if self.allowed is None else self.allowed.depth(k)
        columns = self._candidate_columns(depth, run)
        if self.allowed is None:
            return self.rank_every(k, columns, blocks)
        return self.allowed.rank(k, _AllowedRanking(self, columns, blocks))

    def rank_sharing(self, k: int, run: Runner) -> Ranking:
        """The first ``k`` of the rows that share a column of F' with a query, or are in its list.

        Where there are fewer, -1 and infinity follow. Which rows are allowed does not count.
        """
        indices, distances = self._few_queries(run).fill(
            "ranking",
            rank_sharing_rows,
            (self, self._candidate_columns(k, run)),
            self.n_queries,
            Out(np.int32, k),
            Out(np.float32, k),
        )
        return Ranking(self._in_given_order(indices, run), self._in_given_order(distances, run))

    def _few_queries(self, run: Runner) -> Runner:
        """The runner with as many queries at a time as keep candidates in the caches."""
        size = min(_QUERIES, -(-self.n_queries // (4 * run.n_workers)))
        return run.cut(run.block_size or size)

    def rank_every(self, k: int, columns: CandidateColumns | None, blocks: Runner) -> Ranking:
        """The first ``k`` gallery rows of every query, allowed or not.

        columns : F' by columns, of ``_candidate_columns``; blocks : computes blocks of queries
        """
        if k == 0:
            return empty_ranking(self.n_queries, 0)
        indices, distances = blocks.fill(
            "ranking",
            rank_queries,
            (self, columns),
            self.n_queries,
            Out(np.int32, k),
            Out(np.float32, k),
        )
        return Ranking(
            self._in_given_order(indices, blocks),
            self._mapped(self._in_given_order(distances, blocks)),
        )

    def rank_block(self, block: slice, columns: CandidateColumns | None, ranking: Ranking) -> None:
        """Rank the queries of a block; ``ranking``, in the order of the layout, is written."""
        complete = np.zeros(self.n_queries, np.bool_)
        candidates = None
        if ranking.k < self.n_answers and not self._breaks_ties_by_d:
            candidates = self._first_k(block, columns, ranking, complete)
        missing = block.start + np.flatnonzero(~complete[block]).astype(np.int32)
        if len(missing):
            if candidates is None and not self._has_full_columns:
                candidates = self._divergence_to_candidates(block, columns)
            self._rank_all(missing, block.start, candidates, ranking)

    def rank_sharing_block(
        self, block: slice, columns: CandidateColumns | None, ranking: Ranking
    ) -> None:
        """As ``rank_block``, of the candidates alone."""
        ranking.indices[block] = -1
        ranking.distances[block] = np.inf
        self._first_k(block, columns, ranking, np.zeros(self.n_queries, np.bool_))

    @property
    def first(self) -> int:
        """The first row that may be a result."""
        return first_answer(self.n_queries, self.allowed)

    @property
    def n_answers(self) -> int:
        """How many rows may be results."""
        return len(self.distances.neighbors) - self.first

    @cached_property
    def _layout(self) -> Layout:
        """``layout``, or the one that leaves every row where it is."""
        return self.layout or Layout.identity(len(self.distances.neighbors))

    @property
    def _breaks_ties_by_d(self) -> bool:
        """Whether d* is equal for rows that are far from the query, which d tells apart."""
        return self.omega == 0 or self.fusion == "diffusion"

    @cached_property
    def _least_background(self) -> Floats:
        """(n_queries,) the least d' of any row that shares nothing with the query."""
        return self.divergence.least_background(self.n_queries, self.first)

    @property
    def _are_many(self) -> bool:
        """Whether all rows are queries: what is made for each is a stage of its own then."""
        return self.n_queries == len(self.distances.neighbors)

    @cached_property
    def _listed_d(self) -> Floats:
        """(n_queries, K) d to the rows in the lists of the queries."""
        if self.listed_d is not None:
            return self.listed_d
        lists = self.distances.query_lists
        d = np.empty((self.n_queries, lists.k), np.float32)
        _listed_rows(0, self.n_queries, lists.distances, lists.farthest, self._takes_root, d)
        return d

    def _with_listed_d(self, run: Runner) -> Ranker:
        """The same with d to listed rows computed, which may be in files."""
        lists = self.distances.query_lists
        args = (lists.distances, lists.farthest, self._takes_root)
        out = Out(np.float32, lists.k)
        return replace(self, listed_d=run.fill("ranking", _listed_rows, args, self.n_queries, out))

    @property
    def _takes_root(self) -> bool:
        """Whether d is the root of a squared distance."""
        return self.fusion == "euclidean"

    def _candidate_columns(self, k: int, run: Runner) -> CandidateColumns | None:
        """F' by columns, for rankings of ``k``; None where d' is found without them."""
        if self.graph is not None or (k >= self.n_answers and self._has_full_columns):
            return None
        if self._has_bound(k):
            return self.divergence.columns_by_level(self.n_queries, run, self.first)
        return self.divergence.columns(self.n_queries, run, self.first)

    @cached_property
    def _has_full_columns(self) -> bool:
        """Whether whole rankings compare queries with all rows of F' instead of by columns."""
        if self.allowed is not None or self.graph is not None:
            return False
        return self.divergence.has_full_columns(self.n_queries, self.first)

    def _has_bound(self, k: int) -> bool:
        """Whether bounds on d' rule out most rows before it is computed."""
        if not isinstance(self.distances, VectorDistances):
            return False
        if self._breaks_ties_by_d or self.omega == 1 or not 0 < k < self.n_answers:
            return False
        return self.divergence.has_long_columns(self.n_queries, k, self.first)

    def _in_given_order(self, rows: Any, run: Runner) -> Any:
        """Results of all queries, (n_queries, k), in the order in which the queries were given."""
        position = self._layout.position[: self.n_queries]
        if self._are_many:
            out = Out(rows.dtype, rows.shape[1])
            return run.fill("ranking", _rows_at, (position, rows), len(rows), out)
        if rows.shape[1] < _WIDE or not rows.flags.writeable:  # files of a run stay as they are
            return rows[position]
        move_rows(rows, position)
        return rows

    def _first_k(
        self,
        block: slice,
        columns: CandidateColumns | None,
        ranking: Ranking,
        complete: npt.NDArray[np.bool_],
    ) -> SparseRows | None:
        """The first k of the candidates of each query of a block.

        columns : of ``_candidate_columns``
        ranking, complete : of all queries, written for those of the block: the first k, and whether
            no other row can be among them
        Returns d' to the candidates where it was stored, else None.
        """
        if not isinstance(self.distances, VectorDistances):
            return self._first_of_candidates(block, columns, ranking, complete)
        if self.graph is not None:
            paths.first_by_path(
                block.start,
                block.stop,
                self.graph.csr,
                UNREACHABLE,
                self._fusion(self.distances),
                self.first,
                ranking.indices,
                ranking.distances,
                complete,
            )
            return None
        if columns is None or self.divergence.measure.code is None:
            return self._first_of_candidates(block, columns, ranking, complete)
        if columns.levels is not None:
            bounded.first_bounded(
                block.start,
                block.stop,
                columns.levels,
                self.divergence.encodings(columns),
                self._fusion(self.distances),
                self._least_background,
                self.first,
                ranking.indices,
                ranking.distances,
                complete,
            )
            return None
        select.first_by_columns(
            block.start,
            block.stop,
            self.divergence.encodings(columns),
            self._fusion(self.distances),
            self._least_background,
            self.first,
            ranking.indices,
            ranking.distances,
            complete,
        )
        return None

    def _fusion(self, distances: VectorDistances) -> Fusion:
        """What kernels fuse d' with, computing distances where they are needed."""
        lists = distances.query_lists
        return Fusion(
            omega=np.float32(self.omega),
            root=self._takes_root,
            vectors=for_kernels(distances.vectors),
            order=self._layout.order,
            farthest=lists.farthest,
            lists=lists.indices,
            list_d=self._listed_d,
        )

    def _first_of_candidates(
        self,
        block: slice,
        columns: CandidateColumns | None,
        ranking: Ranking,
        complete: npt.NDArray[np.bool_],
    ) -> SparseRows | None:
        """As ``_first_k``, from d* to all candidates, which is stored."""
        candidates = self._divergence_to_candidates(block, columns)
        if candidates is None:
            return None
        queries = np.arange(block.start, block.stop, dtype=np.int32)
        d = self._root(
            self.distances.on_pattern(queries, candidates.indptr, candidates.indices, ALONE)
        )
        counts = np.zeros(len(complete), np.int64)
        first_candidates(
            block.start,
            block.stop,
            block.start,
            candidates.indptr,
            candidates.indices,
            self._fuse(candidates.values, d),
            self.first,
            np.float32(np.inf),
            self._layout.order,
            ranking.indices,
            ranking.distances,
            counts,
        )
        bounds = self._fuse(self._least_background, self._listed_d[:, -1])
        full = counts[block] == ranking.k
        complete[block] = full & (ranking.distances[block, -1] < bounds[block])
        return candidates

    def _divergence_to_candidates(
        self, block: slice, columns: CandidateColumns | None
    ) -> SparseRows | None:
        """d' of the queries of a block to their candidates; None where it is found otherwise."""
        if columns is None:
            return None
        lists = self.distances.query_lists.indices
        return self.divergence.to_candidates(
            self.n_queries, lists, ALONE, block, columns, self.first
        )

    def _rank_all(
        self, queries: Ints, block_start: int, candidates: SparseRows | None, ranking: Ranking
    ) -> None:
        """Rank queries by d* to the whole gallery, a few at a time.

        queries : row numbers; ranking : of all queries, written
        candidates : d' to the candidates of queries from ``block_start`` on, or None
        """
        size = max(1, _CELLS // self.n_answers)
        for low in range(0, len(queries), size):
            some_queries = queries[low : low + size]
            if isinstance(self.distances, VectorDistances) and not self._breaks_ties_by_d:
                rank_rows(
                    some_queries,
                    self.distances.squared(some_queries, self.first),
                    self.distances.neighbors.farthest[some_queries],
                    self._divergence_to_all(some_queries, block_start, candidates),
                    np.float32(self.omega),
                    self._takes_root,
                    self._layout.order[self.first :] - np.int32(self.first),
                    ranking.indices,
                    ranking.distances,
                )
            else:
                self._rank_dense(some_queries, block_start, candidates, ranking)

    def _rank_dense(
        self, queries: Ints, block_start: int, candidates: SparseRows | None, ranking: Ranking
    ) -> None:
        """As ``_rank_all`` in numpy: where there are no vectors, or d decides between equal d*."""
        scaled_squared = self.distances.to_all(queries, self.first, ALONE)
        d = (
            self._root(scaled_squared)
            if self.diffusion is None
            else self._diffusion_distance(queries)
        )
        fused = self._fuse(self._divergence_to_all(queries, block_start, candidates), d)
        position = self._layout.position[self.first :] - self.first
        for i, query in enumerate(queries):
            row = fused[i][position]
            order = self._order(row, scaled_squared[i][position], ranking.k)
            ranking.indices[query] = order
            ranking.distances[query] = row[order]

    def rank_allowed(
        self, queries: Longs, k: int, columns: CandidateColumns | None, blocks: Runner
    ) -> Ranking:
        """The first ``k`` of all allowed rows of some queries.

        queries : their places as they were given; columns : of ``_candidate_columns``; blocks :
            computes blocks of queries
        """
        ranking = empty_ranking(len(queries), k)
        output_row = np.full(self.n_queries, -1)
        output_row[self._layout.position[queries]] = np.arange(len(queries))

        def rank_block(low: int, high: int) -> None:
            rows = low + np.flatnonzero(output_row[low:high] >= 0).astype(np.int32)
            candidates = (
                self._divergence_to_candidates(slice(low, high), columns) if len(rows) else None
            )
            for row in rows:
                i = output_row[row]
                self._rank_allowed_of(
                    row, low, candidates, ranking.indices[i], ranking.distances[i]
                )

        blocks.map("ranking", rank_block, self.n_queries)
        return ranking

    def _rank_allowed_of(
        self,
        query: np.int32,
        block_start: int,
        candidates: SparseRows | None,
        indices: Ints,
        distances: Floats,
    ) -> None:
        """Rank the rows that are allowed for one query, a row of the layout.

        candidates : d' to the candidates of queries from ``block_start`` on, or None
        indices, distances : (k,) the output
        """
        assert self.allowed is not None
        allowed = self.allowed.allowed_rows(int(self._layout.order[query]))
        queries = np.array([query], np.int32)
        rows = self._layout.position[self.first :][allowed]
        scaled_squared = self.distances.on_pattern(queries, np.array([0, len(rows)]), rows, ALONE)
        columns = rows - self.first
        divergence = self._divergence_to_all(queries, block_start, candidates)[0, columns]
        if self.diffusion is None:
            d = self._root(scaled_squared)
        else:
            d = self._diffusion_distance(queries)[0, columns]
        fused = self._fuse(divergence, d)
        order = self._order(fused, scaled_squared, len(indices))
        indices[: len(order)] = allowed[order]
        distances[: len(order)] = self._mapped(fused[order])

    def _order(self, fused: Floats, scaled_squared: Floats, k: int) -> Longs:
        """Where the first ``k`` by d* are; equal ones by d if d* leaves it out.

        fused, scaled_squared : (rows,) d*, and the squared distance over the query's largest
        """
        if not self._breaks_ties_by_d:
            return ascending(fused, k)
        by_d = ascending(scaled_squared)
        order: Longs = by_d[ascending(fused[by_d], k)]
        return order

    def _divergence_to_all(
        self, queries: Ints, block_start: int, candidates: SparseRows | None
    ) -> Floats:
        """d' from each query to the whole gallery, (len(queries), n_answers).

        candidates : d' to the candidates of queries from ``block_start`` on; None with shortest
            paths, and where queries are compared with all rows
        """
        if candidates is None and self.graph is None:
            return self.divergence.to_all(queries, self.first)
        out = np.empty((len(queries), self.n_answers), np.float32)
        if candidates is None:
            assert self.graph is not None
            paths.path_rows(0, len(queries), queries, *self.graph.csr, UNREACHABLE, self.first, out)
            return out
        for i, query in enumerate(queries):
            out[i] = self.divergence.background(int(query), self.first)
            _put_row(candidates, query - block_start, self.first, out[i])
        return out

    def _diffusion_distance(self, queries: Ints) -> Floats:
        """The diffusion distance from each query to the whole gallery."""
        assert self.diffusion is not None
        out = np.ones((len(queries), self.n_answers), np.float32)
        for i, query in enumerate(queries):
            _put_row(self.diffusion, query, self.first, out[i])
        return out

    def _mapped(self, fused: Floats) -> Floats:
        """d* as results have it: with shortest paths x / (1 + x), in [0, 1)."""
        return fused if self.graph is None else within_one(fused)

    def _root(self, scaled_squared: Floats) -> Floats:
        """d from squared distances over the query's largest."""
        return np.sqrt(scaled_squared) if self._takes_root else scaled_squared

    def _fuse(self, divergence: Floats, distance: Floats) -> Floats:
        """d* = (1 - omega) d' + omega d from d' and d, arrays of one shape, float32."""
        return fuse(divergence, distance, self.omega)


@dataclass(frozen=True, eq=False)
class _AllowedRanking:
    """A ranking of allowed rows, as ``Filter.rank`` asks for it; see ``filters.FilteredSearch``."""

    ranker: Ranker
    columns: CandidateColumns | None
    blocks: Runner

    def rank_dropping(self, k: int, depth: int) -> tuple[Ranking, Longs]:
        """See ``FilteredSearch``."""
        allowed = self.ranker.allowed
        assert allowed is not None
        deep = self.ranker.rank_every(depth, self.columns, self.blocks)
        indices, distances = self.blocks.fill(
            "ranking",
            _drop_rows,
            (allowed, deep.indices, deep.distances),
            len(deep),
            Out(np.int32, k),
            Out(np.float32, k),
        )
        ranking = Ranking(indices, distances)
        return ranking, short_lists(ranking)

    def rank_allowed(self, queries: Longs, k: int) -> Ranking:
        """See ``FilteredSearch``."""
        return self.ranker.rank_allowed(queries, k, self.columns, self.blocks)


def _put_row(matrix: SparseRows, row: int, first: int, out: Floats) -> None:
    """Write the entries of a sparse row from column ``first`` on into a dense one, (n - first,)."""
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    in_gallery = matrix.indices[entries] >= first
    out[matrix.indices[entries][in_gallery] - first] = matrix.values[entries][in_gallery]


def rank_queries(
    low: int,
    high: int,
    ranker: Ranker,
    columns: CandidateColumns | None,
    indices: Ints,
    distances: Floats,
) -> None:
    """``Ranker.rank_block`` of queries [low, high): what a runner calls for each block."""
    ranker.rank_block(slice(low, high), columns, Ranking(indices, distances))


def rank_sharing_rows(
    low: int,
    high: int,
    ranker: Ranker,
    columns: CandidateColumns | None,
    indices: Ints,
    distances: Floats,
) -> None:
    """``Ranker.rank_sharing_block`` of queries [low, high)."""
    ranker.rank_sharing_block(slice(low, high), columns, Ranking(indices, distances))


def _listed_rows(
    low: int, high: int, squared: Floats, farthest: Floats, root: bool, out: Floats
) -> None:
    """d to the rows in the lists of rows [low, high).

    squared, farthest : of ``Neighbors``; root : whether d is the root of a squared distance
    """
    scale = np.maximum(farthest[low:high], np.finfo(np.float32).tiny)[:, None]
    d = (np.minimum(squared[low:high], scale) / scale).astype(np.float32, copy=False)
    out[low:high] = np.sqrt(d) if root else d


def _rows_at(low: int, high: int, position: Ints, rows: Any, out: Any) -> None:
    """Row i of the output is row position[i] of ``rows``, for i in [low, high)."""
    out[low:high] = rows[position[low:high]]


def _drop_rows(
    low: int,
    high: int,
    allowed: Filter,
    deep_indices: Ints,
    deep: Floats,
    indices: Ints,
    distances: Floats,
) -> None:
    """``Filter.drop_into`` of the rankings of queries [low, high)."""
    block = slice(low, high)
    allowed.drop_into(
        deep_indices[block], deep[block], np.arange(low, high), indices[block], distances[block]
    )
