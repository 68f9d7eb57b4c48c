"""Serial kernels over ranges of rows, run on a few threads.

Kernels release the GIL and each range writes only its own rows, so the result is the same, bit for
bit, for any number of threads and any block size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from kinrank import progress
from kinrank.types import SparseRows
from kinrank.validation import check_int

T = TypeVar("T")

BLOCKS_PER_THREAD = 8
MAX_BLOCK = 8192


def thread_count(threads: int | None = None) -> int:
    """The number of threads to use: as asked, or one for each core this process may run on."""
    if threads is not None:
        return check_int("threads", threads, 1, 1024)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


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

    def blocks(self, n: int) -> list[tuple[int, int]]:
        """``range(n)`` cut into ranges."""
        size = self.block_size or min(MAX_BLOCK, -(-n // (self.threads * BLOCKS_PER_THREAD)))
        return [(low, min(n, low + size)) for low in range(0, n, max(1, size))]

    def map(self, name: str, kernel: Callable[[int, int], T], n: int) -> list[T]:
        """Call ``kernel(low, high)`` for every block of ``range(n)``; results in order.

        ``name`` is the stage that finished blocks are reported under.
        """
        ranges = self.blocks(n)
        with progress.stage(name, n) as advance:
            if self.threads == 1 or len(ranges) <= 1:
                return [_after(kernel(*part), advance, part) for part in ranges]
            with ThreadPoolExecutor(self.threads, thread_name_prefix="kinrank") as pool:
                futures = [pool.submit(kernel, *part) for part in ranges]
                try:
                    return [
                        _after(future.result(), advance, part)
                        for future, part in zip(futures, ranges, strict=True)
                    ]
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise

    def rows(
        self, name: str, kernel: Callable[[int, int], tuple[Any, ...]], n: int, n_columns: int
    ) -> SparseRows:
        """Join blocks of (lengths, indices[, data]) into sparse rows."""
        parts = self.map(name, kernel, n)
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.concatenate([part[0] for part in parts]), out=indptr[1:])
        data = np.concatenate([part[2] for part in parts]) if len(parts[0]) > 2 else None
        return SparseRows(indptr, np.concatenate([part[1] for part in parts]), data, n_columns)


ALONE = Runner(1, 1 << 40)  # all at once, for work inside a block


def _after(result: T, advance: progress.Advance, part: tuple[int, int]) -> T:
    advance(part[1] - part[0])
    return result
