"""Approximate nearest rows: rows in cells, each searched in the cells around its own.

The rows of a cell are compared with all of the cells around it by one product, which uses the
processor several times better than lists that are walked through row by row. Products choose
candidates, exact distances order them. Time O(n sqrt(n) d), memory O(n k) beside a copy of the rows
in the order of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.graph.layout import Layout
from kinrank.kernels.cells import settle_cell
from kinrank.kernels.lists import gather_rows
from kinrank.kernels.online_search import farthest_of
from kinrank.kernels.topk import scan_products
from kinrank.neighbors.exact import SPARE, squared_norms
from kinrank.neighbors.search import Found, exact_search
from kinrank.optional import require
from kinrank.parallel import Array, Out, Runner
from kinrank.types import Floats, Ints, Longs, Neighbors

PROBES = 48  # cells around a row's own in which it is searched
_PER_CELL, _ROUNDS = 32, 6  # rows for each centre, and rounds, in which centres are found
_BLOCK = 8192
_FEW_CELLS = 32  # that are searched between two entries of the journal
_LANDMARKS = 256


def cell_count(n: int) -> int:
    """Cells for ``n`` rows: about as many as rows that a row is compared with in them."""
    return max(1, int(4 * n**0.5))


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows in the order of their cells.

    vectors : (n, d) in that order; numbers : (n,) which rows they are; starts : where cells begin
    landmarks : rows that are far from most
    """

    vectors: Floats
    numbers: Ints
    starts: Longs
    centres: Floats
    landmarks: Floats

    @classmethod
    def of(cls, vectors: Floats, run: Runner) -> Cells:
        """Find centres among some rows, and put all rows into the cell of the nearest."""
        with progress.stage("cells", len(vectors)):
            centres = run.kept("centres", lambda: _centres(vectors), _save, _load)
            numbers, starts = _by_cell(vectors, centres, run)
            own = _in_order(vectors, numbers, run)
            return cls(own, numbers, starts, centres, far_rows(vectors))

    @cached_property
    def around(self) -> Ints:
        """The nearest cells of each, itself first; (n_cells, some)."""
        count = min(len(self.centres), 2 * PROBES)
        return exact_search(self.centres, self.centres, count, Runner(1)).indices

    def probed(self, cell: int, least: int) -> Ints:
        """The cells in which rows of a cell are searched: some, or more until they hold enough."""
        sizes = np.diff(self.starts)
        around = self.around[cell]
        held = np.cumsum(sizes[around])
        count = max(min(PROBES, len(around)), int(np.searchsorted(held, least)) + 1)
        return around[:count] if held[-1] >= least else np.arange(len(sizes), dtype=np.int32)

    def rows(self, low: int, high: int, k: int, run: Runner) -> Neighbors:
        """About the ``k`` nearest rows of rows low to high, each first in its own list."""
        # Those asked for, still in the order of cells.
        kept = (self.numbers >= low) & (self.numbers < high)
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts].astype(np.int64)
        names = self.numbers[kept]
        rows = self.vectors
        if len(names) < len(rows):
            rows = _in_order(rows, np.flatnonzero(kept).astype(np.int32), run)
        ids, values = self._search(rows, names, starts, k, True, run)
        args = (rows, self.landmarks, values)
        far = run.fill("neighbours", _far_rows, args, len(ids), Out(np.float32))
        places = np.empty_like(names)
        places[names - low] = np.arange(len(names), dtype=np.int32)
        back = Layout(places, np.arange(len(self.numbers), dtype=np.int32))
        return back.neighbors(Neighbors(ids, values, far), run)

    def search(self, queries: Floats, k: int, run: Runner) -> Found:
        """About the ``k`` nearest rows of each query."""
        order, starts = _by_cell(queries, self.centres, run)
        rows = _in_order(queries, order, run)
        ids, values = self._search(rows, order, starts, k, False, run)
        found = Found(np.empty(ids.shape, np.int32), np.empty(ids.shape, np.float32))
        found.indices[order], found.values[order] = ids, values
        return found

    def _search(
        self, rows: Floats, names: Ints, starts: Longs, k: int, own: bool, run: Runner
    ) -> tuple[Ints, Floats]:
        """The lists of rows in the order of cells."""
        args = (self, rows, names, starts, own)
        outs = (Out(np.int32, indptr=k * starts), Out(np.float32, indptr=k * starts))
        few = run.cut(run.block_size or _FEW_CELLS)
        with _one_thread_each():
            ids, values = few.fill("neighbours", _search_cells, args, len(self.centres), *outs)
        return ids.reshape(-1, k), values.reshape(-1, k)


def _one_thread_each() -> Any:
    """Products of two cells are small: threads of their own would mostly wait for each other."""
    control = require("threadpoolctl", extra="ann", purpose="The approximate search")
    return control.threadpool_limits(1, user_api="blas")


