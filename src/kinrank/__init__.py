"""kinrank: nearest-neighbour search, right the second time.

ranking = kinrank.rerank(queries, gallery, k=100)
ranking = kinrank.CAS(k1=60, k2=6).rerank(queries, gallery, k=100)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The package `methods` before the function `methods`: a first import of the package later on would
# take the function's place.
from kinrank import methods as _package  # noqa: F401
from kinrank._api import rerank
from kinrank.errors import (
    FileFormatError,
    InvalidInputError,
    KinrankError,
    KinrankWarning,
    OptionalDependencyError,
    UnknownNameError,
)
from kinrank.registry import methods
from kinrank.types import Ranking

if TYPE_CHECKING:
    from kinrank import datasets, evaluate
    from kinrank.methods.cas import CAS

__version__ = "0.1.0"

__all__ = [
    "CAS",
    "FileFormatError",
    "InvalidInputError",
    "KinrankError",
    "KinrankWarning",
    "OptionalDependencyError",
    "Ranking",
    "UnknownNameError",
    "__version__",
    "datasets",
    "evaluate",
    "methods",
    "rerank",
]

# Loaded on first use, so that `import kinrank` brings neither numba nor scipy.
_LAZY = {"CAS": "kinrank.methods.cas"}
_SUBMODULES = ("datasets", "evaluate")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"kinrank.{name}")
    raise AttributeError(f"module 'kinrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
