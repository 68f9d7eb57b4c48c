"""Methods as people type them: cas, cas(k1=60,k2=6), cas(pool=50), cas(params=auto), none, all."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinrank.errors import InvalidInputError, UnknownNameError, shown
from kinrank.evaluate.search import Plain, Pooled
from kinrank.methods.base import Method
from kinrank.registry import code_digest, make_method, method_class, ready_methods
from kinrank.registry import methods as registered
from kinrank.tune.rules import check_tunable
from kinrank.validation import as_list, check_choice

NONE = "none"
ALL = "all"
_METHODS = "names such as 'none,cas(k1=60)' or ['none', 'cas(k1=60)']"
SHAPE = re.compile(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class MethodSpec:
    """A method by name, with the parameters that were given and perhaps a pool.

    auto : the other parameters are chosen for each data set, by ``kinrank.tune``
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    pool: int | None = None
    auto: bool = False

    @property
    def label(self) -> str:
        """As it is typed, without what is left to the defaults."""
        given = dict(self.params) | ({} if self.pool is None else {"pool": self.pool})
        given |= {"params": "auto"} if self.auto else {}
        inside = ", ".join(f"{key}={value}" for key, value in given.items())
        return f"{self.name}({inside})" if inside else self.name

    def build(self) -> Method:
        """The method itself, with defaults for what is still to be chosen."""
        try:
            plain = Plain(**self.params) if self.name == NONE else None
        except TypeError as error:
            raise InvalidInputError(f"{NONE}: {error}") from error
        method: Method = plain or make_method(self.name, **self.params)
        return method if self.pool is None else Pooled(method=method, pool=self.pool)

    @property
    def complexity(self) -> str:
        """The orders of time that the documentation of the method names, added up."""
        doc = inspect.getdoc(Plain if self.name == NONE else method_class(self.name)) or ""
        sentence = re.search(r"Time (O\(.*?)(?:memory|[.]\s|$)", doc, re.DOTALL)
        orders = re.findall(r"O\(([^()]*)\)", sentence[1]) if sentence else []
        return f"O({' + '.join(orders)})" if orders else ""

    def identity(self) -> dict[str, Any]:
        """All parameters, defaults too, so that a change of a default is a change."""
        method = self.build()
        inner = method.method if isinstance(method, Pooled) else method
        whole = {"name": self.name, "params": inner.parameters(), "pool": self.pool}
        code = None if self.name == NONE else code_digest(self.name)
        if code is not None:  # your own method changes without a new version of kinrank
            whole["code"] = code
        if hasattr(inner, "fingerprint"):  # the same file may hold other weights another time
            whole["weights"] = inner.fingerprint()
        return whole | ({"auto": True, "given": sorted(self.params)} if self.auto else {})


def parse_methods(methods: object) -> list[MethodSpec]:
    """Methods from a text with commas, or from a list of such texts and of parsed methods.

    ``all`` is ``none`` and all that work without weights; a method that is named twice is one.
    """
    one = isinstance(methods, (str, MethodSpec))
    entries = [methods] if one else as_list("methods", methods, _METHODS)
    specs: list[MethodSpec] = []
    for entry in entries:
        if isinstance(entry, MethodSpec):
            specs.append(entry)
        elif isinstance(entry, str):
            specs += _parse_text(entry)
        else:
            raise InvalidInputError(f"`methods` must be {_METHODS}, got {shown(entry)}.")
    if not specs:
        raise InvalidInputError("`methods` must name at least one method, got none.")
    return list({spec.label: spec for spec in specs}.values())


def _parse_text(text: str) -> list[MethodSpec]:
    """Methods from a text with commas."""
    specs: list[MethodSpec] = []
    for word in _split(text):
        if word == ALL:
            specs += [MethodSpec(NONE), *(MethodSpec(name) for name in ready_methods())]
        else:
            specs.append(parse_method(word))
    return specs


def left_out(text: str) -> dict[str, str]:
    """The methods that ``all`` does not hold here, and what each wants."""
    if ALL not in _split(text):
        return {}
    return {
        name: f"needs the extra torch or a file of weights: name it, such as {name}(weights=FILE)"
        for name in registered()
        if name not in ready_methods()
    }


def parse_method(text: object) -> MethodSpec:
    """One method, with its parameters in brackets."""
    matched = SHAPE.fullmatch(text) if isinstance(text, str) else None
    if matched is None:
        raise InvalidInputError(
            f"`methods` must be like cas or cas(k1=60,k2=6), got {shown(text)}."
        )
    name = matched[1]
    if name != NONE and name not in registered():
        raise UnknownNameError("method", name, [NONE, ALL, *registered()])
    params = dict(_parameter(word) for word in _split(matched[2] or ""))
    pool = params.pop("pool", None)
    auto = params.pop("params", None)
    if auto is not None:
        check_choice("params", auto, ("auto",))
        check_tunable(name)
    spec = MethodSpec(name, params, pool, auto is not None)
    spec.build()  # Say no before the work, not in the middle of it.
    return spec


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInputError(f"A parameter must be like k1=60, got {text!r}.")
    return name.strip(), literal(value.strip())


def literal(text: str) -> Any:
    """A number, True, False or None; anything else is a word."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _split(text: str) -> list[str]:
    """At commas and semicolons that are not in brackets."""
    words = [""]
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter in ",;" and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    if depth:
        raise InvalidInputError(f"A bracket is open or closed once too often in {text!r}.")
    return [word.strip() for word in words if word.strip()]
