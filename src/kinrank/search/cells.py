"""Approximate nearest rows: rows in cells, each searched in the cells around its own.

The rows of a cell are compared with all of the cells around it by one product, which uses the
processor several times better than lists that are walked through row by row. Products choose
candidates, exact distances order them. Neighbours that a border of cells keeps apart are found in
one of two independent divisions, and then in the lists of those that were found and of those who
found a row, again while that brings many. How many cells are around is what a sample of rows needs.
Time O(n sqrt(n) d), memory O(n k) beside two copies of the rows in the order of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.kernels.cells import merge_lists, refine_lists, reverse_lists
from kinrank.kernels.lists import gather_rows
from kinrank.kernels.scan import farthest_of
from kinrank.kernels.search import settle
from kinrank.kernels.topk import scan_products
from kinrank.parallel import Array, Out, Runner
from kinrank.search.blas import one_blas_thread
from kinrank.search.exact import exact_search
from kinrank.search.stored import HalfRows, Stored, for_kernels, rows_between
from kinrank.search.tiles import SPARE, empty_heaps, settle_arguments, squared_norms
from kinrank.types import Floats, Ints, Longs, Neighbors

PROBES = 24  # cells around a row's own in which it is searched, at most
# Fewer do where they hold so much of what PROBES cells hold of a sample's neighbours.
_FEWER = (4, 6, 8, 12, 16)
_ENOUGH = 0.99
# rows for each centre, and rounds, in which centres are found
_PER_CELL = 24
_ROUNDS = 4
_BLOCK = 8192
_FEW_CELLS = 32  # that are searched between two entries of the journal
_LANDMARKS = 256
_SAMPLE = 256  # rows whose recall is measured
# rounds at most, and the share of new entries that ends them
_REFINED = 8
_SETTLED = 0.02
_REVERSE = 12  # rows that list a row which does not list them, looked at for it


def cell_count(n: int) -> int:
    """Cells for ``n`` rows: about as many as rows that a row is compared with in them."""
    return max(1, min(int(4 * n**0.5), n // 2))


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows in the order of their cells.

    The number of a row is its place as the vectors were given; lists hold these numbers.

    vectors : (n, d) in the order of cells; numbers : (n,) int32, the number of each of them
    starts : (n_cells + 1,) where cells begin in that order; centres : (n_cells, d)
    """

    vectors: Stored
    numbers: Ints
    starts: Longs
    centres: Floats

    @classmethod
    def of(cls, vectors: Stored, run: Runner, arrays: Arrays, seed: int = 0) -> Cells:
        """Find centres among some rows, and put all rows into the cell of the nearest."""
        with progress.stage("cells", len(vectors)):
            centres = arrays.kept("centres", lambda: _centres(vectors, seed))
            numbers, starts = _by_cell(vectors, centres, run)
            return cls(_in_order(vectors, numbers, run), numbers, starts, centres)

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

    def lists(self, k: int, probes: int, run: Runner) -> tuple[Ints, Floats]:
        """About the ``k`` nearest rows of every row, itself first; lists in the order of cells.

        probes : in how many cells around its own a row is searched
        Returns numbers and squared distances, both (n, k).
        """
        return self._search(self.vectors, self.numbers, self.starts, k, probes, True, run)

    def search(
        self, queries: Stored, k: int, run: Runner, are_rows: bool
    ) -> tuple[Ints, Ints, Floats]:
        """About the ``k`` nearest rows of each query.

        are_rows : whether the queries are the first rows themselves, which come first in their
            lists
        Returns for each query which of the lists is its own, (n_queries,) int32; and the lists,
        numbers and squared distances, (n_queries, k).
        """
        order, starts = _by_cell(queries, self.centres, run)
        rows = _in_order(queries, order, run)
        lists = self._search(rows, order, starts, k, PROBES, are_rows, run)
        return (_inverse(order), *lists)

    @cached_property
    def around(self) -> Ints:
        """The nearest cells of each, itself first; (n_cells, some)."""
        count = min(len(self.centres), 2 * PROBES)
        return exact_search(self.centres, self.centres, count, Runner(1)).indices

    def probed(self, cell: int, probes: int, least: int) -> Ints:
        """The cells in which rows of a cell are searched, nearest first, itself among them.

        At least ``probes``, and more until they hold ``least`` rows: all where those of ``around``
        hold fewer.
        """
        sizes = np.diff(self.starts)
        around = self.around[cell]
        held = np.cumsum(sizes[around])
        count = max(min(probes, len(around)), int(np.searchsorted(held, least)) + 1)
        return around[:count] if held[-1] >= least else np.arange(len(sizes), dtype=np.int32)

    def probes_needed(self, rows: Longs, others: Ints) -> Ints:
        """How many of the cells around a row's own must be probed to find another row.

        rows : (m,) the numbers of rows; others : (m, k) those of other rows
        Returns (m, k), the row's own cell counted; one more than there are cells in ``around``
        where none of these holds the other row.
        """
        around = self.around[self.cell[rows]]
        holds = around[:, None, :] == self.cell[others][:, :, None]
        needed: Ints = np.where(holds.any(axis=2), holds.argmax(axis=2) + 1, around.shape[1] + 1)
        return needed

    def _search(
        self,
        rows: Stored,
        names: Ints,
        starts: Longs,
        k: int,
        probes: int,
        are_rows: bool,
        run: Runner,
    ) -> tuple[Ints, Floats]:
        """The lists of ``rows``, vectors in the order of their cells: numbers and values, (n, k).

        names : (n,) the number of each of them, used where they are rows themselves (``are_rows``)
        starts : (n_cells + 1,) where the rows of each cell begin
        """
        args = (self, rows, names, starts, probes, are_rows)
        outs = (Out(np.int32, indptr=k * starts), Out(np.float32, indptr=k * starts))
        few = run.cut(run.block_size or _FEW_CELLS)
        # Products of two cells are small: threads of their own would mostly wait for each other.
        with one_blas_thread():
            ids, values = few.fill("neighbours", _search_cells, args, len(self.centres), *outs)
        return ids.reshape(-1, k), values.reshape(-1, k)


