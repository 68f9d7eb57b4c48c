"""Neighbour lists of a gallery that changes: only those that must be are searched again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.kernels.change import admit_rows, left_behind
from kinrank.kernels.scan import farthest_of
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.search.tiles import SLACK
from kinrank.types import Floats, Ints, Neighbors

_SPARE = 16  # rows beyond k, among which ties are settled by name
_TILE = 1 << 24  # entries of a block of products

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Change:
    """Rows that go and rows that come.

    kept : (n,) which of the old rows stay; names : (n_new,) of all rows afterwards
    vectors : of all rows afterwards, those that stay first
    """

    kept: Mask
    names: Ints
    vectors: Floats

    @cached_property
    def n_kept(self) -> int:
        """How many rows stay; they keep their order."""
        return int(self.kept.sum())

    @cached_property
    def moved(self) -> Ints:
        """(n,) the new number of each old row; -1 if it goes."""
        return np.where(self.kept, np.cumsum(self.kept) - 1, -1).astype(np.int32)

    def renumbered(self, lists: Ints) -> Ints:
        """Lists of old rows under the new numbers; -1 for those that go, or where there is none."""
        return np.where(lists >= 0, self.moved[lists], np.int32(-1))


def changed_neighbors(old: Neighbors, vectors: Floats, change: Change, run: Runner) -> Neighbors:
    """The lists of all rows after a change; exact. vectors : of the old rows."""
    known, broken = _without(old, vectors, change, run)
    m = len(change.names) - change.n_kept
    if m:
        known = _admit(known, change, run)
    rows = np.concatenate([np.flatnonzero(broken), np.arange(change.n_kept, change.n_kept + m)])
    rows = rows.astype(np.int32)
    if len(rows):
        found = _search(change, rows, known.k, run)
        known.indices[rows], known.distances[rows] = found
    return known


def _without(
    old: Neighbors, vectors: Floats, change: Change, run: Runner
) -> tuple[Neighbors, Mask]:
    """The lists without the rows that go, and which of them are broken, to be searched again."""
    kept = change.kept
    lists = change.renumbered(old.indices[kept])
    known = Neighbors(lists, old.distances[kept].copy(), old.farthest[kept].copy())
    gone = np.flatnonzero(~kept).astype(np.int32)
    broken: Mask = np.any(lists < 0, axis=1)
    if len(gone) == 0:
        return known, broken
    lost = np.zeros(len(old), np.bool_)
    norms = np.einsum("ij,ij->i", vectors, vectors)
    slack = np.float32(SLACK * math.sqrt(vectors.shape[1]))

    def some(low: int, high: int, start: int, products: Floats) -> None:
        args = (norms, gone, slack, old.farthest, lost)
        left_behind(low, high, start, products, *args)

    _by_products(vectors, vectors[gone], len(old), some, run)
    rows = np.flatnonzero(lost[kept])
    top = np.empty(len(rows), np.float32)
    queries = change.vectors[rows]
    run.map("farthest", lambda a, b: farthest_of(a, b, queries, change.vectors, top), len(rows))
    known.farthest[rows] = top
    return known, broken


def _admit(known: Neighbors, change: Change, run: Runner) -> Neighbors:
    """New rows enter the lists of those that stay; room for their own is made."""
    first, n, vectors = change.n_kept, len(change.names), change.vectors
    m = n - first
    lists, list_d = np.empty((n, known.k), np.int32), np.empty((n, known.k), np.float32)
    lists[:first], list_d[:first] = known.indices, known.distances
    farthest = np.concatenate([known.farthest, np.zeros(m, np.float32)])
    norms = np.einsum("ij,ij->i", vectors, vectors)
    slack = np.float32(SLACK * math.sqrt(vectors.shape[1]))

    def some(low: int, high: int, start: int, products: Floats) -> tuple[Floats, Ints]:
        args = (vectors, norms, slack, change.names, lists, list_d, farthest)
        found: tuple[Floats, Ints] = admit_rows(low, high, start, first, products, *args)
        return found

    parts = _by_products(vectors, vectors[first:], first, some, run)
    if parts:  # unless no row stays
        tops = np.stack([part[0] for part in parts])
        best = tops.argmax(axis=0)
        whose = np.stack([part[1] for part in parts])[best, np.arange(m)]
        difference = vectors[first:] - vectors[whose]
        farthest[first:] = np.einsum("ij,ij->i", difference, difference)
    among = vectors[first:]
    top = np.empty(m, np.float32)
    run.map("farthest", lambda a, b: farthest_of(a, b, among, among, top), m)
    farthest[first:] = np.maximum(farthest[first:], top)
    return Neighbors(lists, list_d, farthest)


def _by_products(
    rows: Floats, others: Floats, n: int, some: Callable[[int, int, int, Floats], Any], run: Runner
) -> list[Any]:
    """Call ``some(low, high, start, products)`` for blocks of the first ``n`` rows.

    products : of rows from ``start`` on with the others
    """
    size = max(1, min(n, _TILE // max(1, len(others))))
    tile = np.empty((size, len(others)), np.float32)
    found = []
    for start in range(0, n, size):
        products = tile[: min(size, n - start)]
        np.dot(rows[start : start + len(products)], others.T, out=products)
        part = partial(_behind, some, start, products)
        found += Runner(run.threads, -(-len(products) // run.threads)).map(
            "neighbours", part, len(products)
        )
    return found


def _behind(some: Callable[..., Any], start: int, products: Floats, low: int, high: int) -> Any:
    return some(start + low, start + high, start, products)


def _search(change: Change, rows: Ints, k: int, run: Runner) -> tuple[Ints, Floats]:
    """The lists of some rows, searched: the row itself first, ties by name."""
    n = len(change.names)
    found = exact_search(change.vectors[rows], change.vectors, min(n, k + _SPARE), run)
    own = found.indices == rows[:, None]
    value = np.where(own, np.float32(-1), found.values)
    order = np.lexsort((change.names[found.indices], value), axis=1)
    ids = np.take_along_axis(found.indices, order, axis=1)[:, :k]
    values = np.take_along_axis(value, order, axis=1)[:, :k]
    # A row with more duplicates than the list is long may not have found itself.
    lost = ids[:, 0] != rows
    ids[lost, 1:], values[lost, 1:] = ids[lost, :-1], values[lost, :-1]
    ids[:, 0], values[:, 0] = rows, 0
    return ids, values
