"""Methods by name, imported on first use."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinrank.errors import InvalidInputError, UnknownNameError, shown

_METHODS = {
    "alphaqe": "kinrank.methods.query_expansion.expansion:AlphaQE",
    "aqe": "kinrank.methods.query_expansion.expansion:AQE",
    "aqewd": "kinrank.methods.query_expansion.expansion:AQEwD",
    "cas": "kinrank.cas:CAS",
    "cdm": "kinrank.methods.context.cdm:CDM",
    "csa": "kinrank.methods.learned.trained:CSA",
    "dfs": "kinrank.methods.diffusion.dfs:DFS",
    "dqe": "kinrank.methods.query_expansion.expansion:DQE",
    "ecn": "kinrank.methods.context.ecn:ECN",
    "egt": "kinrank.methods.diffusion.egt:EGT",
    "eir": "kinrank.methods.diffusion.eir:EIR",
    "fsr": "kinrank.methods.diffusion.fsr:FSR",
    "gnn": "kinrank.methods.context.gnn:GNN",
    "gss": "kinrank.methods.learned.gss:GSS",
    "knn": "kinrank.methods.context.knn:KNN",
    "kreciprocal": "kinrank.methods.context.kreciprocal:KReciprocal",
    "lattqe": "kinrank.methods.learned.lattqe:LAttQE",
    "manifold": "kinrank.methods.diffusion.manifold:Manifold",
    "rdp": "kinrank.methods.diffusion.rdp:RDP",
    "sca": "kinrank.methods.context.sca:SCA",
    "sg": "kinrank.methods.query_expansion.sg:SG",
    "ssr": "kinrank.methods.learned.trained:SSR",
    "stml": "kinrank.methods.context.stml:STML",
}

ENTRY_POINTS = "kinrank.methods"  # the group under which other packages offer methods
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = frozenset({"none", "all"})  # words of `--methods`
_REGISTERED: dict[str, type[Any]] = {}  # what `register` was given
# Methods of the extra `torch`; those that cannot do without a file of weights.
_TORCH = frozenset({"csa", "gss", "lattqe", "ssr"})
_WEIGHTS = frozenset({"csa", "lattqe", "ssr"})


def methods() -> list[str]:
    """The names of all registered methods.

    Examples
    --------
    >>> import kinrank
    >>> kinrank.methods()[:4]
    ['alphaqe', 'aqe', 'aqewd', 'cas']
    """
    return sorted({*_METHODS, *_REGISTERED, *_offered()})


def register(name: str, method: type[Any]) -> None:
    """Make a method of your own known under a name: to ``rerank``, ``compare`` and the command.

    A package offers methods without a call, by entry points of the group ``kinrank.methods``.

    Parameters
    ----------
    name : small letters, digits and underscores; one that was registered before is replaced, those
        of kinrank's own methods are not
    method : a frozen, keyword-only dataclass derived from ``kinrank.Method`` or
        ``kinrank.DistanceMethod``; ``kinrank.testing.check_method`` says whether it keeps what
        methods promise

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, kinrank
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Chebyshev(kinrank.DistanceMethod):
    ...     def distances(self, queries, gallery):
    ...         return np.abs(queries[:, None] - gallery[None]).max(axis=2)
    >>> kinrank.register("chebyshev", Chebyshev)
    >>> kinrank.rerank([[0.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]], "chebyshev").indices.tolist()
    [[1, 0]]
    """
    if not _is_text(name) or not _NAME.fullmatch(name) or name in _RESERVED:
        raise InvalidInputError(
            "`name` must be small letters, digits and underscores, and neither 'none' nor 'all', "
            f"got {shown(name)}."
        )
    if name in _METHODS:
        raise InvalidInputError(f"`name` must not be that of a method of kinrank, got {name!r}.")
    _REGISTERED[name] = _checked_class(method, "`method`")


def _is_text(name: object) -> bool:
    return isinstance(name, str)


def _checked_class(method: Any, what: str) -> type[Any]:
    """A class that can be a method; what : it, in messages."""
    # By name: methods are above this module.
    bases = method.__mro__ if isinstance(method, type) else ()
    if ("kinrank.methods.base", "Method") not in [(b.__module__, b.__name__) for b in bases]:
        raise InvalidInputError(
            f"{what} must be a class derived from kinrank.Method or kinrank.DistanceMethod, got "
            f"{shown(method)}."
        )
    own_fields = is_dataclass(method) and "__dataclass_params__" in vars(method)
    if not own_fields or not method.__dataclass_params__.frozen:
        raise InvalidInputError(
            f"{what} must be a dataclass, @dataclass(frozen=True, kw_only=True), got the plain "
            f"class {method.__name__}."
        )
    checked: type[Any] = method
    return checked


@cache
def _offered() -> dict[str, Any]:
    """Entry points of other packages by name; kinrank's own methods keep their names."""
    return {
        point.name: point
        for point in entry_points(group=ENTRY_POINTS)
        if _NAME.fullmatch(point.name) and point.name not in {*_METHODS, *_RESERVED}
    }


def import_path(name: str) -> str | None:
    """Where another process finds a method that was registered: "module:Class"; None for others."""
    if name not in _REGISTERED:
        return None
    cls = _REGISTERED[name]
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        raise InvalidInputError(
            f"The method {name!r} is defined in {cls.__module__}.{cls.__qualname__}, where another "
            "process cannot import it. Put the class into a module, or compare in this process "
            "(isolate=False, --no-isolate)."
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def code_digest(name: str) -> str | None:
    """A digest of the file that a method of your own is written in; None for others."""
    if name in _METHODS:
        return None
    file = getattr(sys.modules.get(method_class(name).__module__), "__file__", None)
    if file is None:
        return None
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()


def ready_methods() -> list[str]:
    """The names of the methods that work here as they are: no weights, no extra that is missing."""
    missing = _WEIGHTS if find_spec("torch") else _TORCH
    return [name for name in methods() if name not in missing]


def untrained_methods() -> list[str]:
    """The names of the methods that never learn."""
    return [name for name in methods() if name not in _TORCH]


def class_modules() -> dict[str, str]:
    """The names of the methods' classes, and where they are."""
    return {name: module for module, _, name in (path.partition(":") for path in _METHODS.values())}


def method_class(name: str) -> type[Any]:
    """The class registered under ``name``."""
    if not _is_text(name):
        raise UnknownNameError("method", name, methods())
    if name in _METHODS:
        module, _, attribute = _METHODS[name].partition(":")
        cls: type[Any] = getattr(import_module(module), attribute)
        return cls
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in _offered():
        point = _offered()[name]
        try:
            offered = point.load()
        except Exception as error:  # whatever the package raises
            raise InvalidInputError(
                f"The method {name!r} of {point.value} cannot be loaded: {error}"
            ) from error
        return _checked_class(offered, f"The entry point {name!r} ({point.value})")
    raise UnknownNameError("method", name, methods())


def make_method(method: str, **params: Any) -> Any:
    """An instance of the method registered under ``method``."""
    cls = method_class(method)
    check_parameters(method, cls, params)
    try:
        return cls(**params)
    except TypeError as error:
        raise InvalidInputError(f"{method}: {error}") from error


def check_parameters(method: str, cls: type[Any], params: Iterable[str]) -> None:
    """Refuse names that no field of a method, or of its recipe, has."""
    allowed = [field.name for field in fields(cls)]
    for name in params:
        if name not in allowed:
            raise UnknownNameError(f"parameter of {method}", name, allowed)
