"""Serial kernels over ranges of rows, run on a few threads.

Kernels release the GIL and each range writes only its own rows, so the result is the same, bit for
bit, for any number of threads and any block size.

Heavy stages say what they compute in two forms, ``rows`` and ``fill``: an importable kernel, the
arrays it reads, and what it makes. So what they make may lie elsewhere, in files
(``runs/disk.py``), and others than the threads of this process may compute it: ``Workers``, such as
the machines of a cluster (``runs/ray``).
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice, starmap
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.types import Longs, SparseRows
from kinrank.validation import check_int

T = TypeVar("T")
R = TypeVar("R", bound="Runner")

Array: TypeAlias = npt.NDArray[Any]
Range: TypeAlias = tuple[int, int]
Kernel: TypeAlias = Callable[..., Any]
Args: TypeAlias = tuple[Any, ...]

BLOCKS_PER_THREAD = 8
MAX_BLOCK = 8192
# Rows of a block at least: where one thread works, and where several do.
_LEAST_BLOCK_ALONE = 1024
_LEAST_BLOCK = 64
_MOST_IDLE = 4  # pools of each size that are kept: to start threads costs more than many a block
_idle: defaultdict[int, list[ThreadPoolExecutor]] = defaultdict(list)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # their threads stay behind


def thread_count(threads: int | None = None) -> int:
    """The number of threads to use; None is one for each core that this process may run on."""
    if threads is not None:
        return check_int("threads", threads, 1, 1024)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@contextmanager
def thread_pool(threads: int) -> Iterator[Executor | None]:
    """A pool of threads that nobody else uses meanwhile, so that no work waits behind other work.

    None for one thread: this one would only wait for it. After an error nothing runs any more.
    """
    if threads == 1:
        yield None
        return
    try:
        pool = _idle[threads].pop()  # atomic, as is append
    except IndexError:
        pool = ThreadPoolExecutor(threads, thread_name_prefix="kinrank")
    try:
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    if len(_idle[threads]) < _MOST_IDLE:
        _idle[threads].append(pool)
    else:
        pool.shutdown()


def call_each(pool: Executor | None, function: Callable[..., T], calls: Iterable[Args]) -> list[T]:
    """The results of ``function(*args)`` for the arguments of each call, in order.

    pool : of ``thread_pool``; raises what a call raises
    """
    if pool is not None:
        started = [pool.submit(function, *args) for args in calls]
        return [future.result() for future in started]
    return list(starmap(function, calls))


@dataclass(frozen=True, eq=False)
class Out:
    """An array that ``fill`` makes: ``width`` columns a row (None: one value), or ragged rows.

    indptr : (n + 1,) where rows begin in a flat array; rows low to high own
        ``indptr[low]:indptr[high]`` of it
    """

    dtype: npt.DTypeLike
    width: int | None = None
    indptr: Longs | None = None

    def shape(self, n: int) -> tuple[int, ...]:
        """Of the array for ``n`` rows."""
        if self.indptr is not None:
            return (int(self.indptr[n]),)
        return (n,) if self.width is None else (n, self.width)

    def part(self, low: int, high: int) -> slice:
        """What rows low to high own of the array, along its first axis."""
        if self.indptr is not None:
            return slice(int(self.indptr[low]), int(self.indptr[high]))
        return slice(low, high)


class Workers(Protocol):
    """Who computes the blocks of ``rows`` and ``fill`` in the place of this process's threads."""

    @property
    def count(self) -> int:
        """How many blocks they compute at a time."""

    def row_blocks(
        self, name: str, kernel: Kernel, args: Args, ranges: list[Range]
    ) -> AbstractContextManager[Iterator[tuple[Range, Any]]]:
        """Each range with what ``kernel(low, high, *args)`` returns, in order.

        name : of the stage, for reports and messages
        """

    def filled_blocks(
        self,
        name: str,
        kernel: Kernel,
        args: Args,
        ranges: list[Range],
        arrays: list[Array],
        outs: tuple[Out, ...],
    ) -> AbstractContextManager[Iterator[tuple[Range, int]]]:
        """Each range whose rows are in ``arrays``, in any order, with ``check_sum`` over these."""


