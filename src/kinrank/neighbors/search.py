"""Exact search of queries in a gallery: blockwise products choose candidates, exact values decide.

Time O(n_queries n_gallery d), memory O(n_queries k) beside one tile of products. Tiles are always
cut at the same places, so that neither threads nor block sizes can change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kinrank import progress
from kinrank.kernels import search as kernels
from kinrank.kernels.lanes import LANES
from kinrank.kernels.topk import scan_products
from kinrank.neighbors.exact import SLACK, SPARE, TILE_COLUMNS, TILE_ROWS, squared_norms
from kinrank.ordering import ascending
from kinrank.parallel import Runner
from kinrank.stored import Stored, for_kernels
from kinrank.threads import borrowed
from kinrank.types import Floats, Ints

Measure = Literal["squared", "inner"]
_CELLS = 1 << 22  # of a dense block


@dataclass(frozen=True, eq=False)
class Found:
    """Rows of the gallery for each query, ascending by value, ties by lower index.

    indices : (n_queries, k) int32
    values : (n_queries, k) float32, squared Euclidean distances or minus inner products
    """

    indices: Ints
    values: Floats


def exact_search(
    queries: Stored, gallery: Stored, k: int, run: Runner, measure: Measure = "squared"
) -> Found:
    """The ``k`` nearest gallery rows of each query, 1 <= k <= len(gallery)."""
    if 4 * k > len(gallery):
        return _search_all(queries, gallery, k, run, measure)
    found = Found(np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32))
    norms = squared_norms(gallery)
    tile = np.empty(min(len(queries), TILE_ROWS) * min(len(gallery), TILE_COLUMNS), np.float32)
    stage = progress.stage("search", len(queries))
    with borrowed(run.threads) as pool, stage as advance:
        for start in range(0, len(queries), TILE_ROWS):
            rows = queries[start : start + TILE_ROWS]
            part = slice(start, start + len(rows))
            out = Found(found.indices[part], found.values[part])
            _search_rows(rows, gallery, norms, measure == "inner", tile, out, pool, run.threads)
            advance(len(rows))
    return found


def _search_rows(
    rows: Floats, gallery: Stored, norms: Floats, inner: bool, tile: Floats, found: Found,
    pool: ThreadPoolExecutor, threads: int,
) -> None:  # fmt: skip
    """Fill in the lists of a few queries."""
    count, capacity = len(rows), min(len(gallery), found.indices.shape[1] + SPARE)
    heaps, ids = np.empty((count, capacity), np.float32), np.empty((count, capacity), np.int32)
    sizes, tops = np.zeros(count, np.int64), np.full(count, np.inf, np.float32)
    top_ids = np.zeros(count, np.int64)  # with tops: the farthest, which nobody asks for here
    offsets = np.zeros_like(norms) if inner else norms
    step = -(-count // (4 * threads))
    parts = [(low, min(count, low + step)) for low in range(0, count, step)]
    for first in range(0, len(gallery), TILE_COLUMNS):
        columns = gallery[first : first + TILE_COLUMNS]
        products = tile[: count * len(columns)].reshape(count, len(columns))
        np.dot(rows, columns.T, out=products)
        scan = (products, offsets[first : first + len(columns)], first)
        _spread(pool, parts, scan_products, *scan, heaps, ids, sizes, tops, top_ids)
    own = squared_norms(rows)
    slack = SLACK * math.sqrt(rows.shape[1]) * (own + norms.max())
    margins = np.stack([np.zeros_like(own) if inner else own, slack], axis=1).astype(np.float32)
    out = (found.indices, found.values)
    args = (rows, for_kernels(gallery), inner, margins, heaps, ids, sizes, *out)
    _spread(pool, parts, kernels.settle_queries, *args)


def _spread(
    pool: ThreadPoolExecutor, parts: list[tuple[int, int]], kernel: Callable[..., Any], *args: Any
) -> None:
    """Run a kernel over ranges of rows; raises what it raises."""
    list(pool.map(lambda part: kernel(*part, *args), parts))


def _search_all(queries: Stored, gallery: Stored, k: int, run: Runner, measure: Measure) -> Found:
    """As ``exact_search``, by sorting all values of a query."""
    found = Found(np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32))

    def some(low: int, high: int) -> None:
        values = dense_search(queries[low:high], gallery, measure)
        for row, own in enumerate(values, start=low):
            order = ascending(own, k)
            found.indices[row], found.values[row] = order, own[order]

    few(run, len(queries), len(gallery)).map("search", some, len(queries))
    return found


def dense_search(queries: Floats, gallery: Stored, measure: Measure = "squared") -> Floats:
    """All values of a few queries, (n_queries, n_gallery); for blocks only."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    rows = for_kernels(gallery)
    kernels.dense_values(0, len(queries), queries, rows, measure == "inner", out)
    return out


def few(run: Runner, n_rows: int, n_columns: int, together: int = 1) -> Runner:
    """A runner whose dense blocks of ``n_columns`` stay near the caches.

    together : rows that cost no more than one of them
    """
    size = max(1, min(_CELLS // n_columns, -(-n_rows // (4 * run.threads))))
    size = max(size, min(together, -(-n_rows // run.threads)))
    # A multiple of the lanes that kernels work in, as long as every thread has work.
    return Runner(run.threads, -(-size // LANES) * LANES if size > LANES // 2 else size)
