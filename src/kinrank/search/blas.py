"""BLAS on one thread, while threads of ours each compute products of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


@dataclass
class _Users:
    """Who is inside: the first limits BLAS, the last lets it go, in whatever order they leave."""

    count: int = 0
    limit: Any = None
    lock: Lock = field(default_factory=Lock)


_users = _Users()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Small products are not worth threads of BLAS, which would mostly wait for each other."""
    with _users.lock:
        _users.count += 1
        if _users.count == 1:
            _users.limit = _libraries().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _users.lock:
            _users.count -= 1
            if _users.count == 0:
                _users.limit.restore_original_limits()


@cache  # to look for libraries takes longer than to search a few rows
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
