"""Packages that are imported only when they are asked for."""

from __future__ import annotations

import importlib
from types import ModuleType

from kinrank.errors import OptionalDependencyError


def require(package: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``package`` or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or package.partition(".")[0] != error.name.partition(".")[0]:
            raise
        raise OptionalDependencyError(package, extra, purpose) from error
