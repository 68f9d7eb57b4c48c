"""Batches through a worker on several threads, results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from kinrank import progress
from kinrank.features.sources import ImageList
from kinrank.features.worker import Item, Rows, Worker

_AHEAD = 2  # batches for each thread that are begun before they are asked for


def items(listed: ImageList, rows: Iterable[int]) -> Iterator[Item]:
    """What a worker needs to know of some pictures of a list."""
    return (Item(listed.file(row), listed.box(row)) for row in rows)


def batches(listed: ImageList, rows: range, size: int) -> Iterator[list[Item]]:
    """``rows`` of a list, ``size`` at a time."""
    for low in range(rows.start, rows.stop, size):
        yield list(items(listed, range(low, min(rows.stop, low + size))))


def ordered(
    worker: Worker, some: Iterable[list[Item]], threads: int, advance: progress.Advance
) -> Generator[tuple[Rows, int], None, None]:
    """The rows of each batch and its number of pictures, in order.

    Close it when not all of it is wanted: batches that have not begun are then given up.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="kinrank")
    waiting: deque[tuple[Future[Rows], int]] = deque()
    try:
        for batch in some:
            waiting.append((pool.submit(worker, batch), len(batch)))
            if len(waiting) > _AHEAD * threads:
                yield _next(waiting, advance)
        while waiting:
            yield _next(waiting, advance)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _next(waiting: deque[tuple[Future[Rows], int]], advance: progress.Advance) -> tuple[Rows, int]:
    future, size = waiting.popleft()
    rows = future.result()
    advance(size)
    return rows, size
