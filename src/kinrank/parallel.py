"""Serial kernels over ranges of rows, run on a few threads.

Kernels release the GIL and each range writes only its own rows, so the result is the same, bit for
bit, for any number of threads and any block size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kinrank import progress
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


def blocks(n: int, threads: int, block_size: int | None = None) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into ranges of ``block_size`` rows (chosen from ``threads`` if None)."""
    if block_size is None:
        block_size = min(MAX_BLOCK, -(-n // (threads * BLOCKS_PER_THREAD)))
    step = max(1, block_size)
    return [(low, min(n, low + step)) for low in range(0, n, step)]


def map_rows(
    name: str,
    kernel: Callable[[int, int], T],
    n: int,
    *,
    threads: int | None = None,
    block_size: int | None = None,
) -> list[T]:
    """Call ``kernel(low, high)`` for every block of ``range(n)``; results in the order of rows.

    ``name`` is the stage that the blocks are reported under.
    """
    count = thread_count(threads)
    ranges = blocks(n, count, block_size)
    results: list[T] = []
    with progress.stage(name, n) as advance:
        if count == 1 or len(ranges) <= 1:
            for low, high in ranges:
                results.append(kernel(low, high))
                advance(high - low)
        else:
            with ThreadPoolExecutor(count, thread_name_prefix="kinrank") as pool:
                futures = [pool.submit(kernel, low, high) for low, high in ranges]
                try:
                    for (low, high), future in zip(ranges, futures, strict=True):
                        results.append(future.result())
                        advance(high - low)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
    return results
