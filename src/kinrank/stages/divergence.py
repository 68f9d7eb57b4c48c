"""The distance d' between the rows of F'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels import bounded
from kinrank.kernels import divergence as kernels
from kinrank.kernels.paths import shortest_first
from kinrank.kernels.rows import values_at
from kinrank.parallel import ALONE, Out, Runner
from kinrank.stages.clusters import nearest, regular
from kinrank.stages.sparse import columns, transposed
from kinrank.types import Floats, Ints, Longs, SparseRows

# x log2 x of the first rows; pointers, rows, values and x log2 x of the columns of the others.
Columns: TypeAlias = tuple[Floats, tuple[Longs, Ints, Floats, Floats]]
# Marks and rests of all rows, and where the levels of the columns begin.
Levels: TypeAlias = tuple[Ints, Floats, Longs]

_LONG = 8  # entries of a column for each result, from which on bounds cost less than they save

MEASURES = {
    "js": kernels.JS,
    "jaccard": kernels.JACCARD,
    "cosine": kernels.COSINE,
    "euclidean": kernels.EUCLIDEAN,
}


@dataclass(frozen=True, eq=False)
class Divergence:
    """Rows of F' and how they are compared. All measures but euclidean lie in [0, 1].

    rows : F', L1 norm 1; measure : a name of MEASURES, or "similarity" (1 - F'_ij / max_j F'_ij)
    """

    rows: SparseRows
    measure: str
    norms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, rows: SparseRows, measure: str, run: Runner = ALONE) -> Divergence:
        """Precompute what every pair needs."""
        args = (rows.indptr, rows.values)
        n = len(rows)
        norms = run.fill("divergence", kernels.norm_rows, args, n, Out(np.float64))
        return cls(rows, measure, norms)

    def columns(self, n_queries: int, run: Runner, first: int | None = None) -> Columns:
        """The rows from ``first`` on by columns, as far as the first ``n_queries`` rows use them.

        x log2 x of both come with them.
        """
        start = n_queries if first is None else first
        late = columns(self.rows, start, self._wanted(n_queries), run)
        own = self._entropies(self.rows, n_queries, run)
        f = self._entropies(late, len(late), run)
        return own, (*late.csr, f)

    def has_long_columns(self, n_queries: int, k: int, first: int) -> bool:
        """Whether comparing k rows in full costs far less than all that share a column do."""
        if self.measure != "js":
            return False
        rows = self.rows
        own = rows.indices[: rows.indptr[n_queries]]
        lengths = np.bincount(rows.indices[rows.indptr[first] :], minlength=rows.n_columns)
        return bool(lengths[own].sum() > _LONG * k * len(own))

    def levels(self, n_queries: int, run: Runner, first: int) -> tuple[Levels, Columns]:
        """As ``columns`` for Jensen-Shannon, the entries of a column in levels; see ``bounded``."""
        n = self.rows.n_columns
        rows = self.rows
        args = (rows.indptr, rows.indices, rows.values.view(np.int32), rows.values)
        marks, rests = run.fill(
            "divergence",
            bounded.level_rows,
            args,
            len(rows),
            Out(np.int32, indptr=rows.indptr),
            Out(np.float32, bounded.LEVELS - 1),
        )
        by_level = SparseRows(rows.indptr, marks, rows.data, bounded.LEVELS * n)
        wanted = np.repeat(self._wanted(n_queries), bounded.LEVELS)
        late = columns(by_level, first, wanted, run)
        own = self._entropies(rows, n_queries, run)
        f = self._entropies(late, len(late), run)
        starts = np.ascontiguousarray(late.indptr[:: bounded.LEVELS])
        return (marks, rests, late.indptr), (own, (starts, late.indices, late.values, f))

    def _wanted(self, n_queries: int) -> npt.NDArray[np.bool_]:
        """The columns that the first ``n_queries`` rows have."""
        wanted = np.zeros(self.rows.n_columns, np.bool_)
        wanted[self.rows.indices[: self.rows.indptr[n_queries]]] = True
        return wanted

    def _entropies(self, rows: SparseRows, count: int, run: Runner) -> Floats:
        """x log2 x of the first ``count`` rows; what the measure does not ask for is not made."""
        if self.measure != "js":
            return rows.values
        args = (rows.indptr, rows.values)
        out = Out(np.float32, indptr=rows.indptr)
        found: Floats = run.fill("divergence", kernels.entropy_rows, args, count, out)
        return found

    def near(
        self,
        n_queries: int,
        lists: Ints,
        run: Runner,
        part: slice | None = None,
        columns: Columns | None = None,
        first: int | None = None,
    ) -> SparseRows:
        """d' of the first ``n_queries`` rows to all from ``first`` on they share a column with.

        first : None is ``n_queries``
        Those of ``lists``, (n, K), are answered for even if they share nothing.
        part : only these of the first rows; columns : of ``columns``, when asked more than once
        """
        part = part or slice(0, n_queries)
        n = len(self.rows)
        first = n_queries if first is None else first
        if self.measure == "similarity":
            return self._similarity(part, first, lists)
        sums = self.sums(columns or self.columns(n_queries, run, first))
        args = (part.start, *sums, lists, first)
        return run.rows("divergence", _divergence_rows, args, part.stop - part.start, n)

    def sums(self, columns: Columns) -> tuple[Any, ...]:
        """What kernels compute d' from, as a sum over shared columns; not for "similarity"."""
        return (MEASURES[self.measure], self.rows.csr, *columns, self.norms)

    def background(self, row: int, first: int) -> Floats | float:
        """d' of ``row`` to the rows from ``first`` on, as if it shared no column with them."""
        if self.measure != "euclidean":
            return 1.0
        distance: Floats = np.sqrt(self.norms[row] + self.norms[first:]).astype(np.float32)
        return distance

    def least_background(self, n_queries: int, first: int) -> Floats:
        """The least ``background`` of the first ``n_queries`` rows to those from ``first`` on."""
        if self.measure != "euclidean":  # the same for all rows
            return np.full(n_queries, self.background(0, first), np.float32)
        least: Floats = np.sqrt(self.norms[:n_queries] + self.norms[first:].min())
        return least.astype(np.float32)

    def graph(self, lists: Ints, k: int, run: Runner) -> SparseRows:
        """d' on the pairs of which one is among the k nearest of the other.

        Symmetric; the shortest edges of a row first.
        """
        if self.measure == "similarity":
            return self._similar_pairs(lists, k, run)
        return self.pairs(regular(lists[:, :k], None, len(lists)), run)

    def pairs(self, near: SparseRows, run: Runner) -> SparseRows:
        """As ``graph``, on the pairs of a pattern."""
        rows = self.rows
        n = len(near)
        back = transposed(near, run)
        near = transposed(back, run)  # ascending
        f = self._entropies(rows, len(rows), run)
        args = (
            MEASURES[self.measure],
            rows.csr,
            f,
            self.norms,
            near.indptr,
            near.indices,
            back.indptr,
            back.indices,
        )
        half = run.rows("geodesic", kernels.divergence_pairs, args, n, n)
        return shortest_edges(half, transposed(half, run), run)

    def _similarity(self, part: slice, first: int, lists: Ints) -> SparseRows:
        rows = self.rows
        ids = []
        values = []
        for row in range(part.start, part.stop):
            own = slice(rows.indptr[row], rows.indptr[row + 1])
            known = rows.indices[own]
            weight = rows.values[own]
            top = weight.max() if len(weight) and weight.max() > 0 else 1
            further = np.setdiff1d(lists[row], known)
            here = np.concatenate([known, further])
            late = here >= first
            ids.append(here[late])
            values.append(np.concatenate([1 - weight / top, np.ones(len(further))])[late])
        ptr = np.zeros(len(ids) + 1, np.int64)
        np.cumsum([len(found) for found in ids], out=ptr[1:])
        data = np.concatenate(values).astype(np.float32)
        return SparseRows(ptr, np.concatenate(ids).astype(np.int32), data, rows.n_columns)

    def _similar_pairs(self, lists: Ints, k: int, run: Runner) -> SparseRows:
        """The smaller of d'(i, j) and d'(j, i), each only where its list holds the pair."""
        rows = self.rows
        n = len(rows)
        pattern = nearest(lists, k, run)
        largest = np.zeros(n, np.float32)
        np.maximum.at(largest, rows.owners, rows.values)
        args = (pattern.indptr, pattern.indices, rows.indptr, rows.indices, rows.values)
        out = run.fill("geodesic", values_at, args, n, Out(np.float32, indptr=pattern.indptr))
        owner = pattern.owners
        other = pattern.indices
        near = (1 + out / np.where(largest > 0, largest, 1)[owner]).astype(np.float32)
        d = np.tile(np.maximum(2 - near, 0), 2)
        edges = SparseRows.of_entries(
            np.concatenate([owner, other]), np.concatenate([other, owner]), d, n
        )
        none = SparseRows(np.zeros(n + 1, np.int64), edges.indices[:0], None, n)
        return shortest_edges(edges, none, run)


def shortest_edges(edges: SparseRows, more: SparseRows, run: Runner) -> SparseRows:
    """The edges of two graphs together, the shortest of a row first."""
    indptr = edges.indptr + more.indptr
    outs = (Out(np.int32, indptr=indptr), Out(np.float32, indptr=indptr))
    args = (*edges.csr, *more.csr)
    ids, data = run.fill("geodesic", shortest_first, args, len(edges), *outs)
    return SparseRows(indptr, ids, data, edges.n_columns)


def _divergence_rows(low: int, high: int, start: int, *args: Any) -> Any:
    return kernels.divergence_rows(start + low, start + high, *args)
