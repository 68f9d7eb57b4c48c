"""Neighbour lists shard by shard: each task searches a part of the rows, and lists are merged.

Lists are ordered by exact distances and ties by row, so the merged ones are those of one search
over all rows, bit for bit. The largest distance of a row is taken from the row that products call
the farthest; where products are too close to tell, as their rounding differs from process to
process, this one decides, as it would have alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kinrank.kernels import shards as kernels
from kinrank.kernels.search import merge
from kinrank.parallel import Runner
from kinrank.runs.ray.handles import Handle, RowRange
from kinrank.runs.ray.tasks import Answer
from kinrank.search.exact import ExactSearch
from kinrank.search.tiles import BLOCK, SLACK, TILE_COLUMNS, TILE_ROWS, search_tiles, squared_norms
from kinrank.types import Floats, Ints, Neighbors

if TYPE_CHECKING:
    from kinrank.runs.ray.runner import Begin, RayRunner


class ShardLists(NamedTuple):
    """What a shard knows of some rows.

    ids, values : (m, k) its nearest rows, ascending by (value, id)
    tops : (m,) the largest |y|^2 - 2 xy; least, most : (m,) exact distances of those near it
    margins : (m,) how near that is
    """

    ids: Ints
    values: Floats
    tops: Floats
    least: Floats
    most: Floats
    margins: Floats


@dataclass(frozen=True, eq=False)
class ShardSearch(ExactSearch):
    """An exact search whose rows are shards on the nodes of a cluster.

    Queries that are no rows are few, so this process answers them.
    """

    vectors: Floats
    run: RayRunner

    def search_range(self, norms: Floats, low: int, high: int, k: int) -> Neighbors:
        """As ``ExactSearch``; where products do not tell the farthest, this process does."""
        vectors = self.vectors
        run = self.run
        lists = (high - low, k)
        out = Neighbors(
            np.empty(lists, np.int32), np.empty(lists, np.float32), np.empty(high - low, np.float32)
        )
        n = len(vectors)
        cpus = run.cluster.cpus
        peak = float(norms.max())
        # One shard for every processor, in whole tiles.
        size = min(n, run.cluster.shard_rows or -(-n // (cpus * TILE_COLUMNS)) * TILE_COLUMNS)
        # A block of rows is as many tasks as there are shards, and one that merges.
        window = max(2, 2 * cpus * size // n)
        blocks = run.cut(run.block_size or BLOCK).blocks(len(out))
        unsure: set[int] = set()

        def prepare() -> Begin:
            shards = run.cluster.storage.keep_shards(vectors, size)
            return lambda block: _begin(shards, size, low + block[0], low + block[1], k, peak, run)

        for (begin, end), answer in run.gather("neighbours", prepare, blocks, window):
            rows = slice(begin, end)
            out.indices[rows], out.distances[rows], out.farthest[rows], sure = answer.arrays
            unsure |= {*((begin + np.flatnonzero(~sure)) // TILE_ROWS).tolist()}
        alone = ExactSearch(vectors, Runner(run.here))
        for tile in sorted(unsure):
            # Tiles as this process cuts them when it is alone: the same products, the same choice.
            begin = low + tile * TILE_ROWS
            end = min(low + (tile + 1) * TILE_ROWS, high)
            out.farthest[begin - low : end - low] = alone.search_range(
                norms, begin, end, k
            ).farthest
        return out


def _begin(
    shards: list[Handle], size: int, low: int, high: int, k: int, peak: float, run: RayRunner
) -> Any:
    """Search rows low to high in every shard, and merge."""
    firsts = range(0, size * len(shards), size)
    rows = [
        RowRange(shard, max(low - first, 0), min(high - first, size))
        for shard, first in zip(shards, firsts, strict=True)
        if first < high and low < first + size
    ]
    lists = [
        run.cluster.begin(search_shard, rows, shard, first, k, peak)
        for shard, first in zip(shards, firsts, strict=True)
    ]
    return run.cluster.begin(merge_lists, low, k, *lists)


def search_shard(
    queries: list[Handle], shard: Handle, first: int, k: int, peak: float
) -> ShardLists:
    """The ``k`` nearest rows of a shard, exactly.

    queries : the rows that are searched for, in pieces; first : the number of the shard's first row
    peak : the largest squared norm of all rows
    """
    pieces = [handle.open() for handle in queries]
    rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    vectors = shard.open()
    m = len(rows)
    lists = (m, min(k, len(vectors)))
    room = (m, kernels.CONTENDERS)
    nearest = ShardLists(
        np.empty(lists, np.int32), np.empty(lists, np.float32), *np.empty((4, m), np.float32)
    )
    nearest.tops[:] = -np.inf
    nearest.margins[:] = 2 * SLACK * math.sqrt(rows.shape[1]) * (squared_norms(rows) + peak)
    far_values = np.empty(room, np.float32)
    far_ids = np.empty(room, np.int64)
    far_counts = np.zeros(m, np.int64)

    def watch(part: slice, products: Floats, norms: Floats, column: int) -> None:
        kernels.keep_farthest(
            0,
            len(products),
            products,
            norms,
            column,
            nearest.margins[part],
            nearest.tops[part],
            far_values[part],
            far_ids[part],
            far_counts[part],
        )

    search_tiles(rows, vectors, squared_norms(vectors), nearest.ids, nearest.values, watch=watch)
    kernels.settle_farthest(0, m, rows, vectors, far_ids, far_counts, nearest.least, nearest.most)
    nearest.ids[:] += np.int32(first)
    return nearest


def merge_lists(start: int, k: int, *shards: ShardLists) -> Answer:
    """Lists of all shards as one: indices, distances, the farthest, and whether that is certain."""
    # Copies: kernels are compiled for arrays that are not marked as read-only.
    ids = np.array(shards[0].ids)
    values = np.array(shards[0].values)
    m = len(ids)
    for shard in shards[1:]:
        shape = (m, min(k, ids.shape[1] + shard.ids.shape[1]))
        merged = (np.empty(shape, np.int32), np.empty(shape, np.float32))
        merge(0, m, ids, values, np.array(shard.ids), np.array(shard.values), *merged)
        ids, values = merged
    # The row itself comes first; one that is not in its list, after copies of it, takes a place.
    rows = np.arange(start, start + m, dtype=np.int32)[:, None]
    others = ids != rows
    others[others.all(axis=1), -1] = False
    zeros = np.zeros((m, 1), np.float32)
    lists = (
        np.hstack([rows, ids[others].reshape(m, k - 1)]),
        np.hstack([zeros, values[others].reshape(m, k - 1)]),
    )
    tops = np.stack([shard.tops for shard in shards])
    racing = tops >= tops.max(axis=0) - shards[0].margins
    least = np.where(racing, [shard.least for shard in shards], np.inf).min(axis=0)
    most = np.where(racing, [shard.most for shard in shards], -np.inf).max(axis=0)
    return Answer((*lists, most.astype(np.float32), least == most))
