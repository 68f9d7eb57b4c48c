"""The divergence d' between the rows of F', by any measure of ``kernels.measures``.

F' is the encoding of a row: sparse, not negative, of sum 1. Most measures are sums over the columns
that two rows share, so the rows that share one with a query are found by F' stored by columns.
Queries are the first rows, ``n_queries`` of n; the rows from ``first`` on may be results. ``run``
computes blocks of rows on threads, or in files (``kinrank.parallel.Runner``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.kernels import bounded
from kinrank.kernels import divergence as kernels
from kinrank.kernels.measures import MEASURES, Measure
from kinrank.kernels.paths import shortest_first
from kinrank.kernels.records import Columns, Encodings, Levels
from kinrank.kernels.rows import column_starts, values_at
from kinrank.parallel import ALONE, Out, Runner
from kinrank.stages.clusters import nearest, regular
from kinrank.stages.sparse import columns_as_rows, transposed
from kinrank.types import Floats, Ints, Longs, SparseRows

# Part of the entries of a gallery that a query's columns hold, from which on it costs less to go
# through all rows than through these columns.
_DENSE = 0.1
_MANY = 10**8  # entries, from which on to compile a kernel for it costs less than it saves
_LONG = 8  # entries of a column for each result, from which on bounds cost less than they save


class CandidateColumns(NamedTuple):
    """The rows that may be results, as queries are compared with them.

    query_entropies : x log2 x of the entries of the queries
    columns : F' by columns, of the rows that may be results
    levels : where the entries of columns are in levels, heavy ones first (``kernels.bounded``): the
        levels of all rows; else None
    """

    query_entropies: Floats
    columns: Columns
    levels: Levels | None


@dataclass(frozen=True, eq=False)
class Divergence:
    """Rows of F' and the measure that compares them.

    rows : F', L1 norm 1; measure_name : a name of ``kernels.measures.MEASURES``
    norms : (n,) float64, squared Euclidean norms of the rows
    """

    rows: SparseRows
    measure_name: str
    norms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, rows: SparseRows, measure_name: str, run: Runner = ALONE) -> Divergence:
        """Precompute what every pair needs."""
        args = (rows.indptr, rows.values)
        norms = run.fill("divergence", kernels.norm_rows, args, len(rows), Out(np.float64))
        return cls(rows, measure_name, norms)

    @property
    def measure(self) -> Measure:
        """What the measure sums and how, ``kernels.measures.Measure``."""
        return MEASURES[self.measure_name]

    def columns(self, n_queries: int, run: Runner, first: int | None = None) -> CandidateColumns:
        """The rows from ``first`` on by columns, as far as the first ``n_queries`` rows use them.

        first : None stands for ``n_queries``
        """
        start = n_queries if first is None else first
        by_column = columns_as_rows(self.rows, start, self._wanted(n_queries), run)
        return CandidateColumns(
            query_entropies=self._entropies(self.rows, n_queries, run),
            columns=Columns(
                ptr=by_column.indptr,
                rows=by_column.indices,
                values=by_column.values,
                entropies=self._entropies(by_column, len(by_column), run),
            ),
            levels=None,
        )

    def has_long_columns(self, n_queries: int, k: int, first: int) -> bool:
        """Whether it is far cheaper to compare k rows in full than all that share a column.

        Bounds that rule out rows are worth their cost then (``kernels.bounded``).
        """
        if not self.measure.has_bound:
            return False
        compared = self._column_entries(n_queries, first)
        return compared > _LONG * k * int(self.rows.indptr[n_queries])

    def has_full_columns(self, n_queries: int, first: int) -> bool:
        """Whether it is cheaper to compare queries with all rows than by columns: ``to_all``."""
        if not self.measure.has_bound:
            return False
        entries = int(self.rows.indptr[-1] - self.rows.indptr[first])
        return self._column_entries(n_queries, first) > max(_DENSE * n_queries * entries, _MANY)

    def _column_entries(self, n_queries: int, first: int) -> int:
        """How many entries the columns of the queries have in rows from ``first`` on, in all."""
        rows = self.rows
        every = np.ones(rows.n_columns, np.bool_)
        lengths = np.diff(column_starts(first, rows.indptr, rows.indices, every))
        return int((lengths * self._of_queries(n_queries)).sum())

    def columns_by_level(self, n_queries: int, run: Runner, first: int) -> CandidateColumns:
        """As ``columns``, the heavy entries of a column first; see ``kernels.bounded``."""
        rows = self.rows
        marks, rests = run.fill(
            "divergence",
            bounded.level_rows,
            (rows.indptr, rows.indices, rows.values.view(np.int32), rows.values),
            len(rows),
            Out(np.int32, indptr=rows.indptr),
            Out(np.float32, bounded.LEVELS - 1),
        )
        by_level = SparseRows(rows.indptr, marks, rows.data, bounded.LEVELS * rows.n_columns)
        wanted = np.repeat(self._wanted(n_queries), bounded.LEVELS)
        by_column = columns_as_rows(by_level, first, wanted, run)
        return CandidateColumns(
            query_entropies=self._entropies(rows, n_queries, run),
            columns=Columns(
                ptr=np.ascontiguousarray(by_column.indptr[:: bounded.LEVELS]),
                rows=by_column.indices,
                values=by_column.values,
                entropies=self._entropies(by_column, len(by_column), run),
            ),
            levels=Levels(marks=marks, rests=rests, starts=by_column.indptr),
        )

    def _wanted(self, n_queries: int) -> npt.NDArray[np.bool_]:
        """The columns that the first ``n_queries`` rows have."""
        return self._of_queries(n_queries) > 0

    def _of_queries(self, n_queries: int) -> Longs:
        """(n_columns,) how many of the first ``n_queries`` rows have each column."""
        rows = self.rows
        every = np.ones(rows.n_columns, np.bool_)
        indptr = rows.indptr[: n_queries + 1]
        counts: Longs = np.diff(column_starts(0, indptr, rows.indices, every))
        return counts

    def _entropies(self, rows: SparseRows, count: int, run: Runner) -> Floats:
        """x log2 x of the entries of the first ``count`` rows, one value each.

        Where the measure does not use them, the values of all rows stand in, which kernels take and
        do not read.
        """
        if not self.measure.uses_entropies:
            return rows.values
        args = (rows.indptr, rows.values)
        out = Out(np.float32, indptr=rows.indptr)
        entropies: Floats = run.fill("divergence", kernels.entropy_rows, args, count, out)
        return entropies

    def to_candidates(
        self,
        n_queries: int,
        lists: Ints,
        run: Runner,
        block: slice | None = None,
        columns: CandidateColumns | None = None,
        first: int | None = None,
    ) -> SparseRows:
        """d' of queries to their candidates.

        These are the rows from ``first`` on that share a column with the query (for "similarity":
        whose column the query's row of F' holds), or that are in its list.

        n_queries : how many queries there are; block : only these of them, None for all
        lists : (n_queries or more, K) int32, row q has further rows to compare query q with; rows
            below ``first``, and -1, are skipped
        columns : of ``columns`` or ``columns_by_level``, where this is called more than once
        first : None stands for ``n_queries``
        Returns a row for each query of the block. Its columns, the candidates, are not ascending.
        """
        block = block or slice(0, n_queries)
        n = len(self.rows)
        first = n_queries if first is None else first
        if self.measure.code is None:
            return self._similarity(block, first, lists)
        columns = columns or self.columns(n_queries, run, first)
        args = (block.start, self.encodings(columns), lists, first)
        return run.rows("divergence", _divergence_rows, args, block.stop - block.start, n)

    def to_all(self, queries: Ints, first: int) -> Floats:
        """d' of ``queries`` to all rows from ``first`` on; where ``has_full_columns``."""
        rows = self.rows
        out = np.empty((len(queries), len(rows) - first), np.float32)
        kernels.divergence_to_all(queries, rows.indptr, rows.indices, rows.values, first, out)
        return out

    def encodings(self, columns: CandidateColumns) -> Encodings:
        """What kernels compute d' from, as a sum over shared columns; not for "similarity"."""
        assert self.measure.code is not None
        return Encodings(
            measure=self.measure.code,
            ptr=self.rows.indptr,
            ids=self.rows.indices,
            values=self.rows.values,
            entropies=columns.query_entropies,
            columns=columns.columns,
            norms=self.norms,
        )

    def background(self, row: int, first: int) -> Floats | float:
        """d' of ``row`` to the rows from ``first`` on, as if it shared no column with them.

        A number where it is the same for all, else (n - first,) float32.
        """
        if self.measure.in_unit_interval:
            return 1.0
        distance: Floats = np.sqrt(self.norms[row] + self.norms[first:]).astype(np.float32)
        return distance

    def least_background(self, n_queries: int, first: int) -> Floats:
        """The least ``background`` of each of the first ``n_queries`` rows; float32."""
        if self.measure.in_unit_interval:
            return np.ones(n_queries, np.float32)
        least: Floats = np.sqrt(self.norms[:n_queries] + self.norms[first:].min())
        return least.astype(np.float32)

    def graph(self, lists: Ints, k: int, run: Runner) -> SparseRows:
        """d' on the pairs of which one is among the k nearest of the other.

        These are the edges of shortest paths. Symmetric; the shortest edges of a row first.
        lists : (n, K) int32, the nearest rows of each
        """
        if self.measure.code is None:
            return self._similar_pairs(lists, k, run)
        return self.pairs(regular(lists[:, :k], None, len(lists)), run)

    def pairs(self, pattern: SparseRows, run: Runner) -> SparseRows:
        """As ``graph``, on the pairs (i, j) of a pattern, taken both ways."""
        rows = self.rows
        n = len(pattern)
        back = transposed(pattern, run)
        pattern = transposed(back, run)  # ascending
        args = (
            self.measure.code,
            rows.indptr,
            rows.indices,
            rows.values,
            self._entropies(rows, len(rows), run),
            self.norms,
            pattern.indptr,
            pattern.indices,
            back.indptr,
            back.indices,
        )
        half = run.rows("geodesic", kernels.divergence_pairs, args, n, n)
        return edges_of_both(half, transposed(half, run), run)

    def _similarity(self, block: slice, first: int, lists: Ints) -> SparseRows:
        """1 - F'_ij / max_j F'_ij of the rows ``block`` to their candidates.

        first, lists : as in ``to_candidates``
        """
        rows = self.rows
        ids = []
        values = []
        for row in range(block.start, block.stop):
            entries = slice(rows.indptr[row], rows.indptr[row + 1])
            row_ids = rows.indices[entries]
            weight = rows.values[entries]
            largest = weight.max() if len(weight) and weight.max() > 0 else 1
            further = np.setdiff1d(lists[row], row_ids)
            others = np.concatenate([row_ids, further])
            distances = np.concatenate([1 - weight / largest, np.ones(len(further))])
            is_candidate = others >= first
            ids.append(others[is_candidate])
            values.append(distances[is_candidate])
        ptr = np.zeros(len(ids) + 1, np.int64)
        np.cumsum([len(row_ids) for row_ids in ids], out=ptr[1:])
        data = np.concatenate(values).astype(np.float32)
        return SparseRows(ptr, np.concatenate(ids).astype(np.int32), data, rows.n_columns)

    def _similar_pairs(self, lists: Ints, k: int, run: Runner) -> SparseRows:
        """As ``graph`` for "similarity": d'(i, j) both ways where i lists j.

        Where both list each other there are two edges, of which paths take the shorter.
        """
        rows = self.rows
        n = len(rows)
        pattern = nearest(lists, k, run)
        largest = np.zeros(n, np.float32)
        np.maximum.at(largest, rows.owners, rows.values)
        args = (pattern.indptr, pattern.indices, rows.indptr, rows.indices, rows.values)
        f_prime = run.fill("geodesic", values_at, args, n, Out(np.float32, indptr=pattern.indptr))
        owner = pattern.owners
        other = pattern.indices
        scale = np.where(largest > 0, largest, 1)[owner]
        one_plus_similarity = (1 + f_prime / scale).astype(np.float32)
        d = np.tile(np.maximum(2 - one_plus_similarity, 0), 2)
        edges = SparseRows.of_entries(
            np.concatenate([owner, other]), np.concatenate([other, owner]), d, n
        )
        none = SparseRows(np.zeros(n + 1, np.int64), edges.indices[:0], None, n)
        return edges_of_both(edges, none, run)


def edges_of_both(edges: SparseRows, more: SparseRows, run: Runner) -> SparseRows:
    """All edges of two graphs, those of a row ascending by (d', id); one in both stays twice."""
    indptr = edges.indptr + more.indptr
    ids, data = run.fill(
        "geodesic",
        shortest_first,
        (*edges.csr, *more.csr),
        len(edges),
        Out(np.int32, indptr=indptr),
        Out(np.float32, indptr=indptr),
    )
    return SparseRows(indptr, ids, data, edges.n_columns)


def _divergence_rows(
    low: int, high: int, start: int, encodings: Encodings, lists: Ints, first: int
) -> Any:
    """``kernels.divergence_rows`` of a block, whose rows are counted from ``start``."""
    return kernels.divergence_rows(start + low, start + high, encodings, lists, first)
