"""Exact lists of queries in a gallery: blockwise products choose candidates, exact values decide.

Memory O(n_rows k) beside one tile of products. Candidates are all that rounding leaves in doubt,
so that neither the number of threads nor the block size can change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
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
    offsets = np.zeros_like(norms) if inner else norms
    with borrowed(threads) as pool:
        for low in range(0, len(rows), TILE_ROWS):
            part = slice(low, min(low + TILE_ROWS, len(rows)))
            some, count = rows[part], part.stop - low
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
            args = settling(some, for_kernels(gallery), heaps[1], bounds=bounds, inner=inner)
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
