"""Stable orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.kernels.order import ascending_order
from kinrank.types import Floats, Ints, Longs

_FEW = 1024  # values that are sorted before their digits would be counted


def ascending(values: Floats, k: int | None = None) -> Longs:
    """The order of ``values`` (its first ``k``), ties by position: a sort of (value, position)."""
    first = k is not None and 4 * k < len(values)
    if not first and len(values) > _FEW:
        order = np.empty(len(values), np.int64)
        ascending_order(np.ascontiguousarray(values, np.float32), order)
        return order[:k]
    bits = (values + np.float32(0)).view(np.uint32)  # + 0 makes -0.0 and 0.0 equal
    sign = np.uint32(0x80000000)
    ordered = np.where(bits & sign, ~bits, bits | sign)
    keys = ordered.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(values), dtype=np.uint64)
    if k is not None and first:
        keys.partition(k)
        keys = keys[:k]
    keys.sort()
    return (keys[:k] & np.uint64(0xFFFFFFFF)).astype(np.int64)


def move_rows(values: npt.NDArray[Any], order: Ints) -> None:
    """``values[order]`` in place; order : a permutation."""
    moved = np.zeros(len(order), np.bool_)
    for start in np.flatnonzero(order != np.arange(len(order))):
        if moved[start]:
            continue
        first = values[start].copy()
        at = start
        while order[at] != start:
            values[at] = values[order[at]]
            moved[at] = True
            at = order[at]
        values[at] = first
        moved[at] = True