@dataclass(frozen=True)
class Runner:
    """How many threads work, and on how many rows at a time; neither changes a result.

    threads : of this process
    workers : who computes the blocks of ``rows`` and ``fill``; None is these threads
    """

    threads: int
    block_size: int | None = None
    workers: Workers | None = None

    @classmethod
    def of(cls, threads: int | None = None, block_size: int | None = None) -> Runner:
        """Check what a user asked for; None is one thread per core and a size that fits it."""
        if block_size is not None:
            block_size = check_int("block_size", block_size, 1)
        return cls(thread_count(threads), block_size)

    @property
    def n_workers(self) -> int:
        """How many blocks of ``rows`` and ``fill`` are computed at a time."""
        return self.threads if self.workers is None else self.workers.count

    def cut(self: R, block_size: int | None, threads: int | None = None) -> R:
        """The same runner with blocks of another size, and perhaps other threads."""
        return replace(self, block_size=block_size, threads=threads or self.threads)

    def blocks(self, n: int) -> list[Range]:
        """``range(n)`` cut into ranges, several for each worker: these balance each other."""
        return cut_range(n, self.block_size, self.n_workers)

    def map(self, name: str, kernel: Callable[..., T], n: int, *args: Any) -> list[T]:
        """Call ``kernel(low, high, *args)`` for every block of ``range(n)``; results in order.

        ``name`` is the stage that finished blocks are reported under. For work that is not worth
        more than the threads of this process.
        """
        ranges = cut_range(n, self.block_size, self.threads)
        results = []
        with progress.stage(name, n) as advance:
            if self.threads == 1 or len(ranges) == 1:
                for low, high in ranges:
                    results.append(kernel(low, high, *args))
                    advance(high - low)
                return results
            with self.running(kernel, args, ranges) as finished:
                for (low, high), result in finished:
                    results.append(result)
                    advance(high - low)
        return results

    def rows(self, name: str, kernel: Kernel, args: Args, n: int, n_columns: int) -> SparseRows:
        """Sparse rows from ``kernel(low, high, *args) -> (lengths, indices[, data])`` of blocks.

        kernel : importable; args : arrays and numbers, or dataclasses of such, never changed
        """
        if self.workers is None or n == 0:
            blocks = self.map(name, kernel, n, *args)
        else:
            with (
                progress.stage(name, n) as advance,
                self.workers.row_blocks(name, kernel, args, self.blocks(n)) as results,
            ):
                blocks = [block for _, block in reported(results, advance)]
        # Without a row, an empty block says whether rows have values.
        return join_blocks(blocks or [kernel(0, 0, *args)], n, n_columns)

    def fill(self, name: str, kernel: Kernel, args: Args, n: int, *outs: Out) -> Any:
        """Arrays that ``kernel(low, high, *args, *arrays)`` writes rows low to high of.

        kernel, args : as in ``rows``. Returns one array, or a tuple of as many as there are outs.
        """
        arrays = [np.empty(out.shape(n), out.dtype) for out in outs]
        if self.workers is None or n == 0:
            self.map(name, kernel, n, *args, *arrays)
        else:
            ranges = self.blocks(n)
            with (
                progress.stage(name, n) as advance,
                self.workers.filled_blocks(name, kernel, args, ranges, arrays, outs) as results,
            ):
                for _ in reported(results, advance):
                    pass
        return tuple(arrays) if len(arrays) > 1 else arrays[0]

    @contextmanager
    def running(
        self, kernel: Callable[..., T], args: Args, ranges: list[Range]
    ) -> Iterator[Iterator[tuple[Range, T]]]:
        """Each range with what ``kernel(low, high, *args)`` returns, in order.

        No more than a few results wait to be taken.
        """
        if self.threads == 1 or len(ranges) <= 1:
            yield ((ends, kernel(*ends, *args)) for ends in ranges)
            return
        with thread_pool(self.threads) as pool:
            assert pool is not None
            if len(ranges) > self.threads:
                yield _in_order(pool, kernel, args, ranges, 4 * self.threads)
                return
            others = [pool.submit(kernel, *ends, *args) for ends in ranges[1:]]
            first = kernel(*ranges[0], *args)  # here, as we would only wait
            yield zip(ranges, [first, *(other.result() for other in others)], strict=True)


ALONE = Runner(1, 1 << 40)  # all at once, for work inside a block


def cut_range(n: int, block_size: int | None, n_workers: int) -> list[Range]:
    """``range(n)`` cut into ranges of ``block_size``; None is several for each of the workers.

    One of them has nothing to balance, and small blocks cost more than they help.
    """
    if n == 0:
        return []
    size = block_size
    if size is None:
        least = _LEAST_BLOCK_ALONE
        if n_workers > 1:
            least = min(_LEAST_BLOCK, -(-n // n_workers))
        share = -(-n // (n_workers * BLOCKS_PER_THREAD))
        size = min(MAX_BLOCK, max(share, least))
    if n <= size:
        return [(0, n)]
    return [(low, min(n, low + size)) for low in range(0, n, size)]


def reported(
    results: Iterator[tuple[Range, T]], advance: progress.Advance
) -> Iterator[tuple[Range, T]]:
    """The results of blocks; to take the next is to report that one was finished."""
    for (low, high), result in results:
        yield (low, high), result
        advance(high - low)


def _in_order(
    pool: Executor, kernel: Callable[..., T], args: Args, ranges: list[Range], window: int
) -> Iterator[tuple[Range, T]]:
    started = ((ends, pool.submit(kernel, *ends, *args)) for ends in ranges)
    waiting = deque(islice(started, window))
    while waiting:
        ends, future = waiting.popleft()
        result = future.result()
        waiting.extend(islice(started, 1))
        yield ends, result


def join_blocks(blocks: list[Any], n: int, n_columns: int) -> SparseRows:
    """Blocks of (lengths, indices[, data]) as one; each is released when it is copied."""
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.concatenate([block[0] for block in blocks]), out=indptr[1:])
    if len(blocks) == 1:
        _, ids, *data = blocks[0]
        return SparseRows(indptr, ids, data[0] if data else None, n_columns)
    indices = np.empty(int(indptr[-1]), np.int32)
    data = np.empty(len(indices), np.float32) if len(blocks[0]) > 2 else None
    at = 0
    blocks.reverse()
    while blocks:
        _, ids, *values = blocks.pop()
        indices[at : at + len(ids)] = ids
        if data is not None:
            data[at : at + len(ids)] = values[0]
        at += len(ids)
    return SparseRows(indptr, indices, data, n_columns)
