"""Arrays inside of tuples, lists and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kinrank.runs.mapped import mapping_of


def replaced(value: Any, replace: Callable[[Any], Any], leave: type | tuple[()] = ()) -> Any:
    """A copy with ``replace`` called on all that is no tuple, list or dataclass.

    leave : a dataclass that ``replace`` is called on itself
    """
    if isinstance(value, tuple | list):
        items = [replaced(item, replace, leave) for item in value]
        # Kernels read records by the names of their fields.
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not dataclasses.is_dataclass(value) or isinstance(value, (type, leave)):
        return replace(value)
    copy: Any = object.__new__(type(value))  # as it was: nothing is checked or derived again
    for field in dataclasses.fields(value):
        item = replaced(getattr(value, field.name), replace, leave)
        object.__setattr__(copy, field.name, item)
    return copy


def in_memory(value: Any) -> Any:
    """A copy whose arrays are no files: those of a run are removed with it."""
    return replaced(value, _unmapped)


def _unmapped(value: Any) -> Any:
    if isinstance(value, np.ndarray) and mapping_of(value) is not None:
        return np.array(value)
    return value
