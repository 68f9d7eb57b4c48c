"""BLAS on one thread, while threads of ours each compute products of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

_limited = Lock()


@contextmanager
def one_blas_thread(*, wait: bool = False) -> Iterator[None]:
    """Small products are not worth threads of BLAS, which would mostly wait for each other.

    wait : until nobody else limits it, who could let it go meanwhile: for sums whose order matters

    Who limits it also lets it go, in the same thread: some builds of BLAS listen to no other, and
    two who each restored what they had found could leave it limited for good.
    """
    if not _limited.acquire(blocking=wait):
        yield
        return
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@cache  # to look for libraries takes longer than to search a few rows
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
