"""Methods by name, imported on first use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kinrank.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    from kinrank.methods.base import Method

_METHODS = {
    "alphaqe": "kinrank.methods.query_expansion.expansion:AlphaQE",
    "aqe": "kinrank.methods.query_expansion.expansion:AQE",
    "aqewd": "kinrank.methods.query_expansion.expansion:AQEwD",
    "cas": "kinrank.methods.cas:CAS",
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
    return sorted(_METHODS)


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


def method_class(name: str) -> type[Method]:
    """The class registered under ``name``."""
    try:
        module, _, attribute = _METHODS[name].partition(":")
    except (KeyError, TypeError):
        raise UnknownNameError("method", name, _METHODS) from None
    found: type[Method] = getattr(import_module(module), attribute)
    return found


def make_method(method: str, **params: Any) -> Method:
    """An instance of the method registered under ``method``."""
    cls = method_class(method)
    check_parameters(method, cls, params)
    try:
        return cls(**params)
    except TypeError as error:
        raise InvalidInputError(f"{method}: {error}") from error


def check_parameters(method: str, cls: type[Any], params: Iterable[str]) -> None:
    """Refuse names that no field of a method, or of its recipe, has."""
    known = [field.name for field in fields(cls)]
    for name in params:
        if name not in known:
            raise UnknownNameError(f"parameter of {method}", name, known)
