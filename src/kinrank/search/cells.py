"""Approximate nearest rows: rows in cells, each searched in the cells whose centres are nearest.

Products of rows in 16 bits choose candidates, exact distances order them (``search/short.py``). A
cell meets all rows that are searched in it together, so that its rows are read once for many.
Neighbours in other cells are found in the lists of those that were found and of those who found a
row, again while that brings many. In how many cells a row is searched is what a sample needs.
Time O(n sqrt(n) d), memory O(n k) beside two copies of the rows in the order of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.kernels.cells import list_places, refine_lists, reverse_lists
from kinrank.kernels.lists import gather_rows
from kinrank.kernels.scan import farthest_of
from kinrank.kernels.search import settle
from kinrank.parallel import Array, Out, Runner
from kinrank.search.exact import exact_search
from kinrank.search.short import Panels, Scale, Shorts
from kinrank.search.stored import HalfRows, Stored, for_kernels, rows_between
from kinrank.search.tiles import settle_arguments, squared_norms
from kinrank.types import Floats, Ints, Longs, Neighbors

PROBES = 64  # cells in which a row is searched, those with the nearest centres, at most
# Fewer do where they hold so much of what PROBES cells hold of a sample's neighbours.
_FEWER = (4, 8, 16, 24, 32, 48)
_ENOUGH = 0.995
# rows for each centre, and rounds, in which centres are found
_PER_CELL = 24
_ROUNDS = 4
_BLOCK = 8192
_ENTRIES = 1 << 21  # of a block that is searched at once: rows times their neighbours and cells
_SPARE = 4  # candidates beside those that are wanted, as 16 bits are not exact
_HELD = 4  # rows in the cells in which a row is searched, times its neighbours, at least
_LACKING = 1024  # rows that are searched in all cells together
_LANDMARKS = 256
_SAMPLE = 256  # rows whose recall is measured
# rounds at most, and the share of new entries that ends them
_REFINED = 8
_SETTLED = 0.02
_REVERSE = 12  # rows that list a row which does not list them, looked at for it


def cell_count(n: int) -> int:
    """Cells for ``n`` rows: about as many as rows that a row is compared with in them."""
    return max(1, min(int(8 * n**0.5), n // 2))


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows in the order of their cells.

    The number of a row is its place as the vectors were given; lists hold these numbers.

    vectors : (n, d) in the order of cells; numbers : (n,) int32, the number of each of them
    starts : (n_cells + 1,) where cells begin in that order; centres : (n_cells, d)
    scale : of the 16 bits of all that follows; centre_panels : the centres
    panels : the rows, each cell a part
    """

    vectors: Stored
    numbers: Ints
    starts: Longs
    centres: Floats
    scale: Scale
    centre_panels: Panels
    panels: Panels

    @classmethod
    def of(cls, vectors: Stored, run: Runner, arrays: Arrays) -> Cells:
        """Find centres among some rows, and put all rows into the cell of the nearest."""
        with progress.stage("cells", len(vectors)):
            scale = Scale.of(vectors, run)
            centres = arrays.kept("centres", lambda: _centres(vectors, scale, run))
            args = (vectors, scale, _panels_of(centres, scale))
            cell = run.fill("cells", _nearest_centre, args, len(vectors), Out(np.int32))
            sizes = np.bincount(cell, minlength=len(centres))
            centres = centres[sizes > 0]
            starts = np.zeros(len(centres) + 1, np.int64)
            np.cumsum(sizes[sizes > 0], out=starts[1:])
            numbers = np.argsort(cell, kind="stable").astype(np.int32)
            in_order = _in_order(vectors, numbers, run)
            panels = Panels.of(in_order, starts, scale, run)
            centre_panels = _panels_of(centres, scale)
            return cls(in_order, numbers, starts, centres, scale, centre_panels, panels)

    @cached_property
    def places(self) -> Ints:
        """(n,) int32, where the row of each number lies in the order of cells."""
        return _inverse(self.numbers)

    @cached_property
    def cell(self) -> Ints:
        """(n,) int32, the cell of the row of each number."""
        cell = np.empty_like(self.numbers)
        cell[self.numbers] = np.repeat(np.arange(len(self.centres)), np.diff(self.starts))
        return cell

    def search(
        self, rows: Stored, k: int, probes: int, names: Ints | None, run: Runner
    ) -> tuple[Ints, Floats, Ints]:
        """About the ``k`` nearest of all rows for each of ``rows``.

        probes : how many cells, those with the nearest centres, each is searched in
        names : (n_rows,) the numbers of the rows where they are among those in cells: each comes
            first in its own list; None where they are not
        Returns numbers and squared distances, both (n_rows, k), and the cells, (n_rows, probes),
        with -1 for none.
        """
        n_cells = len(self.centres)
        # So many that they hold enough rows: no list may be left with gaps.
        probes = min(max(probes, -(-_HELD * k * n_cells // len(self.numbers))), n_cells)
        args = (self, rows, names)
        outs = (Out(np.int32, k), Out(np.float32, k), Out(np.int32, probes))
        share = -(-len(rows) // (4 * run.n_workers))
        block = run.block_size or max(1, min(share, _ENTRIES // (k + probes)))
        ids, values, probed = run.cut(block).fill(
            "neighbours", _search_rows, args, len(rows), *outs
        )
        return ids, values, probed

    def probes_needed(self, rows: Longs, others: Ints) -> Longs:
        """In how many cells a row must be searched to find another.

        rows : (m,) the numbers of rows; others : (m, k) those of other rows. Returns (m, k).
        """
        norms = squared_norms(self.centres) / 2
        scores = self.vectors[self.places[rows]] @ self.centres.T - norms
        needed = np.empty(others.shape, np.int64)
        for row, cells in enumerate(self.cell[others]):
            needed[row] = (scores[row] >= scores[row, cells, None]).sum(axis=1)
        return needed

    def nearest(self, x: Shorts, count: int, probed: Ints) -> Ints:
        """About the ``count`` nearest rows, by their places, of the rows x in 16 bits.

        probed : (len(x), probes) the cells where each is searched; it is in all where these hold
            too few rows
        """
        places = self.panels.nearest_in(x, count, probed)
        lacking = np.flatnonzero((places < 0).any(axis=1))
        for low in range(0, len(lacking), _LACKING):
            rows = lacking[low : low + _LACKING]
            every = np.tile(np.arange(len(self.centres), dtype=np.int32), (len(rows), 1))
            places[rows] = self.panels.nearest_in(x[rows], count, every)
        return places


class CellSearch:
    """Rows in cells: an approximate search.

    arrays : where long arrays lie
    """

    def __init__(self, vectors: Stored, run: Runner, arrays: Arrays = IN_MEMORY) -> None:
        self._vectors = vectors
        self._run = run
        self._arrays = arrays
        self._cells = Cells.of(vectors, run, arrays)
        self._landmarks = landmark_rows(vectors)

    @property
    def division(self) -> tuple[Floats, Ints]:
        """The centres of the cells, (c, d), and the cell of each row, (n,)."""
        return self._cells.centres, self._cells.cell

    def rows(self, low: int, high: int, k: int) -> Neighbors:
        """About the ``k`` nearest rows of rows low to high, each first in its own list."""
        run = self._run
        cells = self._cells
        n = len(cells.numbers)
        found = cells.search(cells.vectors, k, self._probes(k), cells.numbers, run)
        ids, values = self._refined(*found)
        args: Any = (for_kernels(cells.vectors), self._landmarks, values)
        far = run.fill("neighbours", far_rows, args, n, Out(np.float32))
        args = (cells.places[low:high], ids, values, far)
        outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
        return Neighbors(*run.fill("neighbours", _back_rows, args, high - low, *outs))

    def _probes(self, k: int) -> int:
        """In how many cells a row is searched: as many as a sample of rows needs."""
        rows = _sample_rows(len(self._vectors))
        nearest = exact_search(self._vectors[rows], self._vectors, k, Runner(self._run.threads))
        needed = self._cells.probes_needed(rows, nearest.indices)
        enough = _ENOUGH * (needed <= PROBES).mean()
        fewer = (few for few in _FEWER if few < PROBES and (needed <= few).mean() >= enough)
        return next(fewer, PROBES)

    def _refined(self, ids: Ints, values: Floats, probed: Ints) -> tuple[Ints, Floats]:
        """Lists improved by those of their members and of the rows that list them (NN-descent).

        ids, values : (n, k) row numbers and squared distances, as the result, in the order of the
        cells; probed : the cells in which each was searched. Ends when a round changes few entries.
        """
        run = self._run
        cells = self._cells
        n, k = ids.shape
        vectors = for_kernels(cells.vectors)
        in_order = cells.cell[cells.numbers]
        is_new = self._arrays.empty((n, k), np.uint8)
        is_new[:] = 1  # of the last round; pairs of two other entries were compared before
        outs = (Out(np.int32, k), Out(np.float32, k), Out(np.uint8, k))
        back = (Out(np.int32, _REVERSE), Out(np.uint8, _REVERSE))
        by_worker = run.cut(-(-n // run.n_workers))  # every block goes through all lists
        for _ in range(_REFINED):
            listed = (cells.places, ids)
            places = run.fill("neighbours", list_places, listed, n, Out(np.int32, k))
            reverse = by_worker.fill("neighbours", reverse_lists, (places, is_new), n, *back)
            args = (vectors, in_order, probed, ids, places, values, is_new, *reverse)
            ids, values, is_new = run.fill("neighbours", refine_lists, args, n, *outs)
            if is_new.mean() < _SETTLED:
                break
        return ids, values

    def first(self, count: int, k: int) -> Neighbors:
        """As ``rows``, of the first rows and without a look through other lists."""
        run = self._run
        rows = rows_between(self._vectors, 0, count)
        names = np.arange(count, dtype=np.int32)
        ids, values, _ = self._cells.search(rows, k, PROBES, names, run)
        args = (for_kernels(rows), self._landmarks, values)
        far = run.fill("neighbours", far_rows, args, count, Out(np.float32))
        return Neighbors(ids, values, far)

    def search(self, queries: Stored, k: int) -> Neighbors:
        """About the ``k`` nearest rows of each query."""
        return Neighbors(*self._cells.search(queries, k, PROBES, None, self._run)[:2])


def _search_rows(
    low: int,
    high: int,
    cells: Cells,
    rows: Stored,
    names: Ints | None,
    ids: Ints,
    values: Floats,
    probed: Ints,
) -> None:
    """The lists of rows [low, high): what ``run`` calls for each block.

    cells to names : as in ``Cells.search``
    ids, values, probed : what it returns, of which the part of these rows is written
    """
    members = rows[low:high]
    count = min(ids.shape[1] + _SPARE, len(cells.vectors))
    x = cells.scale.shorten(members)
    around = cells.centre_panels.nearest(x, probed.shape[1])
    candidates = cells.nearest(x, count, around)
    own_names = None if names is None else names[low:high]
    args = (members, for_kernels(cells.vectors), candidates, own_names, cells.numbers)
    settle(0, len(members), *settle_arguments(*args), ids[low:high], values[low:high])
    probed[low:high] = around


def _nearest_centre(
    low: int, high: int, rows: Stored, scale: Scale, centres: Panels, out: Ints
) -> None:
    """Set out[low:high] to the nearest centre of each of rows[low:high]."""
    out[low:high] = centres.nearest(scale.shorten(rows[low:high]), 1)[:, 0]


def _panels_of(centres: Floats, scale: Scale) -> Panels:
    """Centres in 16 bits."""
    return Panels.of(centres, np.array([0, len(centres)]), scale, Runner(1))


def _inverse(order: Ints) -> Ints:
    """The inverse of a permutation: inverse[order[i]] = i."""
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order), dtype=np.int32)
    return inverse


def _in_order(vectors: Stored, numbers: Ints, run: Runner) -> Stored:
    """A copy with the vectors ``numbers`` one behind the other, stored in the same way."""
    rows = for_kernels(vectors)
    out = Out(rows.dtype, rows.shape[1])
    moved = run.fill("cells", gather_rows, (numbers, rows), len(numbers), out)
    return HalfRows(moved) if isinstance(vectors, HalfRows) else moved


def _back_rows(
    low: int, high: int, places: Ints, ids: Ints, values: Floats, far: Floats, *outs: Array
) -> None:
    """Lists in the order of cells put into that of rows, for rows [low, high).

    places : where each row lies in the order of cells
    ids, values, far : lists, their values, and largest distances, in the order of cells
    outs : arrays for the same three, of which these rows are written
    """
    rows = places[low:high]
    for out, kept in zip(outs, (ids, values, far), strict=True):
        out[low:high] = kept[rows]


def far_rows(
    low: int, high: int, vectors: Array, landmarks: Floats, values: Floats, out: Floats
) -> None:
    """The largest squared distance of each of rows [low, high) to landmarks and to its list.

    landmarks : of ``landmark_rows``; values : (n, k) squared distances in the row's list, ascending
    out : (n,) float32, of which these rows are written
    """
    farthest_of(low, high, vectors, landmarks, out)
    np.maximum(out[low:high], values[low:high, -1], out=out[low:high])


def _centres(vectors: Stored, scale: Scale, run: Runner) -> Floats:
    """The centres of cells, (``cell_count``, d), by k-means over some of the rows.

    It begins with random rows; an empty cell keeps its centre.
    """
    n = len(vectors)
    count = cell_count(n)
    random = np.random.default_rng(0)
    centres = np.array(vectors[np.sort(random.choice(n, count, replace=False))])
    sample = np.array(vectors[:: max(1, n // (_PER_CELL * count))])
    for _ in range(_ROUNDS):
        cell = np.empty(len(sample), np.int32)
        args = (sample, scale, _panels_of(centres, scale), cell)
        run.map("cells", _nearest_centre, len(sample), *args)
        order = np.argsort(cell, kind="stable")
        filled, first = np.unique(cell[order], return_index=True)
        sums = np.add.reduceat(sample[order], first, axis=0)
        centres[filled] = sums / np.bincount(cell, minlength=count)[filled, None]
    # Cells that are near each other follow each other, so that what is read together lies together.
    leaders = _panels_of(centres[:: max(1, int(count**0.5))], scale)
    leader = leaders.nearest(scale.shorten(centres), 1)[:, 0]
    return centres[np.argsort(leader, kind="stable")]


def landmark_rows(vectors: Stored) -> Floats:
    """Rows that are farthest from some of the others, to estimate largest distances by."""
    sample = np.array(vectors[:: max(1, len(vectors) // _LANDMARKS)][:_LANDMARKS])
    top = np.full(len(sample), -np.inf, np.float32)
    who = np.zeros(len(sample), np.int64)
    for low in range(0, len(vectors), _BLOCK):
        rows = vectors[low : low + _BLOCK]
        squared = squared_norms(rows) - 2 * (sample @ rows.T)
        best = squared.argmax(axis=1)
        value = squared[np.arange(len(sample)), best]
        who = np.where(value > top, best + low, who)
        top = np.maximum(value, top)
    return vectors[np.unique(who)]


def measured_recall(vectors: Stored, neighbors: Neighbors, run: Runner, first: int = 0) -> float:
    """The share of the true neighbours of some rows from ``first`` on that their lists hold.

    neighbors : lists of all rows
    """
    rows = _sample_rows(len(vectors), first)
    exact = exact_search(vectors[rows], vectors, neighbors.k, Runner(run.threads))
    pairs = zip(neighbors.indices[rows], exact.indices, strict=True)
    return float(np.mean([len(np.intersect1d(*pair)) / neighbors.k for pair in pairs]))


def _sample_rows(n: int, first: int = 0) -> Longs:
    """The numbers of about _SAMPLE rows from ``first`` on, evenly spread."""
    return np.arange(first, n, max(1, (n - first) // _SAMPLE))
