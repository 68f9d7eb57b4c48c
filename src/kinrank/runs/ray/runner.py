"""Blocks of rows as tasks on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import ClusterError
from kinrank.parallel import Out, Range, Runner, join_blocks
from kinrank.runs.ray import tasks
from kinrank.runs.ray.failures import explained, is_lost
from kinrank.runs.ray.handles import Array, Kind
from kinrank.runs.ray.job import Job
from kinrank.runs.ray.storage import Folder
from kinrank.types import Neighbors, SparseRows

if TYPE_CHECKING:
    from kinrank.runs.ray.session import Cluster
    from kinrank.runs.ray.traffic import Traffic

T = TypeVar("T")

AHEAD = 4  # tasks for each processor that are waiting or running at a time
LOOKS = 4  # blocks of a stage whose reading is measured

Begin = Callable[[Range], Any]


@dataclass(frozen=True)
class RayRunner(Runner):
    """A runner whose ``rows`` and ``fill`` are tasks; everything else happens here.

    threads : processors of the cluster, which decide how many blocks there are
    here : threads of this process, for ``map``
    """

    cluster: Cluster = field(kw_only=True)
    here: int = field(default=1, kw_only=True)

    def rows(
        self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], n: int, n_columns: int
    ) -> SparseRows:
        storage, parts = self.cluster.storage, {}
        # A name of its own: a worker that was given up may still write when the next stage runs.
        stage = str(storage.new_file()) if isinstance(storage, Folder) else None
        begin = self._beginner(tasks.rows_block, kernel, args, n, lambda _: stage)
        for (low, high), answer in self._answers(name, begin, n):
            lengths, *rest = answer.arrays
            sent = [len(array) for array in rest] if stage is None else []
            if len(lengths) != high - low or any(count != lengths.sum() for count in sent):
                raise ClusterError(
                    f"A worker must send {high - low} rows of the stage {name!r}, and as many "
                    f"entries as it says, got {len(lengths)} rows and {sent} entries."
                )
            parts[low] = answer.arrays
        if not isinstance(storage, Folder):
            return join_blocks([parts.pop(low) for low in sorted(parts)], n, n_columns)
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.concatenate([parts[low][0] for low in sorted(parts)]), out=indptr[1:])
        counts = {low: int(parts[low][0].sum()) for low in sorted(parts)}
        arrays = [
            storage.join(
                {tasks.part_file(str(stage), low, at): count for low, count in counts.items()},
                dtype,
            )
            for at, dtype in enumerate(array.dtype for array in parts[0][1:])
        ]
        return SparseRows(indptr, arrays[0], arrays[1] if len(arrays) > 1 else None, n_columns)

    def fill(
        self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], n: int, *outs: Out
    ) -> Any:
        if n == 0:
            return super().fill(name, kernel, args, n, *outs)
        places = [_FilledArray(out, n, self.cluster.storage) for out in outs]
        begin = self._beginner(
            tasks.fill_block, kernel, args, n, lambda block: tuple(p.part(block) for p in places)
        )
        for block, answer in self._answers(name, begin, n):
            arrived = iter(answer.arrays)
            for place in places:
                place.take(block, arrived)
        arrays = tuple(place.finished() for place in places)
        return arrays if len(arrays) > 1 else arrays[0]

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        return self.cluster.storage.empty(shape, dtype)

    @property
    def neighbors(self) -> Callable[..., tuple[Neighbors, Neighbors]] | None:
        """The exact search in shards; None leaves it to the search's own stages, see ``find``."""
        if self.search != "exact":
            return None
        from kinrank.runs.ray.shards import find_neighbors

        return partial(find_neighbors, run=self)

    @contextmanager
    def _each(
        self, kernel: Callable[[int, int], T], ranges: list[Range]
    ) -> Iterator[Iterator[tuple[Range, T]]]:
        with Runner(self.here)._each(kernel, ranges) as results:
            yield results

    def _beginner(
        self, task: Callable[..., Any], kernel: Callable[..., Any], args: tuple[Any, ...], n: int,
        more: Callable[[Range], Any],
    ) -> Callable[[], Begin]:  # fmt: skip
        """A function that stores what the blocks of a stage need and returns what begins one."""
        blocks = self.blocks(n)
        looked = {blocks[at * len(blocks) // LOOKS] for at in range(LOOKS)} if blocks else set()

        def prepare() -> Begin:
            job = self.cluster.ray.put(Job.of(kernel, args, self.cluster.storage))

            def begin(block: Range) -> Any:
                return self.begin(task, job, *block, block in looked, more(block))

            return begin

        return prepare

    def begin(self, task: Callable[..., Any], *args: Any) -> Any:
        """Hand a task to the cluster."""
        return self.cluster.remote(task).remote(*args)

    def _answers(
        self, name: str, prepare: Callable[[], Begin], n: int
    ) -> Iterator[tuple[Range, tasks.Answer]]:
        """The answers of all blocks, as they come."""
        traffic = self.cluster.report.stage(name)
        before, window = self.cluster.storage.sent, AHEAD * self.cluster.cpus
        with progress.stage(name, n) as advance:
            for block, answer in self.gather(name, prepare, self.blocks(n), traffic, window):
                rows = block[1] - block[0]
                traffic.count(answer, rows, rows / n)
                advance(rows)
                yield block, answer
        traffic.sent += self.cluster.storage.sent - before

    def gather(
        self, name: str, prepare: Callable[[], Begin], blocks: list[Range], traffic: Traffic,
        window: int,
    ) -> Iterator[tuple[Range, Any]]:  # fmt: skip
        """Begin blocks, ``window`` at a time, and yield what each gives, as they come.

        A block whose worker or node is lost more often than Ray itself tries again is begun anew,
        with everything that it reads stored again.
        """
        ray, begin = self.cluster.ray, prepare()
        waiting, lost = list(reversed(blocks)), dict.fromkeys(blocks, 0)
        running: dict[Any, Range] = {}
        try:
            while waiting or running:
                while waiting and len(running) < window:
                    block = waiting.pop()
                    running[begin(block)] = block
                ready = self._wait(list(running), name)
                block = running.pop(ready)
                try:
                    result = ray.get(ready)
                except (ray.exceptions.RayError, MemoryError) as error:
                    lost[block] += 1
                    if not is_lost(error, ray) or lost[block] > self.cluster.retries:
                        raise explained(error, ray, name, block, lost[block]) from error
                    traffic.retried += 1
                    self.cluster.storage.renew()
                    begin = prepare()
                    waiting.append(block)
                    continue
                yield block, result
        finally:
            for ref in running:
                ray.cancel(ref, force=False)

    def _wait(self, running: list[Any], name: str) -> Any:
        """The first of some tasks that ends."""
        ray = self.cluster.ray
        try:
            return ray.wait(running, num_returns=1)[0][0]
        except (ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterError(f"The cluster was lost in the stage {name!r}: {error}") from error


class _FilledArray:
    """An array that blocks are put into: here, or by the tasks themselves in a shared file."""

    def __init__(self, out: Out, n: int, storage: Any) -> None:
        self._out = out
        self._shape, self._dtype = out.shape(n), np.dtype(out.dtype).str
        self._storage = storage if isinstance(storage, Folder) and 0 not in self._shape else None
        if self._storage is None:
            self._array = np.empty(self._shape, self._dtype)
            self._part = partial(tasks.BlockPart, self._shape, self._dtype)
        else:
            self._path, offset = self._storage.begin(self._shape, self._dtype)
            self._part = partial(
                tasks.BlockPart, self._shape, self._dtype, file=str(self._path), offset=offset
            )

    def part(self, block: Range) -> tasks.BlockPart:
        """What the task of a block is told."""
        own = self._out.part(*block)
        return self._part(own.start, own.stop)

    def take(self, block: Range, arrived: Iterator[Array]) -> None:
        """Put what a task sent into its place."""
        if self._storage is None:
            own, part = self._array[self._out.part(*block)], next(arrived)
            if own.shape != part.shape:
                raise ClusterError(
                    f"A worker must send an array of shape {own.shape} for rows {block[0]} to "
                    f"{block[1]}, got {part.shape}."
                )
            own[...] = part

    def finished(self) -> Array:
        """The array, all blocks being there."""
        if self._storage is None:
            return self._array
        return self._storage.finished(self._path, Kind(self._shape, self._dtype))
