"""Threads that compute, so that the loop which talks to clients never waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from kinrank import progress
from kinrank.serve.problems import Problem

T = TypeVar("T")


@contextmanager
def until(stop: threading.Event) -> Iterator[None]:
    """Give up the work inside, between two blocks of rows, when ``stop`` is set."""

    def look(*_: object) -> None:
        if stop.is_set():
            raise Problem(503, "given-up", "Nobody waited for the answer any more.")

    with progress.listen(look):
        yield


class Workers:
    """A pool for what is asked, one thread for what takes long, and one for changes."""

    def __init__(self, threads: int, waiting: int, timeout: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kinrank-serve")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="kinrank-write")
        self._slow = ThreadPoolExecutor(1, thread_name_prefix="kinrank-slow")
        self._limit, self._timeout = threads + waiting, timeout
        self._busy = 0

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """``function(*args)`` on a thread; a problem if there are too many or it takes too long."""
        return await self._run(self._pool, function, *args)

    async def run_slowly(self, function: Callable[..., T], *args: Any) -> T:
        """The same for work of seconds, one at a time, so that it never takes all threads."""
        return await self._run(self._slow, function, *args)

    async def write(self, function: Callable[..., T], *args: Any) -> T:
        """The same for a change of the index: one after another, and never given up half way."""
        loop = asyncio.get_running_loop()
        # A client that goes away does not undo what it asked for.
        return await asyncio.shield(loop.run_in_executor(self._writer, partial(function, *args)))

    async def _run(self, pool: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> T:
        if self._busy >= self._limit:
            raise Problem(503, "busy", "Too many requests are waiting.", {"Retry-After": "1"})
        self._busy += 1
        future = asyncio.get_running_loop().run_in_executor(pool, partial(function, *args))
        future.add_done_callback(self._done)
        try:
            # Work that began goes on to its end, or to where it looks ``until``: busy until then.
            return await asyncio.wait_for(asyncio.shield(future), self._timeout)
        except TimeoutError:
            future.cancel()  # if it has not begun, it never will
            raise Problem(
                503, "timeout", f"There was no answer within {self._timeout:g} s.",
                {"Retry-After": "5"},
            ) from None  # fmt: skip

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._busy -= 1
        if not future.cancelled():
            future.exception()  # seen, if nobody waits for it any more

    def close(self) -> None:
        """Wait for what is running."""
        self._pool.shutdown(cancel_futures=True)
        self._slow.shutdown(cancel_futures=True)
        self._writer.shutdown()
