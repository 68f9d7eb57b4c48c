"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

import numpy as np

from kinrank.errors import InvalidInputError

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(name: str, value: object) -> int:
    """``4_000_000_000``, "4GB", "512 MiB" or "1.5g" as bytes; what ``name`` was given."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value > 0:
        return int(value)
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", value.lower())
        if found:
            size = int(float(found[1]) * {**_UNITS, **_BINARY}[found[2]])
            if size > 0:
                return size
    raise InvalidInputError(
        f'`{name}` must be a number of bytes or a size such as "4GB" or "512MiB", got {value!r}.'
    )


def format_bytes(size: float) -> str:
    """``size`` for people: 812 kB, 3.4 MB, 1.25 GB."""
    for unit, power in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= power:
            return f"{size / power:,.{2 if unit == 'GB' else 1}f} {unit}"
    return f"{size:.0f} B"
