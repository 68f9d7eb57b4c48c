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
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from kinrank.kernels.pairs import arrange, choose, first_bounds, scan_pairs, settle_farthest
from kinrank.kernels.records import Contenders
from kinrank.kernels.search import settle
from kinrank.kernels.topk import scan_products
from kinrank.parallel import Range, borrowed
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
_ROOM = 3  # times what must be kept of a row
_CONTENDERS = 8
_SAMPLED = 20  # one row of so many is in the sample
_LEAST_SAMPLE = 64
_MOST_SAMPLE = 1024
_GROUPS = 64  # of the sample, whose least values bound
_LONG = 2048  # lists that are better sorted than arranged
_BLOCK = 256  # rows that are settled at a time

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
    numbers : (n,) what gallery rows go by; None or nothing where that is their position
    indices, values : (n_rows, k); squared distances, or with ``inner`` minus the inner products
    """
    tile = np.empty(min(len(rows), TILE_ROWS) * min(len(gallery), TILE_COLUMNS), np.float32)
    offsets = np.zeros_like(norms) if inner else norms
    with borrowed(threads) as pool:
        for low in range(0, len(rows), TILE_ROWS):
            part = slice(low, min(low + TILE_ROWS, len(rows)))
            some = rows[part]
            count = part.stop - low
            heaps = empty_heaps(count, min(len(gallery), indices.shape[1] + SPARE))
            for first in range(0, len(gallery), TILE_COLUMNS):
                columns = gallery[first : first + TILE_COLUMNS]
                products = tile[: count * len(columns)].reshape(count, len(columns))
                np.dot(some, columns.T, out=products)
                scan = (products, offsets[first : first + len(columns)], first)
                _spread(pool, threads, scan_products, count, *scan, *heaps)
                if watch is not None:
                    watch(part, *scan)
            bounds = None
            if heaps[0].shape[1] < len(gallery):  # no row outside the heaps is below their last
                own = squared_norms(some)
                slack = np.float32(SLACK * math.sqrt(some.shape[1])) * (own + norms.max())
                bounds = (heaps[0][:, 0] / 2 if inner else heaps[0][:, 0] + own) - slack
            args = settling(
                some, for_kernels(gallery), heaps[1], numbers=numbers, bounds=bounds, inner=inner
            )
            _spread(pool, threads, settle, count, *args, indices[part], values[part])


def _spread(pool: Executor, threads: int, kernel: Callable[..., Any], n: int, *args: Any) -> None:
    """Run a kernel over ranges of rows; raises what it raises."""
    step = -(-n // (4 * threads))
    ranges = [(low, min(n, low + step)) for low in range(0, n, step)]
    list(pool.map(lambda ends: kernel(*ends, *args), ranges))


def empty_heaps(count: int, capacity: int) -> tuple[Any, ...]:
    """What ``scan_products`` fills: values, columns and sizes."""
    places = (count, capacity)
    return np.empty(places, np.float32), np.empty(places, np.int32), np.zeros(count, np.int64)


def settling(
    rows: Floats,
    gallery: Any,
    candidates: Ints,
    names: Ints | None = None,
    numbers: Ints | None = None,
    bounds: Floats | None = None,
    inner: bool = False,
) -> tuple[Any, ...]:
    """The arguments of ``kernels.search.settle`` before its results."""
    names = np.full(len(rows), -1, np.int32) if names is None else names
    numbers = np.empty(0, np.int32) if numbers is None else numbers
    bounds = np.full(len(rows), np.inf, np.float32) if bounds is None else bounds
    return rows, names, gallery, numbers, inner, bounds, candidates


def squared_norms(vectors: Stored) -> Floats:
    """|x|^2 of every row."""
    if isinstance(vectors, HalfRows):
        blocks = (vectors[low : low + BLOCK] for low in range(0, len(vectors), BLOCK))
        return np.concatenate([squared_norms(block) for block in blocks])
    norms: Floats = np.einsum("ij,ij->i", vectors, vectors)
    return norms


def search_pairs(
    vectors: Stored,
    norms: Floats,
    low: int,
    indices: Ints,
    values: Floats,
    farthest: Floats,
    threads: int,
) -> None:
    """The nearest rows of those from ``low`` on, each itself first, and how far the farthest is.

    norms : ``squared_norms`` of all vectors
    indices, values : (n_rows, k), squared distances, ties by lower index; farthest : (n_rows,)
    """
    size = band_rows(indices.shape[1], len(vectors))
    k = indices.shape[1]
    # Each thread computes small products of its own, and looks at them while they are in its cache.
    with borrowed(threads) as pool, one_blas_thread():
        for begin, end in _ranges(0, len(indices), size):
            band = _Band(vectors, norms, (low + begin, low + end), k, pool, threads)
            band.scan()
            band.settle(indices[begin:end], values[begin:end], farthest[begin:end])


def band_rows(k: int, n: int) -> int:
    """How many rows are searched together: the more, the fewer products are computed twice."""
    return max(TILE, _BAND_BYTES // (8 * _room(k, n)))


def _room(k: int, n: int) -> int:
    return min(n + 1, _ROOM * (k + SPARE))


class _Band:
    """Rows low to high, and what is known of them so far, the contenders."""

    def __init__(
        self, vectors: Stored, norms: Floats, ends: Range, k: int, pool: Executor, threads: int
    ) -> None:
        self.vectors = vectors
        self.norms = norms
        self.k = k
        self.pool = pool
        self.threads = threads
        self.low, self.high = low, high = ends
        count = high - low
        room = _room(k, len(vectors))
        slack = np.float32(2 * SLACK * math.sqrt(vectors.shape[1]))
        self.contenders = Contenders(
            low=np.array([low]),
            bounds=np.empty(count, np.float32),
            counts=np.zeros(count, np.int64),
            nearest=np.empty((count, room), np.int64),
            far_bounds=np.empty(count, np.float32),
            margins=slack * (norms[low:high] + norms.max()),
            far_counts=np.zeros(count, np.int64),
            farthest=np.empty((count, _CONTENDERS), np.int64),
        )

    def scan(self) -> None:
        """Find the columns that may be neighbours, or the farthest."""
        size = -(-(self.high - self.low) // (2 * self.threads))
        tiles = list(_ranges(self.low, self.high, max(_LEAST_TILE, min(size, TILE))))
        sample = _sample(self.vectors)
        norms = squared_norms(sample)
        list(self.pool.map(lambda tile: self._bound(tile, sample, norms), tiles))
        locks = {tile: Lock() for tile in tiles}
        others = [*_ranges(0, self.low, TILE), *_ranges(self.high, len(self.vectors), TILE)]
        pairs = deque([*_pairs(tiles), *((tile, other) for other in others for tile in tiles)])
        most = max(end - begin for begin, end in tiles) * max(b - a for a, b in [*tiles, *others])
        list(self.pool.map(lambda _: self._scan_all(pairs, locks, most), range(self.threads)))

    def _bound(self, tile: Range, sample: Floats, norms: Floats) -> None:
        """First bounds: that hold as much of the sample as almost surely makes k of all rows."""
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

    def _scan_all(
        self, pairs: deque[tuple[Range, Range]], locks: dict[Range, Lock], most: int
    ) -> None:
        """Take pairs of tiles, which have at most ``most`` products, until there are none."""
        room = np.empty(most, np.float32)
        while True:
            try:
                tile, other = pairs.popleft()  # atomic
            except IndexError:
                return
            self._scan(tile, other, locks, room)

    def _scan(self, tile: Range, other: Range, locks: dict[Range, Lock], room: Floats) -> None:
        """Offer the products of two tiles to the rows of both, as far as they are in the band."""
        rows = slice(*tile)
        columns = slice(*other)
        shape = (tile[1] - tile[0], other[1] - other[0])
        products = room[: math.prod(shape)].reshape(shape)
        np.dot(self.vectors[rows], self.vectors[columns].T, out=products)
        keep = min(self.k + SPARE, len(self.vectors))
        width = products.shape[1]
        words = np.zeros(-(-width // 8), np.uint64)
        # Nothing passes these: the bounds of columns that are no rows of the band.
        column_bounds = np.full(width, -np.inf, np.float32)
        column_far_bounds = np.full(width, np.inf, np.float32)
        filled_words = np.empty(len(words) + 1, np.int64)
        hits = np.empty(8 * len(words) + 1, np.int64)
        with ExitStack() as held:
            for touched in sorted({tile, other} & locks.keys()):
                held.enter_context(locks[touched])
            mutual = other != tile and other in locks
            if mutual:
                part = slice(other[0] - self.low, other[1] - self.low)
                column_bounds[:] = self.contenders.bounds[part]
                column_far_bounds[:] = self.contenders.far_bounds[part]
            scan_pairs(
                products,
                self.norms[columns],
                other[0],
                self.norms[rows],
                tile[0],
                mutual,
                column_bounds,
                column_far_bounds,
                keep,
                words.view(np.uint8),
                words,
                filled_words,
                hits,
                self.contenders,
            )

    def settle(self, indices: Ints, values: Floats, farthest: Floats) -> None:
        """Exact lists from what was found."""

        def block(ends: Range) -> None:
            part = slice(*ends)
            self._settle(*ends, indices[part], values[part], farthest[part])

        count = self.high - self.low
        size = max(1, min(_BLOCK, -(-count // (2 * self.threads))))
        list(self.pool.map(block, _ranges(0, count, size)))

    def _settle(
        self, begin: int, end: int, indices: Ints, values: Floats, farthest: Floats
    ) -> None:
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
        slow = np.arange(count) if self.k > _LONG else np.flatnonzero(bounds < 0)
        if self.k <= _LONG:
            arrange(0, count, rows, first, gallery, counts, nearest, indices, values)
        if len(slow):
            kept = np.arange(nearest.shape[1]) < counts[slow, None]
            candidates = np.where(kept, nearest[slow] & 0x7FFFFFFF, -1).astype(np.int32)
            names = (first + slow).astype(np.int32)
            lists = (indices[slow], values[slow])
            args = settling(rows[slow], gallery, candidates, names, bounds=bounds[slow])
            settle(0, len(slow), *args, *lists)
            indices[slow], values[slow] = lists


def _sample(vectors: Stored) -> Floats:
    """Some rows, always the same; a number that can be halved a few times, if there are enough."""
    n = len(vectors)
    count = min(n, max(_LEAST_SAMPLE, min(_MOST_SAMPLE, n // _SAMPLED // 64 * 64)))
    rows: Floats = vectors[np.sort(np.random.default_rng(0).choice(n, count, replace=False))]
    return rows


def _ranges(low: int, high: int, size: int) -> Iterator[Range]:
    return ((at, min(at + size, high)) for at in range(low, high, size))


def _pairs(tiles: list[Range]) -> Iterator[tuple[Range, Range]]:
    """Every two, and each with itself, in an order in which threads rarely want the same tile."""
    for apart in range(len(tiles)):
        yield from zip(tiles, tiles[apart:], strict=False)
