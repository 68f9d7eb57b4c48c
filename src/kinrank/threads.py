"""Pools of threads that are used again: to start one costs more than many a block of rows."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

_MOST = 4  # idle pools of each size that are kept
_idle: defaultdict[int, list[ThreadPoolExecutor]] = defaultdict(list)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # their threads stay behind


@contextmanager
def borrowed(threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that nobody else uses meanwhile, so that no work waits behind other work.

    After an error nothing of it runs any more.
    """
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
