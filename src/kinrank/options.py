"""Parameters as fields of a dataclass: their help, and what they may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kinrank.validation import check_bool, check_choice, check_float, check_size


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field with the help that the command line shows, and more about its values.

    within, above, below : (low, high) of a float: with both ends, without the low, without the high
    spare : of a size: there must be so many rows more
    check : what a value is checked by instead of by its type: ``check(name, value)``
    cli : see ``kinrank.cli.options.method_options``
    """
    return field(default=default, metadata={"help": text, **metadata})


def check_options(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a dataclass' fields, checked by their types and what ``option`` says of them.

    An int is a size, 1 or more. None is not checked where it is the default: the value follows.
    """
    return {name: check(values[name]) for name, check in _checks(cls).items()}


@dataclass(frozen=True)
class Checked:
    """A dataclass whose fields are checked by ``check_options``."""

    def __post_init__(self) -> None:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        for name, value in check_options(type(self), values).items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Hint:
    """A type hint, taken apart.

    words : what is typed -> the value; number : int or float; flag : on or off; other : anything
    else that the value may be
    """

    words: dict[Any, str | None]
    number: type[int] | type[float] | None = None
    flag: bool = False
    other: bool = False

    @classmethod
    def of(cls, hint: Any, default: Any) -> Hint:
        """Of a field.

        A default of None means that the value follows from other parameters. Beside any other
        default, None is a value of its own and is typed as "none".
        """
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        literals = [kind for kind in kinds if get_origin(kind) is Literal]
        values = [word for literal in literals for word in get_args(literal)]
        if NoneType in kinds and default not in (None, MISSING):
            values.append(None)
        number = float if float in kinds else int if int in kinds else None
        other = {*kinds} - {*literals, bool, int, float, NoneType}
        words = {"none" if value is None else value: value for value in values}
        return cls(words, number, bool in kinds, bool(other))


@cache
def _checks(cls: type) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(cls)
    return {item.name: _check(item, hints[item.name]) for item in fields(cls)}


def _check(item: Field[Any], hint: Any) -> Callable[[Any], Any]:
    name = item.name
    facts = item.metadata
    if "check" in facts:
        return partial(facts["check"], name)
    allowed = Hint.of(hint, item.default)
    words = tuple(allowed.words.values())
    ends = ((key, facts[key]) for key in ("within", "above", "below") if key in facts)
    which, (low, high) = next(ends, ("within", (-math.inf, math.inf)))

    def check(value: Any) -> Any:
        if value is None and item.default is None:
            return None
        if words and (allowed.number is None or (isinstance(value, str) and value in words)):
            return check_choice(name, value, words)
        if allowed.flag:
            return check_bool(name, value)
        if allowed.number is float:
            opened = {"low_open": which == "above", "high_open": which == "below"}
            return check_float(name, value, low, high, **opened)
        return value if allowed.number is None else check_size(name, value)

    return check
