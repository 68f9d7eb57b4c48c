"""Neighbour lists shard by shard: each task searches a part of the rows, and lists are merged.

Lists are ordered by exact distances and ties by row, so the merged ones are those of one search
over all rows, bit for bit. The largest distance of a row is taken from the row that products call
the farthest; where products are too close to tell, as their rounding differs from process to
process, this one decides, as it would have alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank import progress
from kinrank.parallel import Range, Runner
from kinrank.runs.ray import shard_tasks as tasks
from kinrank.search.exact import search_range, stacked
from kinrank.search.tiles import BLOCK, TILE_COLUMNS, TILE_ROWS, squared_norms
from kinrank.types import Floats, Longs, Neighbors

if TYPE_CHECKING:
    from kinrank.runs.ray.runner import Begin, RayRunner


def find_neighbors(
    vectors: Floats, k: int, n_first: int, first_k: int, run: RayRunner
) -> tuple[Neighbors, Neighbors]:
    """The ``k`` nearest rows of every row, itself first, and ``first_k`` >= k of the first rows."""
    n, norms = len(vectors), squared_norms(vectors)
    with progress.stage("neighbours", n):
        longer = _search_range(vectors, norms, (0, n_first), first_k, run)
        rest = _search_range(vectors, norms, (n_first, n), k, run)
        return stacked(longer, rest, run), longer


def _search_range(
    vectors: Floats, norms: Floats, wanted: Range, k: int, run: RayRunner
) -> Neighbors:
    """The lists of some rows; where products do not tell the farthest, this process does."""
    low, high = wanted
    out = _empty(high - low, k)
    here, tile = Runner(run.here), TILE_ROWS
    for at in np.unique(_fill(vectors, float(norms.max()), low, out, run) // tile):
        # Tiles as this process cuts them when it is alone: the same products, the same choice.
        begin, end = low + int(at) * tile, min(low + int(at + 1) * tile, high)
        alone = search_range(vectors, norms, begin, end, k, here)
        out.farthest[begin - low : end - low] = alone.farthest
    return out


def _fill(vectors: Floats, peak: float, low: int, out: Neighbors, run: RayRunner) -> Longs:
    """Put in what shards find for rows from ``low`` on; returns those without a sure farthest."""
    storage, traffic = run.cluster.storage, run.cluster.report.stage("neighbours")
    size, before = _shard_size(len(vectors), run), storage.sent
    # A block of rows is as many tasks as there are shards, and one that merges.
    window = max(2, 2 * run.cluster.cpus * size // len(vectors))
    blocks = run.cut(run.block_size or BLOCK).blocks(len(out))
    unsure = [np.empty(0, np.int64)]

    def prepare() -> Begin:
        handles = storage.keep_parts(vectors, size)
        shards = [tasks.Shard(handle, at * size, size) for at, handle in enumerate(handles)]
        return lambda block: _begin(shards, low + block[0], low + block[1], out.k, peak, run)

    with progress.stage("neighbours", len(out)) as advance:
        for (begin, end), answer in run.gather("neighbours", prepare, blocks, traffic, window):
            out.indices[begin:end], out.distances[begin:end] = answer.arrays[:2]
            out.farthest[begin:end], sure = answer.arrays[2:]
            unsure.append(begin + np.flatnonzero(~sure))
            traffic.count(answer, end - begin, 0.0)
            advance(end - begin)
    traffic.sent += storage.sent - before
    return np.concatenate(unsure)


def _begin(
    shards: list[tasks.Shard], low: int, high: int, k: int, peak: float, run: RayRunner
) -> Any:
    """Search rows low to high in every shard, and merge."""
    rows = [
        (shard, max(low - shard.first, 0), min(high - shard.first, shard.size))
        for shard in shards
        if shard.first < high and low < shard.first + shard.size
    ]
    parts = [run.begin(tasks.search_shard, rows, shard, k, peak) for shard in shards]
    return run.begin(tasks.merge_lists, low, k, *parts)


def _shard_size(n: int, run: RayRunner) -> int:
    """Rows of a shard: one for every processor, in whole tiles."""
    tile = TILE_COLUMNS
    each = -(-n // run.cluster.cpus)
    return min(n, run.cluster.shard_rows or -(-each // tile) * tile)


def _empty(n: int, k: int) -> Neighbors:
    return Neighbors(
        np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.float32)
    )
