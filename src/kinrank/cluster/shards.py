"""Neighbour lists shard by shard: each task searches a part of the rows, and lists are merged.

Lists are ordered by exact distances and ties by row, so the merged ones are those of one search
over all rows, bit for bit. The largest distance of a row is taken from the row that products call
the farthest; where products are too close to tell, as their rounding differs from process to
process, this one decides, as it would have alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank import progress
from kinrank.cluster import shard_tasks as tasks
from kinrank.cluster.shard_tasks import Shard
from kinrank.neighbors import exact
from kinrank.parallel import Range, Runner
from kinrank.types import Floats, Neighbors

if TYPE_CHECKING:
    from kinrank.cluster.runner import Begin, RayRunner

ROWS = 8 * exact.TILE_ROWS  # that a task searches for


def find_neighbors(
    vectors: Floats, k: int, n_first: int, first_k: int, run: RayRunner
) -> tuple[Neighbors, Neighbors]:
    """The ``k`` nearest rows of every row, itself first, and ``first_k`` >= k of the first rows."""
    n = len(vectors)
    found, longer = _empty(n, k), _empty(n_first, first_k)
    search = _Search(vectors, run)
    with progress.stage("neighbours", n):
        some = run.search == "approximate" and not _pays_for(n_first, n, first_k)
        first = search.exact if some or run.search == "exact" else search.approximate
        rest = search.exact if run.search == "exact" else search.approximate
        if n_first:
            first(0, n_first, longer)
            _copy(longer, found, 0, n_first)
        lists = _empty(n - n_first, k)
        rest(n_first, n, lists)
        _copy(lists, found, n_first, n)
    if run.search == "approximate":
        from kinrank.neighbors.approximate import measured_recall

        progress.tell("recall", measured_recall(vectors, found, Runner(run.here), n_first))
    return found, longer


@dataclass(frozen=True, eq=False)
class _Search:
    """A search of some vectors on a cluster."""

    vectors: Floats
    run: RayRunner

    def exact(self, low: int, high: int, out: Neighbors) -> None:
        """Fill in the lists of rows low to high."""
        norms = exact.squared_norms(self.vectors)
        peak = float(norms.max())
        unsure = self._search(low, high, out, tasks.search_shard, (out.k, peak), lambda _: ())
        # Tiles as this process cuts them when it is alone: the same products, the same choice.
        here = Runner(self.run.here)
        for tile in np.unique(unsure // exact.TILE_ROWS):
            begin = low + int(tile) * exact.TILE_ROWS
            end = min(begin + exact.TILE_ROWS, high)
            alone = exact.search_range(self.vectors, norms, begin, end, out.k, here)
            out.farthest[begin - low : end - low] = alone.farthest

    def approximate(self, low: int, high: int, out: Neighbors) -> None:
        """As ``exact``, each shard by an index of its own."""
        from kinrank.neighbors.approximate import _landmarks

        landmarks = self.run.cluster.ray.put(_landmarks(self.vectors))
        indices: dict[int, Any] = {}

        def index_of(shard: Shard) -> tuple[Any, ...]:
            if shard.first not in indices:
                coded = self.run.coded
                indices[shard.first] = self.run.begin(tasks.build_index, shard, coded)
            return indices[shard.first], landmarks

        self._search(low, high, out, tasks.search_index, (out.k,), index_of)
        np.maximum(out.farthest, out.distances[:, -1], out=out.farthest)

    def _search(
        self, low: int, high: int, out: Neighbors, task: Callable[..., Any], same: tuple[Any, ...],
        more: Callable[[Shard], tuple[Any, ...]],
    ) -> Any:  # fmt: skip
        """Run a task for every block of rows and every shard; returns rows without a farthest."""
        run, traffic = self.run, self.run.cluster.report.stage("neighbours")
        storage, size = run.cluster.storage, self._shard_size()
        before, unsure = storage.sent, []

        def prepare() -> Begin:
            handles = storage.keep_parts(self.vectors, size)
            shards = [Shard(handle, at * size, size) for at, handle in enumerate(handles)]

            def begin(block: Range) -> Any:
                first, last = low + block[0], low + block[1]
                rows = [
                    (shard, max(first - shard.first, 0), min(last - shard.first, size))
                    for shard in shards
                    if shard.first < last and first < shard.first + size
                ]
                parts = [run.begin(task, rows, shard, *same, *more(shard)) for shard in shards]
                return run.begin(tasks.merge_lists, first, out.k, *parts)

            return begin

        blocks = run.cut(run.block_size or ROWS).blocks(high - low)
        window = max(2, 2 * run.cluster.cpus // max(1, -(-len(self.vectors) // size)))
        with progress.stage("neighbours", high - low) as advance:
            for (begin, end), answer in run.gather("neighbours", prepare, blocks, traffic, window):
                out.indices[begin:end], out.distances[begin:end] = answer.arrays[:2]
                out.farthest[begin:end], sure = answer.arrays[2:]
                unsure.append(begin + np.flatnonzero(~sure))
                traffic.count(answer, end - begin, 0.0)
                advance(end - begin)
        traffic.sent += storage.sent - before
        return np.concatenate(unsure)

    def _shard_size(self) -> int:
        n, tile = len(self.vectors), exact.TILE_COLUMNS
        each = -(-n // self.run.cluster.cpus)
        return min(n, self.run.cluster.shard_rows or -(-each // tile) * tile)


def _pays_for(n_queries: int, n: int, k: int) -> bool:
    from kinrank.neighbors.approximate import pays_for

    return pays_for(n_queries, n, k)


def _empty(n: int, k: int) -> Neighbors:
    return Neighbors(
        np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.float32)
    )


def _copy(part: Neighbors, whole: Neighbors, low: int, high: int) -> None:
    whole.indices[low:high] = part.indices[:, : whole.k]
    whole.distances[low:high] = part.distances[:, : whole.k]
    whole.farthest[low:high] = part.farthest
