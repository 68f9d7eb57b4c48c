"""torch, as far as the process is concerned: devices and threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kinrank.errors import InvalidInputError

_LOCK = threading.RLock()


def check_device(name: str) -> torch.device:
    """The device called ``name``, if torch can use it here."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInputError(
            f"`device` must be one that torch can use here, such as 'cpu', got {name!r}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return device


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads inside, and as many as before afterwards; None: as it is.

    With one thread an operation gives the same bits however many queries are answered at a time.
    """
    if count is None:
        yield
        return
    with _LOCK:
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
