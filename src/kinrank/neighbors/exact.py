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
from kinrank.parallel import Array, Out, Runner
from kinrank.stored import HalfRows, Stored, for_kernels
from kinrank.threads import borrowed
from kinrank.types import Floats, Ints, Neighbors

TILE_ROWS = 512
TILE_COLUMNS = 16384
SPARE = 16
_BLOCK = 8 * TILE_ROWS
# A product of d terms in float32 is off by some 2^-24 sqrt(d) |x||y|; eight times that is safe.
SLACK = 8 * 2.0**-24


def exact_neighbors(vectors: Stored, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, the row itself first.

    Parameters
    ----------
    vectors : (n, d) float32, finite, or rows kept in float16
    k : length of the lists, the row itself counted; 1 <= k <= n

    Returns
    -------
    Neighbors
    """
    with progress.stage("neighbours", len(vectors)):
        return search_range(vectors, squared_norms(vectors), 0, len(vectors), k, run)


def exact_neighbors_and_more(
    vectors: Stored, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """As ``exact_neighbors``, and lists of ``first_k`` >= k for the first ``n_first`` rows."""
    n = len(vectors)
    norms = squared_norms(vectors)
    with progress.stage("neighbours", n):
        longer = search_range(vectors, norms, 0, n_first, first_k, run)
        rest = search_range(vectors, norms, n_first, n, k, run)
        return stacked(longer, rest, run), longer


def search_range(
    vectors: Stored, norms: Floats, low: int, high: int, k: int, run: Runner
) -> Neighbors:
    """The ``k`` nearest rows of rows low to high; norms : of ``squared_norms``."""
    # One block at a time, whose products and kernels use all threads.
    one = run.cut(_BLOCK, 1)
    args = (low, vectors, norms, Runner(run.threads))
    outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
    return Neighbors(*one.fill("neighbours", _search_block, args, high - low, *outs))


def squared_norms(vectors: Stored) -> Floats:
    """|x|^2 of every row."""
    if isinstance(vectors, HalfRows):
        parts = (vectors[low : low + _BLOCK] for low in range(0, len(vectors), _BLOCK))
        return np.concatenate([squared_norms(part) for part in parts])
    norms: Floats = np.einsum("ij,ij->i", vectors, vectors)
    return norms


def stacked(longer: Neighbors, rest: Neighbors, run: Runner) -> Neighbors:
    """Lists of the first rows, cut to the length of the others, above those of the others."""
    if len(longer) == 0:
        return rest
    n = len(longer) + len(rest)
    outs = (Out(np.int32, rest.k), Out(np.float32, rest.k), Out(np.float32))
    return Neighbors(*run.fill("neighbours", _stack_block, (longer, rest), n, *outs))


def _stack_block(low: int, high: int, longer: Neighbors, rest: Neighbors, *outs: Array) -> None:
    first = len(longer)
    early, late = slice(low, min(high, first)), slice(max(low, first), high)
    moved = slice(late.start - first, max(late.stop - first, 0))
    for out, name in zip(outs, ("indices", "distances", "farthest"), strict=True):
        width = () if out.ndim == 1 else (slice(out.shape[1]),)
        if early.start < early.stop:
            out[early] = getattr(longer, name)[(early, *width)]
        if late.start < late.stop:
            out[late] = getattr(rest, name)[moved]


def _search_block(
    low: int, high: int, start: int, vectors: Stored, norms: Floats, run: Runner,
    indices: Ints, distances: Floats, farthest: Floats,
) -> None:  # fmt: skip
    tile = np.empty(min(high - low, TILE_ROWS) * min(len(vectors), TILE_COLUMNS), np.float32)
    found = Neighbors(indices, distances, farthest)
    with borrowed(run.threads) as pool:
        for at in range(low, high, TILE_ROWS):
            rows = slice(start + at, start + min(at + TILE_ROWS, high))
            part = _search_rows(vectors, norms, rows, found.k, tile, pool, run.threads)
            own = slice(at, at + len(part))
            indices[own], distances[own], farthest[own] = (
                part.indices, part.distances, part.farthest,
            )  # fmt: skip


def _empty(n: int, k: int) -> Neighbors:
    return Neighbors(
        np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.float32)
    )


def _search_rows(
    vectors: Stored, norms: Floats, rows: slice, k: int, tile: Floats, pool: ThreadPoolExecutor,
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
    own = vectors[rows]
    for first in range(0, n, TILE_COLUMNS):
        columns = vectors[first : first + TILE_COLUMNS]
        products = tile[: count * len(columns)].reshape(count, len(columns))
        np.dot(own, columns.T, out=products)
        scan = (products, norms[first : first + len(columns)], first)
        state = (heaps, ids, sizes, tops, top_ids)
        list(pool.map(lambda part: topk.scan_products(*part, *scan, *state), parts))  # noqa: B023
    found = _empty(count, k)
    slack = np.float32(SLACK * math.sqrt(width))
    settle = (rows.start, for_kernels(vectors), norms, slack, heaps, ids, sizes, top_ids)
    out = (found.indices, found.distances, found.farthest)
    list(pool.map(lambda part: topk.settle_rows(*part, *settle, *out), parts))
    return found
