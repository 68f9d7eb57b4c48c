"""Stable orders."""

from __future__ import annotations

import numpy as np

from kinrank.types import Floats, Longs


def ascending(values: Floats, k: int | None = None) -> Longs:
    """The order of ``values`` (its first ``k``), ties by position: a sort of (value, position)."""
    bits = (values + np.float32(0)).view(np.uint32)  # + 0 makes -0.0 and 0.0 equal
    sign = np.uint32(0x80000000)
    ordered = np.where(bits & sign, ~bits, bits | sign)
    keys = ordered.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(values), dtype=np.uint64)
    if k is not None and 4 * k < len(keys):
        keys.partition(k)
        keys = keys[:k]
    keys.sort()
    return (keys[:k] & np.uint64(0xFFFFFFFF)).astype(np.int64)
