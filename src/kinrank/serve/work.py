"""Threads that compute, so that the loop which talks to clients never waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

from starlette.requests import Request

from kinrank import progress
from kinrank.serve.problems import Problem

T = TypeVar("T")
# Makes several changes; the result of each, or why it failed.
Apply: TypeAlias = Callable[[list[Any]], list[int | Exception]]

_LOOK = 0.02  # seconds after which it is seen that a caller has gone


@asynccontextmanager
async def stopped_with(request: Request) -> AsyncIterator[threading.Event]:
    """An event that is set when the caller goes away, or has its answer."""
    stop = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_LOOK)
        stop.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield stop
    finally:
        stop.set()
        watching.cancel()


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
        self._limit = threads + waiting
        self._timeout = timeout
        self._busy = 0
        self._changes: deque[tuple[Any, Future[int]]] = deque()  # that wait for the writer

    async def run(self, function: Callable[..., T], *args: Any, slow: bool = False) -> T:
        """``function(*args)`` on a thread; a problem if there are too many or it takes too long.

        slow : work of seconds, done one at a time, so that it never takes all threads
        """
        if self._busy >= self._limit:
            raise Problem(503, "busy", "Too many requests are waiting.", {"Retry-After": "1"})
        self._busy += 1
        future = asyncio.get_running_loop().run_in_executor(
            self._slow if slow else self._pool, partial(function, *args)
        )
        future.add_done_callback(self._done)
        try:
            # Work that began goes on to its end, or to where it looks ``until``: busy until then.
            return await asyncio.wait_for(asyncio.shield(future), self._timeout)
        except TimeoutError:
            future.cancel()  # if it has not begun, it never will
            words = f"There was no answer within {self._timeout:g} s."
            raise Problem(503, "timeout", words, {"Retry-After": "5"}) from None

    async def write(self, apply: Apply, change: Any) -> int:
        """Make a change of the index on the thread for changes, and wait for it.

        Changes that come while another is made wait, and are then made together.

        apply : makes several changes; tells the result of each, or why it failed
        """
        result: Future[int] = Future()
        self._changes.append((change, result))
        self._writer.submit(self._apply_waiting, apply)
        # A client that goes away does not undo what it asked for.
        return await asyncio.shield(asyncio.wrap_future(result))

    def write_alone(self, function: Callable[..., None], *args: Any) -> None:
        """``function(*args)`` on the thread for changes; for threads that may wait for it."""
        self._writer.submit(function, *args).result()

    def _apply_waiting(self, apply: Apply) -> None:
        waiting = [self._changes.popleft() for _ in range(len(self._changes))]
        if not waiting:  # they were made with an earlier one
            return
        try:
            outcomes = apply([change for change, _ in waiting])
        except BaseException as error:  # noqa: BLE001  everyone who waits is told
            for _, result in waiting:
                result.set_exception(error)
            return
        for (_, result), outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, Exception):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._busy -= 1
        if not future.cancelled():
            future.exception()  # seen, if nobody waits for it any more

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._slow.shutdown(cancel_futures=True)
        self._writer.shutdown()
