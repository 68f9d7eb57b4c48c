"""Serial kernels over ranges of rows, run on a few threads.

Kernels release the GIL and each range writes only its own rows, so the result is the same, bit for
bit, for any number of threads and any block size.

Heavy stages say what they compute in two forms, ``rows`` and ``fill``: an importable kernel, the
arrays it reads, and what it makes. A runner of another kind can then do the same work elsewhere, in
files (``kinrank.runs``) or on other machines (``kinrank.cluster``).
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias, TypeVar

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
_MOST = 4  # idle pools of each size that are kept: to start threads costs more than many a block
_idle: defaultdict[int, list[ThreadPoolExecutor]] = defaultdict(list)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # their threads stay behind


def thread_count(threads: int | None = None) -> int:
    """The number of threads to use: as asked, or one for each core this process may run on."""
    if threads is not None:
        return check_int("threads", threads, 1, 1024)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class _Here(Executor):
    """Does the work at once, in the thread that asks, which would only wait for another."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@contextmanager
def borrowed(threads: int) -> Iterator[Executor]:
    """A pool of threads that nobody else uses meanwhile, so that no work waits behind other work.

    After an error nothing of it runs any more.
    """
    if threads == 1:
        yield _Here()
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
    if len(_idle[threads]) < _MOST:
        _idle[threads].append(pool)
    else:
        pool.shutdown()


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


@dataclass(frozen=True)
class Runner:
    """How many threads work, and on how many rows at a time; neither changes a result."""

    threads: int
    block_size: int | None = None

    @classmethod
    def of(cls, threads: int | None = None, block_size: int | None = None) -> Runner:
        """Check what a user asked for; None is one thread per core and a size that fits it."""
        if block_size is not None:
            block_size = check_int("block_size", block_size, 1)
        return cls(thread_count(threads), block_size)

    def cut(self: R, block_size: int | None, threads: int | None = None) -> R:
        """The same runner with blocks of another size, and perhaps other threads."""
        return replace(self, block_size=block_size, threads=threads or self.threads)

    def blocks(self, n: int) -> list[Range]:
        """``range(n)`` cut into ranges."""
        size = self.block_size or min(MAX_BLOCK, -(-n // (self.threads * BLOCKS_PER_THREAD)))
        return [(low, min(n, low + size)) for low in range(0, n, max(1, size))]

    def map(self, name: str, kernel: Callable[[int, int], T], n: int) -> list[T]:
        """Call ``kernel(low, high)`` for every block of ``range(n)``; results in order.

        ``name`` is the stage that finished blocks are reported under. For work that is not worth
        more than the threads of this process.
        """
        ranges = self.blocks(n)
        with progress.stage(name, n) as advance:
            if len(ranges) == 1:
                return [kernel(*ranges[0])]
            with self._each(kernel, ranges) as results:
                blocks = []
                for (low, high), result in results:
                    advance(high - low)
                    blocks.append(result)
                return blocks

    def rows(self, name: str, kernel: Kernel, args: Args, n: int, n_columns: int) -> SparseRows:
        """Sparse rows from ``kernel(low, high, *args) -> (lengths, indices[, data])`` of blocks.

        kernel : importable; args : arrays and numbers, or dataclasses of such, never changed
        """
        blocks = self.map(name, lambda low, high: kernel(low, high, *args), n)
        # Without a row, an empty block says whether rows have values.
        return join_blocks(blocks or [kernel(0, 0, *args)], n, n_columns)

    def fill(self, name: str, kernel: Kernel, args: Args, n: int, *outs: Out) -> Any:
        """Arrays that ``kernel(low, high, *args, *arrays)`` writes rows low to high of.

        kernel, args : as in ``rows``. Returns one array, or a tuple of as many as there are outs.
        """
        arrays = tuple(np.empty(out.shape(n), out.dtype) for out in outs)
        self.map(name, lambda a, b: kernel(a, b, *args, *arrays), n)
        return arrays if len(arrays) > 1 else arrays[0]

    @contextmanager
    def _each(
        self, kernel: Callable[[int, int], T], ranges: list[Range]
    ) -> Iterator[Iterator[tuple[Range, T]]]:
        """The results of ranges, in order; no more than a few wait to be taken."""
        if self.threads == 1 or len(ranges) <= 1:
            yield ((rows, kernel(*rows)) for rows in ranges)
            return
        with borrowed(self.threads) as pool:
            if len(ranges) > self.threads:
                yield _in_order(pool, kernel, ranges, 4 * self.threads)
                return
            others = [pool.submit(kernel, *rows) for rows in ranges[1:]]
            first = kernel(*ranges[0])  # here, as we would only wait
            yield zip(ranges, [first, *(other.result() for other in others)], strict=True)


ALONE = Runner(1, 1 << 40)  # all at once, for work inside a block


def _in_order(
    pool: Executor, kernel: Callable[[int, int], T], ranges: list[Range], window: int
) -> Iterator[tuple[Range, T]]:
    started = ((rows, pool.submit(kernel, *rows)) for rows in ranges)
    waiting = deque(islice(started, window))
    while waiting:
        rows, future = waiting.popleft()
        result = future.result()
        waiting.extend(islice(started, 1))
        yield rows, result


def join_blocks(
    blocks: list[Any], n: int, n_columns: int, empty: Callable[[int, Any], Array] = np.empty
) -> SparseRows:
    """Blocks of (lengths, indices[, data]) as one; each is let go of when it is copied."""
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.concatenate([block[0] for block in blocks]), out=indptr[1:])
    if len(blocks) == 1 and empty is np.empty:
        _, ids, *data = blocks[0]
        return SparseRows(indptr, ids, data[0] if data else None, n_columns)
    indices = empty(int(indptr[-1]), np.int32)
    data = empty(len(indices), np.float32) if len(blocks[0]) > 2 else None
    at = 0
    blocks.reverse()
    while blocks:
        _, ids, *values = blocks.pop()
        indices[at : at + len(ids)] = ids
        if data is not None:
            data[at : at + len(ids)] = values[0]
        at += len(ids)
    return SparseRows(indptr, indices, data, n_columns)
