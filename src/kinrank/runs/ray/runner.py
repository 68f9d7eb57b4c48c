"""Blocks of rows as tasks on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kinrank import progress
from kinrank.errors import ClusterError
from kinrank.parallel import Args, Array, Kernel, Out, Range, Runner, join_blocks
from kinrank.runs.ray import tasks
from kinrank.runs.ray.handles import Handle, Target
from kinrank.runs.ray.join import explained, is_lost
from kinrank.types import SparseRows

if TYPE_CHECKING:
    from kinrank.runs.ray.session import Cluster

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

    def rows(self, name: str, kernel: Kernel, args: Args, n: int, n_columns: int) -> SparseRows:
        if n == 0:
            return super().rows(name, kernel, args, n, n_columns)
        storage = self.cluster.storage
        blocks = {}
        prefix = storage.entries_prefix()
        files = list[Handle]()
        answers = self._answers(name, tasks.rows_block, kernel, args, n, lambda _: prefix)
        for (low, high), answer in answers:
            blocks[low] = (*answer.arrays, *(file.open() for file in answer.files))
            files += answer.files
            lengths, *entries = blocks[low]
            counts = [len(array) for array in entries]
            if len(lengths) != high - low or any(count != lengths.sum() for count in counts):
                raise ClusterError(
                    f"A worker must send {high - low} rows of the stage {name!r}, and as many "
                    f"entries as it says, got {len(lengths)} rows and {counts} entries."
                )
        ascending = [blocks.pop(low) for low in sorted(blocks)]
        rows = join_blocks(ascending, n, n_columns, storage.empty)
        for file in files:
            storage.drop(file)
        return rows

    def fill(self, name: str, kernel: Kernel, args: Args, n: int, *outs: Out) -> Any:
        if n == 0:
            return super().fill(name, kernel, args, n, *outs)
        storage = self.cluster.storage
        targets = [storage.target(out.shape(n), out.dtype) for out in outs]
        arrays = [np.empty(t.shape, t.dtype) if t.file is None else None for t in targets]

        def owned(block: Range) -> tuple[tuple[Target, slice], ...]:
            return tuple((t, out.part(*block)) for t, out in zip(targets, outs, strict=True))

        for block, answer in self._answers(name, tasks.fill_block, kernel, args, n, owned):
            sent = iter(answer.arrays)
            for array, out in zip(arrays, outs, strict=True):
                if array is not None:
                    put_block(array[out.part(*block)], next(sent), block)
        filled = tuple(map(storage.filled, targets, arrays))
        return filled if len(filled) > 1 else filled[0]

    def map(self, name: str, kernel: Callable[..., T], n: int, *args: Any) -> list[T]:
        return Runner(self.here, self.block_size).map(name, kernel, n, *args)

    def _answers(
        self,
        name: str,
        task: Kernel,
        kernel: Kernel,
        args: Args,
        n: int,
        last_argument: Callable[[Range], Any],
    ) -> Iterator[tuple[Range, tasks.Answer]]:
        """The answers of all blocks, as they come; the last argument of a task depends on it."""
        cluster = self.cluster
        blocks = self.blocks(n)
        measured = {blocks[at * len(blocks) // LOOKS] for at in range(LOOKS)} if blocks else set()

        def prepare() -> Begin:
            job = cluster.ray.put(tasks.BlockJob.of(kernel, args, cluster.storage))
            return lambda block: cluster.begin(
                task, job, *block, block in measured, last_argument(block)
            )

        return self.gather(name, prepare, blocks, AHEAD * cluster.cpus)

    def gather(
        self, name: str, prepare: Callable[[], Begin], blocks: list[Range], window: int
    ) -> Iterator[tuple[Range, tasks.Answer]]:
        """Begin blocks, ``window`` at a time, and yield what each gives, as they come.

        prepare : stores what blocks read, and returns what begins one

        A block whose worker or node is lost more often than Ray itself tries again is begun anew,
        with everything that it reads stored again.
        """
        ray = self.cluster.ray
        storage = self.cluster.storage
        traffic = self.cluster.report.stage(name)
        n = sum(high - low for low, high in blocks)
        before = storage.sent
        begin = prepare()
        waiting = blocks[::-1]
        lost = dict.fromkeys(blocks, 0)
        running: dict[Any, Range] = {}
        # What still runs when this ends early is left to end by itself, a few blocks at most: Ray
        # can bring down this process when a task is cancelled while it ends (ray issue 54738).
        with progress.stage(name, n) as advance:
            while waiting or running:
                while waiting and len(running) < window:
                    block = waiting.pop()
                    running[begin(block)] = block
                ready = self._wait(list(running), name)
                block = running.pop(ready)
                try:
                    answer = ray.get(ready)
                except (ray.exceptions.RayError, MemoryError) as error:
                    lost[block] += 1
                    if not is_lost(error, ray) or lost[block] > self.cluster.retries:
                        raise explained(error, ray, name, block, lost[block]) from error
                    traffic.retried += 1
                    storage.renew()
                    begin = prepare()
                    waiting.append(block)
                    continue
                rows = block[1] - block[0]
                traffic.count(answer, rows, rows / n)
                advance(rows)
                yield block, answer
        traffic.sent += storage.sent - before

    def _wait(self, running: list[Any], name: str) -> Any:
        """The first of some tasks that ends."""
        ray = self.cluster.ray
        try:
            return ray.wait(running, num_returns=1)[0][0]
        except (ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterError(f"The cluster was lost in the stage {name!r}: {error}") from error


def put_block(rows: Array, sent: Array, block: Range) -> None:
    """Put what the task of a block sent into its place."""
    if rows.shape != sent.shape:
        raise ClusterError(
            f"A worker must send an array of shape {rows.shape} for rows {block[0]} to "
            f"{block[1]}, got {sent.shape}."
        )
    rows[...] = sent
