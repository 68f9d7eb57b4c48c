"""Parameters as fields of a dataclass: their help, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kinrank.validation import check_bool, check_choice, check_float, check_size


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field with the help that the command line shows."""
    return field(default=default, metadata={"help": text, **metadata})


def check_fields(
    method: object,
    *,
    sizes: tuple[str, ...] = (),
    floats: Mapping[str, tuple[float, float]] | None = None,
    positive: Mapping[str, tuple[float, float]] | None = None,
    choices: Mapping[str, tuple[Any, ...]] | None = None,
    flags: tuple[str, ...] = (),
) -> None:
    """Check the fields of a method: integers from 1, floats in [low, high] or (low, high]."""
    for name in sizes:
        check_size(name, getattr(method, name))
    for name, (low, high) in (floats or {}).items():
        check_float(name, getattr(method, name), low, high)
    for name, (low, high) in (positive or {}).items():
        check_float(name, getattr(method, name), low, high, low_open=True)
    for name, known in (choices or {}).items():
        check_choice(name, getattr(method, name), known)
    for name in flags:
        check_bool(name, getattr(method, name))
