"""Arrays inside of tuples, lists and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np

from kinrank.runs.mapped import mapping_of


def replaced(value: Any, replace: Callable[[Any], Any], leave: type | tuple[()] = ()) -> Any:
    """A copy with ``replace`` called on all that is no tuple, list or dataclass.

    A dataclass or tuple in which nothing is replaced is left as it is.

    leave : a dataclass that ``replace`` is called on itself
    """
    if isinstance(value, tuple | list):
        copies = [replaced(item, replace, leave) for item in value]
        if isinstance(value, tuple) and all(map(is_, copies, value)):
            return value
        # Kernels read records by the names of their fields.
        return type(value)(*copies) if hasattr(value, "_fields") else tuple(copies)
    if not dataclasses.is_dataclass(value) or isinstance(value, (type, leave)):
        return replace(value)
    fields = [field.name for field in dataclasses.fields(value)]
    items = [replaced(getattr(value, name), replace, leave) for name in fields]
    if all(map(is_, items, (getattr(value, name) for name in fields))):
        return value
    copy: Any = object.__new__(type(value))  # as it was: nothing is checked or derived again
    for name, item in zip(fields, items, strict=True):
        object.__setattr__(copy, name, item)
    return copy


def in_memory(value: Any) -> Any:
    """A copy whose arrays are no files: those of a run are removed with it."""
    return replaced(value, _unmapped)


def _unmapped(value: Any) -> Any:
    if isinstance(value, np.ndarray) and mapping_of(value) is not None:
        return np.array(value)
    return value