def _search_cells(
    low: int, high: int, cells: Cells, rows: Floats, names: Ints, starts: Longs, own: bool,
    ids: Ints, values: Floats,
) -> None:  # fmt: skip
    k = len(ids) // max(len(rows), 1)
    for cell in range(low, high):
        part = slice(starts[cell], starts[cell + 1])
        if part.start < part.stop:
            out = (ids.reshape(-1, k)[part], values.reshape(-1, k)[part])
            _search_cell(cells, cell, rows[part], names[part], own, out)


def _search_cell(
    cells: Cells, cell: int, rows: Floats, names: Ints, own: bool, out: tuple[Ints, Floats]
) -> None:
    """The lists of the rows of one cell."""
    k, count = out[0].shape[1], len(rows)
    probed = cells.probed(cell, 2 * k)
    places = np.concatenate(
        [np.arange(cells.starts[c], cells.starts[c + 1], dtype=np.int32) for c in probed]
    )
    others = np.concatenate([cells.vectors[cells.starts[c] : cells.starts[c + 1]] for c in probed])
    capacity = min(len(others), k + SPARE)
    heaps, found = np.empty((count, capacity), np.float32), np.empty((count, capacity), np.int32)
    sizes, tops = np.zeros(count, np.int64), np.full(count, np.inf, np.float32)
    state = (heaps, found, sizes, tops, np.zeros(count, np.int64))
    scan_products(0, count, rows @ others.T, squared_norms(others), 0, *state)
    members = (cells.vectors, cells.numbers, places)
    settle_cell(0, count, rows, names, own, *members, found, sizes, *out)


def _by_cell(rows: Floats, centres: Floats, run: Runner) -> tuple[Ints, Longs]:
    """Row numbers in the order of the nearest centre, and where each centre's begin."""
    one = run.cut(_BLOCK, 1)
    cell = one.fill("cells", _nearest_centre, (rows, centres), len(rows), Out(np.int32))
    starts = np.zeros(len(centres) + 1, np.int64)
    np.cumsum(np.bincount(cell, minlength=len(centres)), out=starts[1:])
    return np.argsort(cell, kind="stable").astype(np.int32), starts


def _nearest_centre(low: int, high: int, rows: Floats, centres: Floats, out: Ints) -> None:
    out[low:high] = (rows[low:high] @ centres.T - squared_norms(centres) / 2).argmax(axis=1)


def _in_order(vectors: Floats, numbers: Ints, run: Runner) -> Floats:
    out = Out(np.float32, vectors.shape[1])
    moved: Floats = run.fill("cells", gather_rows, (numbers, vectors), len(numbers), out)
    return moved


def _far_rows(
    low: int, high: int, vectors: Floats, landmarks: Floats, values: Floats, out: Floats
) -> None:
    """The largest distance of each row to rows which are far from most, or in its list."""
    farthest_of(low, high, vectors, landmarks, out)
    np.maximum(out[low:high], values[low:high, -1], out=out[low:high])


def _centres(vectors: Floats) -> Floats:
    """k-means over some of the rows, from random ones; an empty cell keeps its centre."""
    n, count = len(vectors), cell_count(len(vectors))
    random = np.random.default_rng(0)
    centres = np.array(vectors[np.sort(random.choice(n, count, replace=False))])
    some = np.array(vectors[:: max(1, n // (_PER_CELL * count))])
    cell = np.empty(len(some), np.int32)
    with progress.stage("cells", _ROUNDS * len(some)) as advance:
        for _ in range(_ROUNDS):
            for low in range(0, len(some), _BLOCK):
                _nearest_centre(low, low + _BLOCK, some, centres, cell)
                advance(len(cell[low : low + _BLOCK]))
            order = np.argsort(cell, kind="stable")
            filled, first = np.unique(cell[order], return_index=True)
            sums = np.add.reduceat(some[order], first, axis=0)
            centres[filled] = sums / np.bincount(cell, minlength=count)[filled, None]
    return centres


def far_rows(vectors: Floats) -> Floats:
    """Rows that are farthest from some of the others, to estimate largest distances by."""
    some = np.array(vectors[:: max(1, len(vectors) // _LANDMARKS)][:_LANDMARKS])
    top, who = np.full(len(some), -np.inf, np.float32), np.zeros(len(some), np.int64)
    for low in range(0, len(vectors), _BLOCK):
        part = vectors[low : low + _BLOCK]
        squared = squared_norms(part) - 2 * (some @ part.T)
        best = squared.argmax(axis=1)
        value = squared[np.arange(len(some)), best]
        who, top = np.where(value > top, best + low, who), np.maximum(value, top)
    return vectors[np.unique(who)]


def _save(centres: Floats, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, centres)


def _load(path: Path) -> Floats:
    centres: Array = np.load(path)
    return centres
