"""Lists of neighbours and sparse rows after a change: what it leaves alone is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.index.state import EncodingColumns
from kinrank.kernels import change as kernels
from kinrank.kernels.divergence import row_norms
from kinrank.kernels.measures import entropies
from kinrank.kernels.records import Columns
from kinrank.kernels.scan import farthest_of
from kinrank.parallel import Out, Runner
from kinrank.search.exact import exact_search
from kinrank.search.tiles import SLACK
from kinrank.stages.layout import Layout
from kinrank.stages.sparse import take, transposed
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows

_TILE = 1 << 24  # entries of a block of products

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Change:
    """Rows that go and rows that come.

    kept : (n,) which of the old rows stay
    order : (n_new,) the index of each row afterwards
    vectors : of all rows afterwards, those that stay first
    """

    kept: Mask
    order: Ints
    vectors: Floats

    @cached_property
    def position(self) -> Ints:
        """(n_new,) the row of each index."""
        return Layout.of(self.order).position

    @cached_property
    def n_kept(self) -> int:
        """How many rows stay; they keep their order."""
        return int(self.kept.sum())

    @cached_property
    def moved(self) -> Ints:
        """(n,) the new number of each old row; -1 if it goes."""
        return np.where(self.kept, np.cumsum(self.kept) - 1, -1).astype(np.int32)

    @cached_property
    def origin(self) -> Ints:
        """(n_new,) which row each was; -1 for a new one."""
        origin = np.full(len(self.order), -1, np.int32)
        origin[: self.n_kept] = np.flatnonzero(self.kept)
        return origin

    @cached_property
    def gone(self) -> Ints:
        """The old rows that go, ascending."""
        return np.flatnonzero(~self.kept).astype(np.int32)

    def renumbered(self, lists: Ints) -> Ints:
        """Lists of old rows under the new numbers; -1 for those that go, or where there is none."""
        return np.where(lists >= 0, self.moved[lists], np.int32(-1))


def changed_neighbors(old: Neighbors, vectors: Floats, change: Change, run: Runner) -> Neighbors:
    """The lists of all rows after a change; exact. vectors : of the old rows."""
    lists, broken = _without(old, vectors, change, run)
    first = change.n_kept
    n = len(change.order)
    if n > first:
        lists = _admit(lists, change, run)
    rows = np.concatenate([np.flatnonzero(broken), np.arange(first, n)]).astype(np.int32)
    if len(rows):
        lists.indices[rows], lists.distances[rows] = _search(change, rows, lists.k, run)
    return lists


def _without(
    old: Neighbors, vectors: Floats, change: Change, run: Runner
) -> tuple[Neighbors, Mask]:
    """The lists without the rows that go, and which of them are broken, to be searched again."""
    kept = change.kept
    gone = change.gone
    lists = change.renumbered(old.indices[kept])
    left = Neighbors(lists, old.distances[kept].copy(), old.farthest[kept].copy())
    broken: Mask = np.any(lists < 0, axis=1)
    if len(gone) == 0:
        return left, broken
    lost = np.zeros(len(old), np.bool_)
    norms, slack = _norms(vectors)
    _by_products(
        lambda low, high, start, products: kernels.lose_farthest(
            low, high, start, products, norms, gone, slack, old.farthest, lost
        ),
        vectors,
        vectors[gone],
        len(old),
        run,
    )
    rows = np.flatnonzero(lost[kept])
    left.farthest[rows] = _farthest(change.vectors[rows], change.vectors, run)
    return left, broken


def _admit(lists: Neighbors, change: Change, run: Runner) -> Neighbors:
    """New rows enter the lists of those that stay; room for their own is made."""
    first = change.n_kept
    n = len(change.order)
    vectors = change.vectors
    new = vectors[first:]
    ids = np.empty((n, lists.k), np.int32)
    d = np.empty((n, lists.k), np.float32)
    ids[:first] = lists.indices
    d[:first] = lists.distances
    farthest = np.concatenate([lists.farthest, np.zeros(n - first, np.float32)])
    blocks = _by_products(
        lambda low, high, start, products: kernels.admit_rows(
            low,
            high,
            start,
            first,
            products,
            vectors,
            *_norms(vectors),
            change.order,
            ids,
            d,
            farthest,
        ),
        vectors,
        new,
        first,
        run,
    )
    if blocks:  # unless no row stays
        tops, whose = (np.stack(arrays) for arrays in zip(*blocks, strict=True))
        difference = new - vectors[whose[tops.argmax(axis=0), np.arange(n - first)]]
        farthest[first:] = np.einsum("ij,ij->i", difference, difference)
    farthest[first:] = np.maximum(farthest[first:], _farthest(new, new, run))
    return Neighbors(ids, d, farthest)


def _norms(vectors: Floats) -> tuple[Floats, np.float32]:
    """Squared norms, and how far a product may be off, over these."""
    slack = np.float32(SLACK * math.sqrt(vectors.shape[1]))
    return np.einsum("ij,ij->i", vectors, vectors), slack


def _farthest(queries: Floats, vectors: Floats, run: Runner) -> Floats:
    top = np.empty(len(queries), np.float32)
    run.map("farthest", lambda a, b: farthest_of(a, b, queries, vectors, top), len(queries))
    return top


def _by_products(
    visit: Callable[[int, int, int, Floats], Any], rows: Floats, others: Floats, n: int, run: Runner
) -> list[Any]:
    """Call ``visit(low, high, start, products)`` for blocks of the first ``n`` rows.

    products : of rows from ``start`` on with the others
    """
    size = max(1, min(n, _TILE // max(1, len(others))))
    tile = np.empty((size, len(others)), np.float32)
    out = []
    for start in range(0, n, size):
        products = tile[: min(size, n - start)]
        np.dot(rows[start : start + len(products)], others.T, out=products)

        def block(low: int, high: int, start: int = start, products: Floats = products) -> Any:
            return visit(start + low, start + high, start, products)

        each = Runner(run.threads, -(-len(products) // run.threads))
        out += each.map("neighbours", block, len(products))
    return out


def _search(change: Change, rows: Ints, k: int, run: Runner) -> tuple[Ints, Floats]:
    """The lists of some rows, searched: the row itself first, ties by name."""
    others = exact_search(
        change.vectors[rows],
        change.vectors,
        k - 1,
        run,
        own=change.order[rows],
        numbers=change.order,
    )
    own_distances = np.zeros((len(rows), 1), np.float32)
    return (
        np.concatenate([rows[:, None], change.position[others.indices]], axis=1),
        np.concatenate([own_distances, others.distances], axis=1),
    )


def put(a: SparseRows, at: Ints, rows: SparseRows) -> SparseRows:
    """A with its rows ``at``, ascending, exchanged for others."""
    ptr, ids, data = kernels.put_rows(*a.csr, at, *rows.csr)
    return SparseRows(ptr, ids, None if a.data is None else data, a.n_columns)


def moved_rows(a: SparseRows, change: Change) -> tuple[SparseRows, Mask]:
    """The rows under their new numbers, new ones empty; and which lost an entry."""
    n = len(change.order)
    kept = change.n_kept
    if kept == len(a):  # none goes: new rows come behind
        ptr = np.concatenate([a.indptr, np.full(n - kept, a.indptr[-1])])
        return SparseRows(ptr, a.indices, a.data, n), np.zeros(n, np.bool_)
    lengths, ids, data, lost = kernels.moved_rows(*a.csr, change.moved, change.origin)
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return SparseRows(ptr, ids, None if a.data is None else data, n), lost


def differs(a: SparseRows, b: SparseRows, limit: float) -> Mask:
    """Which rows differ by more than ``limit`` in some entry."""
    other: Mask = kernels.differing_rows(*a.csr, *b.csr, a.n_columns, np.float32(limit))
    return other


def reached(mask: Mask, rows: SparseRows | npt.NDArray[Any]) -> Mask:
    """Which rows hold a column that is marked; rows : sparse, or (n, k) column numbers."""
    if not isinstance(rows, SparseRows):
        return np.asarray(mask[rows].any(axis=1))
    holds: Mask = kernels.reached_rows(mask, rows.indptr, rows.indices)
    return holds


def lost_rows(columns: SparseRows, change: Change) -> Mask:
    """Which rows after a change had an entry in a column that goes; columns : by columns."""
    rows = change.moved[take(columns, change.gone).indices]
    out = np.zeros(len(change.order), np.bool_)
    out[rows[rows >= 0]] = True
    return out


def exchanged(
    old: EncodingColumns, change: Change, at: Ints, rows: SparseRows, run: Runner
) -> EncodingColumns:
    """F' after a change that gives the rows ``at``, ascending, all ``lost_rows`` among them, other
    entries.
    """
    n = len(change.order)
    marked = np.zeros(len(change.order), np.bool_)
    marked[at] = True
    new = transposed(rows, run)
    new = SparseRows(new.indptr, at[new.indices], new.data, n)
    numbers = (change.moved, change.origin, marked)
    ptr: Longs = kernels.column_lengths(*old.columns.csr[:2], *numbers, new.indptr)
    outs = (Out(np.int32, indptr=ptr), *(Out(np.float32, indptr=ptr) for _ in range(2)))
    before = Columns(*old.columns.csr, old.entropies)
    after = Columns(*new.csr, entropies(new.values))
    args = (before, *numbers, after, ptr)
    ids, data, logs = run.fill("propagation", kernels.exchange_rows, args, n, *outs)
    norms = np.zeros(n)
    norms[: change.n_kept] = old.norms[change.kept]
    norms[at] = row_norms(rows.indptr, rows.values)
    return EncodingColumns(SparseRows(ptr, ids, data, n), logs, norms)
