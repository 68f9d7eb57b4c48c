"""One stage as tasks get it: the name of its kernel, and handles of what it reads."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.runs.ray.handles import Array, Handle
from kinrank.runs.ray.storage import Storage

INLINE = 1 << 16  # bytes up to which an array travels with the job


@dataclass(frozen=True)
class _Stored:
    handle: Handle


@dataclass(frozen=True)
class _Record:
    """A dataclass taken apart."""

    kind: type
    values: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A kernel by name, small arguments frozen into it, and the arguments of every block."""

    module: str
    name: str
    frozen: tuple[Any, ...]
    args: Any

    @classmethod
    def of(cls, kernel: Callable[..., Any], args: tuple[Any, ...], storage: Storage) -> Job:
        """Store the arrays of ``args``, and those of dataclasses in it."""
        frozen: tuple[Any, ...] = ()
        if isinstance(kernel, functools.partial):
            if kernel.keywords:
                raise InvalidInputError("`kernel` must be frozen by position, got keywords.")
            frozen, kernel = kernel.args, kernel.func
        module, name = kernel.__module__, kernel.__qualname__
        if "<" in name:
            raise InvalidInputError(f"`kernel` must be importable, got {module}.{name}.")
        return cls(module, name, frozen, _packed(args, storage))

    def open(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The kernel and its arguments, where a task runs."""
        kernel: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            kernel = getattr(kernel, part)
        if self.frozen:
            kernel = functools.partial(kernel, *self.frozen)
        return kernel, _opened(self.args)


def arrays_in(value: Any) -> Iterator[Array]:
    """All arrays of arguments."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_in(item)
    elif _is_record(value):
        for field in dataclasses.fields(value):
            yield from arrays_in(getattr(value, field.name))


def _packed(value: Any, storage: Storage) -> Any:
    if isinstance(value, np.ndarray):
        small = value.nbytes <= INLINE
        return np.ascontiguousarray(value) if small else _Stored(storage.keep(value))
    if isinstance(value, (tuple, list)):
        return tuple(_packed(item, storage) for item in value)
    if _is_record(value):
        names = [field.name for field in dataclasses.fields(value)]
        return _Record(
            type(value), {name: _packed(getattr(value, name), storage) for name in names}
        )
    return value


def _opened(value: Any) -> Any:
    if isinstance(value, _Stored):
        return value.handle.open()
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    if isinstance(value, tuple):
        return tuple(_opened(item) for item in value)
    if isinstance(value, _Record):
        made: Any = object.__new__(value.kind)  # as it was: nothing is checked or derived again
        for name, item in value.values.items():
            object.__setattr__(made, name, _opened(item))
        return made
    return value


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