class CellSearch:
    """Rows in two divisions into cells: an approximate search.

    arrays : where long arrays lie
    """

    def __init__(self, vectors: Stored, run: Runner, arrays: Arrays = IN_MEMORY) -> None:
        self._vectors = vectors
        self._run = run
        self._arrays = arrays
        self._first = Cells.of(vectors, run, arrays, seed=0)
        self._second = Cells.of(vectors, run, arrays, seed=1)
        self._landmarks = landmark_rows(vectors)

    @property
    def division(self) -> tuple[Floats, Ints]:
        """The centres of one of the divisions, (c, d), and the cell of each row, (n,)."""
        return self._first.centres, self._first.cell

    def rows(self, low: int, high: int, k: int) -> Neighbors:
        """About the ``k`` nearest rows of rows low to high, each first in its own list."""
        run = self._run
        first = self._first
        second = self._second
        n = len(first.numbers)
        outs = (Out(np.int32, k), Out(np.float32, k))
        probes = self._probes(k)
        # In the order of the second division, in which rows of a list lie near each other.
        lists = (np.arange(n, dtype=np.int32), *second.lists(k, probes, run))
        args: Any = (1, first.places[second.numbers], *first.lists(k, probes, run), *lists)
        merged, merged_d = run.fill("neighbours", merge_lists, args, n, *outs)
        ids, values = self._refined(merged, merged_d)
        args = (for_kernels(second.vectors), self._landmarks, values)
        far = run.fill("neighbours", far_rows, args, n, Out(np.float32))
        args = (second.places[low:high], ids, values, far)
        back = run.fill("neighbours", _back_rows, args, high - low, *outs, Out(np.float32))
        return Neighbors(*back)

    def _probes(self, k: int) -> int:
        """In how many cells around its own a row is searched: as many as a sample of rows needs."""
        rows = _sample_rows(len(self._vectors))
        nearest = exact_search(self._vectors[rows], self._vectors, k, Runner(self._run.threads))
        needed = np.minimum(
            self._first.probes_needed(rows, nearest.indices),
            self._second.probes_needed(rows, nearest.indices),
        )
        enough = _ENOUGH * (needed <= PROBES).mean()
        fewer = (few for few in _FEWER if few < PROBES and (needed <= few).mean() >= enough)
        return next(fewer, PROBES)

    def _refined(self, ids: Ints, values: Floats) -> tuple[Ints, Floats]:
        """Lists improved by those of their members and of the rows that list them (NN-descent).

        ids, values : (n, k) row numbers and squared distances, as the result, in the order of the
        second division. Ends when a round changes few entries.
        """
        run = self._run
        second = self._second
        n, k = ids.shape
        is_new = self._arrays.empty((n, k), np.uint8)
        is_new[:] = 1  # of the last round; pairs of two other entries were compared before
        outs = (Out(np.int32, k), Out(np.float32, k), Out(np.uint8, k))
        back = (Out(np.int32, _REVERSE), Out(np.uint8, _REVERSE))
        by_worker = run.cut(-(-n // run.n_workers))  # every block goes through all lists
        for _ in range(_REFINED):
            lists = (second.places, ids)
            reverse = by_worker.fill("neighbours", reverse_lists, (*lists, is_new), n, *back)
            args = (for_kernels(second.vectors), *lists, values, is_new, *reverse)
            ids, values, is_new = run.fill("neighbours", refine_lists, args, n, *outs)
            if is_new.mean() < _SETTLED:
                break
        return ids, values

    def first(self, count: int, k: int) -> Neighbors:
        """As ``rows``, of the first rows and without a look through other lists."""
        run = self._run
        rows = rows_between(self._vectors, 0, count)
        nearest = self.search(rows, k, are_rows=True)
        args = (for_kernels(rows), self._landmarks, nearest.distances)
        far = run.fill("neighbours", far_rows, args, count, Out(np.float32))
        return Neighbors(nearest.indices, nearest.distances, far)

    def search(self, queries: Stored, k: int, *, are_rows: bool = False) -> Neighbors:
        """About the ``k`` nearest rows of each query; are_rows : these are the first rows."""
        run = self._run
        outs = (Out(np.int32, k), Out(np.float32, k))
        both = (cells.search(queries, k, run, are_rows) for cells in (self._first, self._second))
        args = (int(are_rows), *chain.from_iterable(both))
        return Neighbors(*run.fill("search", merge_lists, args, len(queries), *outs))


def _search_cells(
    low: int,
    high: int,
    cells: Cells,
    rows: Stored,
    names: Ints,
    starts: Longs,
    probes: int,
    are_rows: bool,
    ids: Ints,
    values: Floats,
) -> None:
    """The lists of the rows of the cells [low, high): what ``run`` calls for each block.

    cells to are_rows : as in ``Cells._search``
    ids, values : (k len(rows),) the flattened lists, of which those of these rows are written
    """
    k = len(ids) // max(len(rows), 1)
    vectors = cells.vectors
    begins = cells.starts
    for cell in (np.flatnonzero(np.diff(starts[low : high + 1])) + low).tolist():
        part = slice(starts[cell], starts[cell + 1])
        members = rows[part]
        count = part.stop - part.start
        probed = [slice(begins[c], begins[c + 1]) for c in cells.probed(cell, probes, 2 * k)]
        others = np.concatenate([vectors[around] for around in probed])
        heaps = empty_heaps(count, min(len(others), k + SPARE))
        scan_products(0, count, members @ others.T, squared_norms(others), 0, *heaps)
        places = np.concatenate([np.arange(s.start, s.stop, dtype=np.int32) for s in probed])
        candidates = (for_kernels(vectors), places[heaps[1]], names[part] if are_rows else None)
        settle(
            0,
            count,
            *settle_arguments(members, *candidates, cells.numbers),
            ids.reshape(-1, k)[part],
            values.reshape(-1, k)[part],
        )


def _by_cell(rows: Stored, centres: Floats, run: Runner) -> tuple[Ints, Longs]:
    """The numbers of rows by nearest centre, (n,), and where those of each begin, (cells + 1,)."""
    cell = run.cut(_BLOCK, 1).fill(
        "cells", _nearest_centre, (rows, centres), len(rows), Out(np.int32)
    )
    starts = np.zeros(len(centres) + 1, np.int64)
    np.cumsum(np.bincount(cell, minlength=len(centres)), out=starts[1:])
    return np.argsort(cell, kind="stable").astype(np.int32), starts


def _nearest_centre(low: int, high: int, rows: Stored, centres: Floats, out: Ints) -> None:
    """Set out[low:high] to the nearest centre of each of rows[low:high]."""
    out[low:high] = (rows[low:high] @ centres.T - squared_norms(centres) / 2).argmax(axis=1)


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


def _centres(vectors: Stored, seed: int) -> Floats:
    """The centres of cells, (``cell_count``, d), by k-means over some of the rows.

    It begins with random rows; an empty cell keeps its centre.
    """
    n = len(vectors)
    count = cell_count(len(vectors))
    random = np.random.default_rng(seed)
    centres = np.array(vectors[np.sort(random.choice(n, count, replace=False))])
    sample = np.array(vectors[:: max(1, n // (_PER_CELL * count))])
    cell = np.empty(len(sample), np.int32)
    with progress.stage("cells", _ROUNDS * len(sample)) as advance:
        for _ in range(_ROUNDS):
            for low in range(0, len(sample), _BLOCK):
                _nearest_centre(low, low + _BLOCK, sample, centres, cell)
                advance(len(cell[low : low + _BLOCK]))
            order = np.argsort(cell, kind="stable")
            filled, first = np.unique(cell[order], return_index=True)
            sums = np.add.reduceat(sample[order], first, axis=0)
            centres[filled] = sums / np.bincount(cell, minlength=count)[filled, None]
    return centres


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
