"""What torch is asked for: weights in and out, devices, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.io import PathLike
from kinrank.learned.recipes import Arrays

_LOCK = threading.Lock()
_local = threading.local()
_inside: list[int] = []
_before: list[int] = []


def to_arrays(network: nn.Module) -> Arrays:
    """Copies of the weights by name."""
    return {name: value.cpu().numpy().copy() for name, value in network.state_dict().items()}


def from_arrays(network: nn.Module, arrays: Arrays, path: PathLike) -> None:
    """Put weights that were read from ``path`` into a network of the same sizes."""
    state = {}
    for name, expected in network.state_dict().items():
        shape = tuple(expected.shape)
        array = arrays.get(name)
        if array is None or array.shape != shape or not np.isfinite(array).all():
            got = "none" if array is None else f"shape {array.shape}"
            raise FileFormatError(
                f"{path} must hold finite weights {name!r} of shape {shape}, got {got}."
            )
        state[name] = torch.from_numpy(array)
    network.load_state_dict(state)


def size(network: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(parameter.numel() for parameter in network.parameters())


def tensor(values: Any, device: torch.device) -> Tensor:
    """A numpy array on a device."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, copy=True)


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

    torch keeps one number for new threads and one for each that it has seen. Calls may be nested,
    and several threads may be inside at a time: the last one to leave restores the number.
    """
    if count is None:
        yield
        return
    # What the calling thread has asked for, the last at the end.
    asked: list[int] = _local.__dict__.setdefault("asked", [])
    before = torch.get_num_threads()  # first: a new thread begins with the common number here
    with _LOCK:
        if not _inside:
            _before.append(before)
        _inside.append(count)
        torch.set_num_threads(count)
    asked.append(count)
    try:
        yield
    finally:
        with _LOCK:
            _inside.remove(asked.pop())
            torch.set_num_threads(asked[-1] if asked else _before[-1])
            if not _inside:
                _before.clear()
