"""Exact lists: blockwise products choose candidates, exact values decide.

Candidates are all that rounding leaves in doubt, so that neither the number of threads nor the cut
into tiles can change a bit. Memory O(n_rows k) beside a tile of products for each thread.

Queries in a gallery (``search_tiles``) are searched a tile of them at a time. Of gallery rows among
themselves (``search_pairs``) each tile of products serves the rows on both of its sides: bounds,
that a sample of columns gives and that what is found tightens, leave few candidates, and tiles are
as small as suits the caches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from kinrank.kernels.pairs import arrange, choose, first_bounds, scan_pairs, settle_farthest
from kinrank.kernels.records import Contenders
from kinrank.kernels.search import settle
from kinrank.kernels.topk import scan_products
from kinrank.parallel import Range, Runner, call_each, thread_pool
from kinrank.search.blas import one_blas_thread
from kinrank.search.stored import HalfRows, Stored, for_kernels
from kinrank.types import Floats, Ints

TILE_ROWS = 512
TILE_COLUMNS = 16384
BLOCK = 8 * TILE_ROWS
SPARE = 16
# A product of d terms in float32 is off by some 2^-24 sqrt(d) |x||y|; eight times that is safe.
SLACK = 8 * 2.0**-24
TILE = 640
_LEAST_TILE = 16
_BAND_BYTES = 1 << 27  # of what is kept of rows while they are searched
_ROOM = 3  # entries that there is room for, times those that must be kept of a row
_FARTHEST = 8  # columns that may be the farthest: room for these
_SAMPLED = 20  # one row in 20 is in the sample
_LEAST_SAMPLE = 64
_MOST_SAMPLE = 1024
_GROUPS = 64  # parts of the sample, whose least values give a bound
_LONG = 2048  # lists from this length on are sorted, shorter ones arranged
_SETTLED_TOGETHER = 256  # rows
_COLUMN = 0x7FFFFFFF  # the lower half of a packed contender: its column

# Sees each tile: its rows, their products, what is added to them, and the first column.
Watch: TypeAlias = Callable[[slice, Floats, Floats, int], None]


def search_tiles(
    rows: Stored,
    gallery: Stored,
    norms: Floats,
    indices: Ints,
    values: Floats,
    *,
    threads: int = 1,
    inner: bool = False,
    watch: Watch | None = None,
    numbers: Ints | None = None,
) -> None:
    """Fill in the nearest gallery rows of each row, ascending by value, ties by lower number.

    norms : ``squared_norms`` of the gallery
    numbers : (n,) int32, the number that stands for each gallery row in results and in ties; None
        or empty where that is its position
    indices, values : (n_rows, k); squared distances, or with ``inner`` minus the inner products
    """
    tile = np.empty(min(len(rows), TILE_ROWS) * min(len(gallery), TILE_COLUMNS), np.float32)
    offsets = np.zeros_like(norms) if inner else norms
    with thread_pool(threads) as pool:
        for low in range(0, len(rows), TILE_ROWS):
            part = slice(low, min(low + TILE_ROWS, len(rows)))
            tile_rows = rows[part]
            count = part.stop - low
            heaps = empty_heaps(count, min(len(gallery), indices.shape[1] + SPARE))
            for first in range(0, len(gallery), TILE_COLUMNS):
                columns = gallery[first : first + TILE_COLUMNS]
                products = tile[: count * len(columns)].reshape(count, len(columns))
                np.dot(tile_rows, columns.T, out=products)
                scan = (products, offsets[first : first + len(columns)], first)
                _spread(pool, threads, scan_products, count, *scan, *heaps)
                if watch is not None:
                    watch(part, *scan)
            bounds = None
            if heaps[0].shape[1] < len(gallery):  # no row outside the heaps is below their last
                row_norms = squared_norms(tile_rows)
                width = tile_rows.shape[1]
                slack = np.float32(SLACK * math.sqrt(width)) * (row_norms + norms.max())
                bounds = (heaps[0][:, 0] / 2 if inner else heaps[0][:, 0] + row_norms) - slack
            args = settle_arguments(
                tile_rows,
                for_kernels(gallery),
                heaps[1],
                numbers=numbers,
                bounds=bounds,
                inner=inner,
            )
            _spread(pool, threads, settle, count, *args, indices[part], values[part])


def _spread(
    pool: Executor | None, threads: int, kernel: Callable[..., Any], n: int, *args: Any
) -> None:
    """Call ``kernel(low, high, *args)`` for ranges of [0, n) on threads; raises what it raises."""
    calls = [(*ends, *args) for ends in _ranges(0, n, -(-n // (4 * threads)))]
    call_each(pool, kernel, calls)


def empty_heaps(count: int, capacity: int) -> tuple[Any, ...]:
    """What ``scan_products`` fills: values and columns, (count, capacity), and sizes, (count,)."""
    shape = (count, capacity)
    return np.empty(shape, np.float32), np.empty(shape, np.int32), np.zeros(count, np.int64)


def settle_arguments(
    rows: Floats,
    gallery: Any,
    candidates: Ints,
    row_numbers: Ints | None = None,
    numbers: Ints | None = None,
    bounds: Floats | None = None,
    inner: bool = False,
) -> tuple[Any, ...]:
    """The arguments of ``kernels.search.settle`` between ``low, high`` and ``indices, values``.

    Defaults are filled in.

    rows : (n_rows, d) the vectors whose nearest gallery rows are wanted; gallery : (n, d)
    candidates : (n_rows, K) int32, positions in the gallery, each once, -1 behind the last
    row_numbers : (n_rows,) int32, the number of a row that is itself in the gallery: it comes first
        in its own list at value 0; None if none is
    numbers : (n,) int32, the number that stands for each gallery row in results and in ties; None
        where that is its position
    bounds : (n_rows,) float32, every gallery row with a smaller value is in ``candidates``; if the
        k-th result is not below it, all rows are compared. None where ``candidates`` are enough
    inner : by minus the inner product and not by the squared Euclidean distance
    """
    if row_numbers is None:
        row_numbers = np.full(len(rows), -1, np.int32)
    if numbers is None:
        numbers = np.empty(0, np.int32)
    if bounds is None:
        bounds = np.full(len(rows), np.inf, np.float32)
    return rows, row_numbers, gallery, numbers, inner, bounds, candidates


def squared_norms(vectors: Stored) -> Floats:
    """|x|^2 of every row."""
    if isinstance(vectors, HalfRows):
        blocks = (vectors[low : low + BLOCK] for low in range(0, len(vectors), BLOCK))
        return np.concatenate([squared_norms(block) for block in blocks])
    norms: Floats = np.einsum("ij,ij->i", vectors, vectors)
    return norms


def search_pairs(
    low: int,
    high: int,
    vectors: Stored,
    start: int,
    norms: Floats,
    run: Runner,
    indices: Ints,
    values: Floats,
    farthest: Floats,
) -> None:
    """The nearest rows of rows low to high, counted from ``start`` on, and how far the farthest is.

    A row comes first in its own list.

    norms : ``squared_norms`` of all vectors; run : whose threads work
    indices, values : (n_rows, k), squared distances, ties by lower index; farthest : (n_rows,) the
        largest squared distance. All are set.
    """
    k = indices.shape[1]
    # Each thread computes small products of its own, and looks at them while they are in its cache.
    with thread_pool(run.threads) as pool, one_blas_thread():
        for begin, end in _ranges(low, high, band_rows(k, len(vectors))):
            band = _Band(vectors, norms, start + begin, start + end, k, pool, run.threads)
            band.scan()
            band.settle(indices[begin:end], values[begin:end], farthest[begin:end])


def band_rows(k: int, n: int) -> int:
    """How many rows are searched together: the more, the fewer products are computed twice."""
    return max(TILE, _BAND_BYTES // (8 * _contender_room(k, n)))


def _contender_room(k: int, n: int) -> int:
    """How many contenders there is room for in each row, of n columns for k neighbours."""
    return min(n + 1, _ROOM * (k + SPARE))


class _Band:
    """Rows low to high, which are searched together.

    contenders : the columns that may be among the nearest of each row, or be its farthest
    """

    def __init__(
        self,
        vectors: Stored,
        norms: Floats,
        low: int,
        high: int,
        k: int,
        pool: Executor | None,
        threads: int,
    ) -> None:
        self.vectors = vectors
        self.norms = norms
        self.low = low
        self.high = high
        self.k = k
        self.pool = pool
        self.threads = threads
        count = high - low
        slack = np.float32(2 * SLACK * math.sqrt(vectors.shape[1]))
        self.contenders = Contenders(
            low=np.array([low]),
            bounds=np.empty(count, np.float32),
            counts=np.zeros(count, np.int64),
            nearest=np.empty((count, _contender_room(k, len(vectors))), np.int64),
            far_bounds=np.empty(count, np.float32),
            margins=slack * (norms[low:high] + norms.max()),
            far_counts=np.zeros(count, np.int64),
            farthest=np.empty((count, _FARTHEST), np.int64),
        )

    def scan(self) -> None:
        """Find the contenders: bounds by a sample first, then all products."""
        size = -(-(self.high - self.low) // (2 * self.threads))
        tiles = _ranges(self.low, self.high, max(_LEAST_TILE, min(size, TILE)))
        sample = _sample(self.vectors)
        sample_norms = squared_norms(sample)
        call_each(self.pool, self._bound, [(tile, sample, sample_norms) for tile in tiles])
        outside = [*_ranges(0, self.low, TILE), *_ranges(self.high, len(self.vectors), TILE)]
        pairs = deque(_pairs(tiles))
        pairs.extend((tile, other) for other in outside for tile in tiles)
        locks = {tile: Lock() for tile in tiles}
        call_each(self.pool, self._scan_pairs, [(pairs, locks)] * self.threads)

    def _bound(self, tile: Range, sample: Floats, norms: Floats) -> None:
        """Set first bounds for the rows of a tile, within which almost surely k of all rows lie.

        They hold so much of the sample; norms : of the sample
        """
        mean = self.k * len(sample) / len(self.vectors)
        rank = math.ceil(mean + 2.5 * math.sqrt(mean) + 2)
        groups = len(sample)
        while groups % 2 == 0 and groups // 2 >= max(_GROUPS, 4 * rank):
            groups //= 2
        products = self.vectors[slice(*tile)] @ sample.T
        least = np.empty(groups, np.float32)
        most = np.empty(groups, np.float32)
        first = tile[0] - self.low
        first_bounds(products, norms, first, rank, least, most, self.contenders)

    def _scan_pairs(self, pairs: deque[tuple[Range, Range]], locks: dict[Range, Lock]) -> None:
        """Take pairs of tiles until there are none; every thread does."""
        workspace = np.empty(TILE * TILE, np.float32)
        while True:
            try:
                tile, other = pairs.popleft()  # atomic
            except IndexError:
                return
            self._scan(tile, other, locks, workspace)

    def _scan(self, tile: Range, other: Range, locks: dict[Range, Lock], workspace: Floats) -> None:
        """Offer the products of two tiles to the rows of both, as far as they are in the band."""
        rows = slice(*tile)
        columns = slice(*other)
        shape = (tile[1] - tile[0], other[1] - other[0])
        products = workspace[: math.prod(shape)].reshape(shape)
        np.dot(self.vectors[rows], self.vectors[columns].T, out=products)
        width = shape[1]
        words = np.zeros(-(-width // 8), np.uint64)
        # Nothing passes these: the bounds of columns that are no rows of the band.
        column_bounds = np.full(width, -np.inf, np.float32)
        column_far_bounds = np.full(width, np.inf, np.float32)
        with ExitStack() as held:
            for touched in sorted({tile, other} & locks.keys()):
                held.enter_context(locks[touched])
            both_ways = other != tile and other in locks
            if both_ways:
                in_band = slice(other[0] - self.low, other[1] - self.low)
                column_bounds[:] = self.contenders.bounds[in_band]
                column_far_bounds[:] = self.contenders.far_bounds[in_band]
            scan_pairs(
                products,
                self.norms[columns],
                other[0],
                self.norms[rows],
                tile[0],
                both_ways,
                column_bounds,
                column_far_bounds,
                min(self.k + SPARE, len(self.vectors)),
                words.view(np.uint8),
                words,
                np.empty(len(words) + 1, np.int64),
                np.empty(8 * len(words) + 1, np.int64),
                self.contenders,
            )

    def settle(self, indices: Ints, values: Floats, farthest: Floats) -> None:
        """Exact lists from the contenders."""
        count = self.high - self.low
        size = max(1, min(_SETTLED_TOGETHER, -(-count // (2 * self.threads))))
        calls = [
            (begin, end, indices[begin:end], values[begin:end], farthest[begin:end])
            for begin, end in _ranges(0, count, size)
        ]
        call_each(self.pool, self._settle, calls)

    def _settle(
        self, begin: int, end: int, indices: Ints, values: Floats, farthest: Floats
    ) -> None:
        """The lists of the band's rows begin to end."""
        first = self.low + begin
        count = end - begin
        gallery = for_kernels(self.vectors)
        rows = self.vectors[first : first + count]
        choose(begin, end, self.k, len(self.vectors), self.contenders)
        bounds = self.contenders.bounds[begin:end]
        counts = self.contenders.counts[begin:end]
        nearest = self.contenders.nearest[begin:end]
        settle_farthest(
            0,
            count,
            rows,
            gallery,
            self.contenders.far_counts[begin:end],
            self.contenders.farthest[begin:end],
            farthest,
        )
        if self.k <= _LONG:
            arrange(0, count, rows, first, gallery, counts, nearest, indices, values)
            unsettled = np.flatnonzero(bounds < 0)
        else:
            unsettled = np.arange(count)
        if len(unsettled):
            is_kept = np.arange(nearest.shape[1]) < counts[unsettled, None]
            candidates = np.where(is_kept, nearest[unsettled] & _COLUMN, -1).astype(np.int32)
            row_numbers = (first + unsettled).astype(np.int32)
            args = settle_arguments(
                rows[unsettled], gallery, candidates, row_numbers, bounds=bounds[unsettled]
            )
            lists = (indices[unsettled], values[unsettled])
            settle(0, len(unsettled), *args, *lists)
            indices[unsettled], values[unsettled] = lists


def _sample(vectors: Stored) -> Floats:
    """Some of the vectors, always the same ones, in float32.

    How many can be halved a few times, if there are enough.
    """
    n = len(vectors)
    count = min(n, max(_LEAST_SAMPLE, min(_MOST_SAMPLE, n // _SAMPLED // 64 * 64)))
    rows: Floats = vectors[np.sort(np.random.default_rng(0).choice(n, count, replace=False))]
    return rows


def _ranges(low: int, high: int, size: int) -> list[Range]:
    """[low, high) in ranges of ``size``, the last perhaps shorter."""
    return [(at, min(at + size, high)) for at in range(low, high, size)]


def _pairs(tiles: list[Range]) -> list[tuple[Range, Range]]:
    """All pairs of tiles, also with themselves, so ordered that threads rarely share a tile."""
    pairs: list[tuple[Range, Range]] = []
    for apart in range(len(tiles)):
        pairs += zip(tiles, tiles[apart:], strict=False)
    return pairs
