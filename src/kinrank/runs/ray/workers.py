"""The processors of a cluster as workers: blocks of rows as tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank.errors import ClusterError
from kinrank.parallel import Args, Array, Kernel, Out, Range
from kinrank.runs.ray import tasks
from kinrank.runs.ray.handles import Target
from kinrank.runs.ray.join import explained, is_lost
from kinrank.runs.ray.storage import Storage

if TYPE_CHECKING:
    from kinrank.runs.ray.session import Cluster

AHEAD = 4  # tasks for each processor that are waiting or running at a time, or wait to be taken
LOOKS = 2  # blocks of a stage whose reading is measured, which takes another run of them


@dataclass(frozen=True, eq=False)
class RayWorkers:
    """Workers whose blocks are tasks.

    storage : where tasks read arrays from
    count : processors of the cluster, which decide how many blocks there are
    """

    cluster: Cluster
    storage: Storage
    count: int

    @contextmanager
    def row_blocks(
        self, name: str, kernel: Kernel, args: Args, ranges: list[Range]
    ) -> Iterator[Iterator[tuple[Range, Any]]]:
        """See Workers."""
        stage = BlockTasks(self, name, tasks.rows_block, kernel, args, ranges)
        yield stage.rows()

    @contextmanager
    def filled_blocks(
        self,
        name: str,
        kernel: Kernel,
        args: Args,
        ranges: list[Range],
        arrays: list[Array],
        outs: tuple[Out, ...],
    ) -> Iterator[Iterator[tuple[Range, int]]]:
        """See Workers."""
        targets = [self.storage.target(array) for array in arrays]
        stage = BlockTasks(self, name, tasks.fill_block, kernel, args, ranges, targets, outs)
        yield stage.filled(arrays)


class BlockTasks:
    """The blocks of one stage as tasks.

    task : of ``kinrank.runs.ray.tasks``; targets, outs : what blocks fill, for ``fill_block``
    """

    def __init__(
        self,
        workers: RayWorkers,
        name: str,
        task: Kernel,
        kernel: Kernel,
        args: Args,
        blocks: list[Range],
        targets: list[Target] | None = None,
        outs: tuple[Out, ...] = (),
    ) -> None:
        self._cluster = workers.cluster
        self._storage = workers.storage
        self._name = name
        self._task = task
        self._kernel = kernel
        self._args = args
        self._blocks = blocks
        self._targets = targets
        self._outs = outs
        self._measured = {*blocks[:: max(1, len(blocks) // LOOKS)][:LOOKS]}
        self._job: Any = None

    def rows(self) -> Iterator[tuple[Range, tuple[Array, ...]]]:
        """Each block with its lengths and entries, in order."""
        for (low, high), answer in self._answers(in_order=True):
            # Copies: the object store keeps an answer as long as somebody has its arrays.
            lengths, *entries = (np.array(array) for array in answer.arrays)
            counts = [len(array) for array in entries]
            if len(lengths) != high - low or any(count != lengths.sum() for count in counts):
                raise ClusterError(
                    f"A worker must send {high - low} rows of the stage {self._name!r}, and as "
                    f"many entries as it says, got {len(lengths)} rows and {counts} entries."
                )
            yield (low, high), (lengths, *entries)

    def filled(self, arrays: list[Array]) -> Iterator[tuple[Range, int]]:
        """Each block whose rows are in ``arrays``, with the sum over them, as they come."""
        assert self._targets is not None
        for block, answer in self._answers(in_order=False):
            sent = iter(answer.arrays)
            for array, target, out in zip(arrays, self._targets, self._outs, strict=True):
                if target.file is None:
                    put_block(array[out.part(*block)], next(sent), block)
            yield block, answer.check

    def _begin(self, block: Range) -> Any:
        """Hand the task of a block to the cluster."""
        arguments: list[Any] = [self._job, *block, block in self._measured]
        if self._targets is not None:
            owned = [out.part(*block) for out in self._outs]
            arguments.append(tuple(zip(self._targets, owned, strict=True)))
        return self._cluster.begin(self._task, *arguments)

    def _store(self) -> None:
        """Store what blocks read."""
        job = tasks.BlockJob.of(self._kernel, self._args, self._storage)
        self._job = self._cluster.ray.put(job)

    def _answers(self, in_order: bool) -> Iterator[tuple[Range, tasks.Answer]]:
        """Begin blocks, a few at a time, and yield what each gives.

        A block whose worker or node is lost more often than Ray itself tries again is begun anew,
        with everything that it reads stored again.
        """
        if not self._blocks:
            return
        ray = self._cluster.ray
        window = AHEAD * self._cluster.cpus
        traffic = self._cluster.report.stage(self._name)
        n = sum(high - low for low, high in self._blocks)
        before = self._storage.sent
        self._store()
        waiting = self._blocks[::-1]
        expected = self._blocks[::-1]  # by whoever takes them in order
        lost = dict.fromkeys(self._blocks, 0)
        running: dict[Any, Range] = {}
        finished: dict[Range, tasks.Answer] = {}  # and not taken yet
        # What still runs when this ends early is left to end by itself, a few blocks at most: Ray
        # can bring down this process when a task is cancelled while it ends (ray issue 54738).
        while waiting or running:
            while waiting and len(running) + len(finished) < window:
                block = waiting.pop()
                running[self._begin(block)] = block
            ready = self._wait(list(running))
            block = running.pop(ready)
            try:
                answer = ray.get(ready)
            except (ray.exceptions.RayError, MemoryError) as error:
                lost[block] += 1
                if not is_lost(error, ray) or lost[block] > self._cluster.retries:
                    raise explained(error, ray, self._name, block, lost[block]) from error
                traffic.retried += 1
                self._storage.renew()
                self._store()
                waiting.append(block)
                continue
            rows = block[1] - block[0]
            traffic.count(answer, rows, rows / n)
            if not in_order:
                yield block, answer
                continue
            finished[block] = answer
            while expected and expected[-1] in finished:
                block = expected.pop()
                yield block, finished.pop(block)
        traffic.sent += self._storage.sent - before

    def _wait(self, running: list[Any]) -> Any:
        """The first of some tasks that ends."""
        ray = self._cluster.ray
        try:
            return ray.wait(running, num_returns=1)[0][0]
        except (ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterError(
                f"The cluster was lost in the stage {self._name!r}: {error}"
            ) from error


def put_block(rows: Array, sent: Array, block: Range) -> None:
    """Put what the task of a block sent into its place."""
    if rows.shape != sent.shape:
        raise ClusterError(
            f"A worker must send an array of shape {rows.shape} for rows {block[0]} to "
            f"{block[1]}, got {sent.shape}."
        )
    rows[...] = sent
