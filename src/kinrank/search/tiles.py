"""Exact lists of queries in a gallery: blockwise products choose candidates, exact values decide.

Memory O(n_rows k) beside one tile of products. Candidates are all that rounding leaves in doubt,
so that neither the number of threads nor the block size can change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kinrank.kernels.search import settle
from kinrank.kernels.topk import scan_products
from kinrank.parallel import borrowed
from kinrank.search.stored import HalfRows, Stored, for_kernels
from kinrank.types import Floats, Ints

TILE_ROWS = 512
TILE_COLUMNS = 16384
BLOCK = 8 * TILE_ROWS
SPARE = 16
# A product of d terms in float32 is off by some 2^-24 sqrt(d) |x||y|; eight times that is safe.
SLACK = 8 * 2.0**-24

# Sees each tile: its rows, their products, what is added to them, and the first column.
Watch: TypeAlias = Callable[[slice, Floats, Floats, int], None]


def search_tiles(
    rows: Stored, gallery: Stored, norms: Floats, indices: Ints, values: Floats, *,
    threads: int = 1, inner: bool = False, watch: Watch | None = None,
) -> None:  # fmt: skip
    """Fill in the nearest gallery rows of each row, ascending by value, ties by lower index.

    norms : ``squared_norms`` of the gallery
    indices, values : (n_rows, k); squared distances, or with ``inner`` minus the inner products
    """
    tile = np.empty(min(len(rows), TILE_ROWS) * min(len(gallery), TILE_COLUMNS), np.float32)
    with borrowed(threads) as pool:
        searched = _TiledGallery(gallery, norms, inner, tile, watch, pool, threads)
        for low in range(0, len(rows), TILE_ROWS):
            tile_rows = slice(low, min(low + TILE_ROWS, len(rows)))
            lists = (indices[tile_rows], values[tile_rows])
            searched.search(rows[tile_rows], tile_rows, *lists)


@dataclass(frozen=True, eq=False)
class _TiledGallery:
    """What is searched, and room for one tile of products."""

    rows: Stored
    norms: Floats
    inner: bool
    tile: Floats
    watch: Watch | None
    pool: Executor
    threads: int

    def search(self, rows: Floats, part: slice, indices: Ints, values: Floats) -> None:
        """The lists of a few rows."""
        count, gallery = len(rows), for_kernels(self.rows)
        heaps = empty_heaps(count, min(len(gallery), indices.shape[1] + SPARE))
        self._scan(rows, part, heaps)
        bounds = self._bounds(rows, heaps[0])
        args = settling(rows, gallery, heaps[1], bounds=bounds, inner=self.inner)
        self._spread(settle, count, *args, indices, values)

    def _scan(self, rows: Floats, part: slice, heaps: tuple[Any, ...]) -> None:
        """Put the columns of the best products into the heaps."""
        count, offsets = len(rows), np.zeros_like(self.norms) if self.inner else self.norms
        for first in range(0, len(self.rows), TILE_COLUMNS):
            columns = self.rows[first : first + TILE_COLUMNS]
            products = self.tile[: count * len(columns)].reshape(count, len(columns))
            np.dot(rows, columns.T, out=products)
            scan = (products, offsets[first : first + len(columns)], first)
            self._spread(scan_products, count, *scan, *heaps)
            if self.watch is not None:
                self.watch(part, *scan)

    def _bounds(self, rows: Floats, heaps: Floats) -> Floats | None:
        """What no row outside the heaps is below: their last, less what products may be off."""
        if heaps.shape[1] == len(self.rows):
            return None
        norms = squared_norms(rows)
        slack = np.float32(SLACK * math.sqrt(rows.shape[1])) * (norms + self.norms.max())
        bounds: Floats = heaps[:, 0] / 2 - slack if self.inner else heaps[:, 0] + norms - slack
        return bounds

    def _spread(self, kernel: Callable[..., Any], count: int, *args: Any) -> None:
        """Run a kernel over ranges of rows; raises what it raises."""
        step = -(-count // (4 * self.threads))
        ranges = [(low, min(count, low + step)) for low in range(0, count, step)]
        list(self.pool.map(lambda ends: kernel(*ends, *args), ranges))


def empty_heaps(count: int, capacity: int) -> tuple[Any, ...]:
    """What ``scan_products`` fills: values, columns and sizes."""
    places = (count, capacity)
    return np.empty(places, np.float32), np.empty(places, np.int32), np.zeros(count, np.int64)


def settling(
    rows: Floats, gallery: Any, candidates: Ints, names: Ints | None = None,
    numbers: Ints | None = None, bounds: Floats | None = None, inner: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
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
