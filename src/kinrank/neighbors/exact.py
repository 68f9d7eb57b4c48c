"""Exact nearest rows: blockwise products choose candidates, exact distances decide.

Time O(n^2 d), memory O(n k) beside one tile of products. Tiles are always cut at the same rows and
columns, so that neither the number of threads nor the block size can change a bit.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from kinrank import progress
from kinrank.kernels import topk
from kinrank.parallel import Runner
from kinrank.types import Floats, Neighbors

TILE_ROWS = 512
TILE_COLUMNS = 16384
SPARE = 16
# A product of d terms in float32 is off by some 2^-24 sqrt(d) |x||y|; eight times that is safe.
SLACK = 8 * 2.0**-24


def exact_neighbors(vectors: Floats, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, the row itself first.

    Parameters
    ----------
    vectors : (n, d) float32, finite
    k : length of the lists, the row itself counted; 1 <= k <= n

    Returns
    -------
    Neighbors
    """
    return exact_neighbors_and_more(vectors, k, 0, k, run)[0]


def exact_neighbors_and_more(
    vectors: Floats, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """As ``exact_neighbors``, and lists of ``first_k`` >= k for the first ``n_first`` rows."""
    n = len(vectors)
    norms = np.einsum("ij,ij->i", vectors, vectors)
    found, longer = _empty(n, k), _empty(n_first, first_k)
    tile = np.empty(min(n, TILE_ROWS) * min(n, TILE_COLUMNS), np.float32)
    with ThreadPoolExecutor(run.threads) as pool, progress.stage("neighbours", n) as advance:
        for rows in (*_tiles(0, n_first), *_tiles(n_first, n)):
            early = rows.start < n_first
            length = first_k if early else k
            part = _search_rows(vectors, norms, rows, length, tile, pool, run.threads)
            _copy(part, found, rows)
            if early:
                _copy(part, longer, rows)
            advance(rows.stop - rows.start)
    return found, longer


def _tiles(low: int, high: int) -> list[slice]:
    return [slice(at, min(at + TILE_ROWS, high)) for at in range(low, high, TILE_ROWS)]


def _empty(n: int, k: int) -> Neighbors:
    return Neighbors(
        np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.float32)
    )


def _copy(part: Neighbors, whole: Neighbors, rows: slice) -> None:
    whole.indices[rows] = part.indices[:, : whole.k]
    whole.distances[rows] = part.distances[:, : whole.k]
    whole.farthest[rows] = part.farthest


def _search_rows(
    vectors: Floats, norms: Floats, rows: slice, k: int, tile: Floats, pool: ThreadPoolExecutor,
    threads: int,
) -> Neighbors:  # fmt: skip
    """The lists of a few rows."""
    n, width = vectors.shape
    count, capacity = rows.stop - rows.start, min(n, k + SPARE)
    heaps, ids = np.empty((count, capacity), np.float32), np.empty((count, capacity), np.int32)
    sizes, top_ids = np.zeros(count, np.int64), np.full(count, rows.start, np.int64)
    tops = np.full(count, -np.inf, np.float32)
    step = -(-count // (4 * threads))
    parts = [(low, min(count, low + step)) for low in range(0, count, step)]
    for first in range(0, n, TILE_COLUMNS):
        columns = vectors[first : first + TILE_COLUMNS]
        products = tile[: count * len(columns)].reshape(count, len(columns))
        np.dot(vectors[rows], columns.T, out=products)
        scan = (products, norms[first : first + len(columns)], first)
        state = (heaps, ids, sizes, tops, top_ids)
        list(pool.map(lambda part: topk.scan_products(*part, *scan, *state), parts))  # noqa: B023
    found = _empty(count, k)
    slack = np.float32(SLACK * math.sqrt(width))
    settle = (rows.start, vectors, norms, slack, heaps, ids, sizes, top_ids)
    out = (found.indices, found.distances, found.farthest)
    list(pool.map(lambda part: topk.settle_rows(*part, *settle, *out), parts))
    return found
