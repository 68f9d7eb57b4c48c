"""Rows in 16 bits, and the nearest of them: what chooses candidates in an approximate search.

Rows are kept less their median, in whole numbers that are as large as products of two rows may be
in 32 bits. Sums of them are exact, so neither threads nor blocks nor processors change a candidate.
Rows much farther from the median than others are drawn in, or they would take the precision of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels.scan import farthest_of
from kinrank.kernels.short_products import (
    LANES,
    NO_LIMIT,
    best_places,
    limits_of,
    make_panels,
    rows_by_cell,
    scan_all,
    scan_cells,
    shorten,
)
from kinrank.parallel import Out, Runner
from kinrank.search.stored import Stored, for_kernels
from kinrank.types import Floats, Ints, Longs

Shorts: TypeAlias = npt.NDArray[np.int16]

_LONGEST = 32000  # length of the longest row in 16 bits: 3/2 of its square is less than 2^31
_DRAWN_IN = 16  # times the median distance to the origin: no row is kept farther away
_SAMPLE = 4096  # rows whose median is the origin
# Where so many rows are wanted or more, and there are more panels, one panel in _EVERY bounds them.
_MANY = 16
_EVERY = 8
_TOGETHER = 4096  # rows that are compared with all panels at a time
_ROOM = 3  # keys that there is room for, times those that are kept


@dataclass(frozen=True, eq=False)
class Scale:
    """How rows become whole numbers.

    origin : (d,) what is subtracted; longest : rows farther from it are drawn in to this distance
    """

    origin: Floats
    longest: float

    @classmethod
    def of(cls, vectors: Stored, run: Runner) -> Scale:
        """A scale that suits the rows."""
        sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
        origin = np.median(sample, axis=0).astype(np.float32)
        args = (for_kernels(vectors), origin[None])
        squared = run.fill("cells", farthest_of, args, len(vectors), Out(np.float32))
        largest = float(squared.max())
        typical = float(np.median(squared)) or largest  # 0 where most rows are the same
        return cls(origin, min(largest, _DRAWN_IN**2 * typical) ** 0.5 or 1.0)

    @property
    def arguments(self) -> tuple[Floats, float, float]:
        """What kernels take: the origin, the longest distance, and the factor."""
        return self.origin, self.longest, _LONGEST / self.longest

    @property
    def width(self) -> int:
        """Columns in 16 bits: an even number."""
        return len(self.origin) + len(self.origin) % 2

    def shorten(self, rows: Floats) -> Shorts:
        """The rows in 16 bits, (n, width)."""
        out = np.empty((len(rows), self.width), np.int16)
        shorten(0, len(rows), rows, *self.arguments, out)
        return out


@dataclass(frozen=True, eq=False)
class Panels:
    """Rows in 16 bits in panels, part by part: each part begins with a new panel.

    rows : (n_panels, LANES) int32, the row in each lane, -1 for none
    numbers, halves : (n_panels, LANES width) int16 and (n_panels, LANES) int32, as kernels take
        them (``kernels/short_products.py``)
    firsts : (parts + 1,) the first panel of each part
    """

    rows: Ints
    numbers: Shorts
    halves: Ints
    firsts: Longs

    @classmethod
    def of(cls, vectors: Stored, starts: Longs, scale: Scale, run: Runner) -> Panels:
        """Part p holds the rows starts[p] to starts[p + 1]."""
        sizes = np.diff(starts)
        firsts = np.zeros(len(starts), np.int64)
        np.cumsum(-(-sizes // LANES), out=firsts[1:])
        rows = np.full((firsts[-1], LANES), -1, np.int32)
        # How far each row is moved by the lanes before its part that stay empty.
        moved = np.repeat(LANES * firsts[:-1] - starts[:-1], sizes)
        rows.reshape(-1)[moved + np.arange(len(vectors))] = np.arange(len(vectors))
        args = (rows, for_kernels(vectors), *scale.arguments)
        outs = (Out(np.int16, LANES * scale.width), Out(np.int32, LANES))
        numbers, halves = run.fill("cells", make_panels, args, len(rows), *outs)
        return cls(rows, numbers, halves, firsts)

    def nearest(self, x: Shorts, count: int) -> Ints:
        """About the ``count`` nearest rows of each row of x, the nearest first, of all parts.

        Where many are wanted some of the panels give a bound first, which may let through fewer.
        Returns (len(x), count), -1 behind the last; there is one at least.
        """
        out = np.empty((len(x), count), np.int32)
        for low in range(0, len(x), _TOGETHER):
            queries = x[low : low + _TOGETHER]
            limits, sizes, keys = _reservoirs(len(queries), count)
            if _MANY <= count < len(self.rows):
                self._bound(queries, count, limits)
            scan_all(queries, self.numbers, self.halves, count, limits, sizes, keys)
            best_places(self.rows, count, sizes, keys, out[low : low + _TOGETHER])
        return out

    def _bound(self, x: Shorts, count: int, limits: Ints) -> None:
        """Set limits that about ``count`` rows of all panels exceed, or some more."""
        mean = count / _EVERY
        rank = math.ceil(mean + 2 * math.sqrt(mean))
        some = _reservoirs(len(x), rank)
        numbers, halves = self._sample
        scan_all(x, numbers, halves, rank, *some)
        limits_of(rank, *some[1:], limits)

    @cached_property
    def _sample(self) -> tuple[Shorts, Ints]:
        """Some of the panels: numbers and halves."""
        some = slice(None, None, _EVERY)
        return np.ascontiguousarray(self.numbers[some]), np.ascontiguousarray(self.halves[some])

    def nearest_in(self, x: Shorts, count: int, parts: Ints) -> Ints:
        """The ``count`` nearest rows of each row of x in some of the parts.

        parts : (len(x), any) int32, -1 for none; the first of each row bounds what is looked for in
            the others
        Returns (len(x), count), the nearest first, others in any order, -1 behind the last.
        """
        limits, sizes, keys = _reservoirs(len(x), count)
        for some in (parts[:, :1], parts[:, 1:]):
            n_parts = len(self.firsts) - 1
            starts, queries = rows_by_cell(np.ascontiguousarray(some), n_parts)
            scan = (starts, queries, x, self.numbers, self.halves, self.firsts)
            scan_cells(*scan, count, limits, sizes, keys)
        out = np.empty((len(x), count), np.int32)
        best_places(self.rows, count, sizes, keys, out)
        return out


def _reservoirs(n: int, count: int) -> tuple[Any, ...]:
    """Empty ones of ``n`` rows: limits, sizes and keys (``kernels/short_products.py``)."""
    limits = np.full(n, NO_LIMIT, np.int32)
    return limits, np.zeros(n, np.int32), np.empty((n, _ROOM * count + LANES), np.int64)
