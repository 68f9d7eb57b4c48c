"""Command-line options made from the fields of a method, so that each default stands once."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from kinrank.registry import method_class

# What `kinrank rerank` itself asks for; a method's field of this name could not be reached.
RESERVED = frozenset(
    {"query", "gallery", "out", "method", "k", "threads", "json", "help", "search", "work", "plan"}
    | {"block_size", "cluster", "storage", "vectors", "allowed", "exclude", "of", "threshold"}
    | {"query_groups", "gallery_groups"}
)
NONE = "none"
FOLLOWS = "from the others"


class MethodCommand(click.Command):
    """A command whose options are its own and those of the method that ``--method`` names."""

    def options_of(self, name: str) -> type:
        """The dataclass whose fields are the options of a method."""
        return method_class(name)

    def named(self, args: list[str]) -> str | None:
        """The method on a command line that is not parsed yet."""
        return _last_value("--method", args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._choose(ctx, self.named(args) or self._default_method())
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *self._chosen(ctx)[1]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of the command and those of the method apart."""
        name, options = self._chosen(ctx)
        groups = {"Options": super().get_params(ctx), f"Parameters of {name}": options}
        for title, params in groups.items():
            records = [param.get_help_record(ctx) for param in params]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record is not None])

    def _choose(self, ctx: click.Context, name: str) -> None:
        # Made once: click tells parameters apart by identity.
        options: list[click.Parameter] = [*method_options(self.options_of(name))]
        ctx.meta[__name__] = (name, options)

    def _chosen(self, ctx: click.Context) -> tuple[str, list[click.Parameter]]:
        if __name__ not in ctx.meta:
            self._choose(ctx, self._default_method())
        chosen: tuple[str, list[click.Parameter]] = ctx.meta[__name__]
        return chosen

    def _default_method(self) -> str:
        return next(str(param.default) for param in self.params if param.name == "method")


def method_options(cls: type) -> list[click.Option]:
    """One option for each parameter of a method, in the order of its fields.

    ``metadata={"help": ...}`` is shown; ``"cli": False`` leaves a field out, ``"cli": words``
    offers these words for one whose other values cannot be typed, and ``"cli": str`` takes any.
    """
    hints = get_type_hints(cls)
    return [
        _option(cls, field, hints[field.name])
        for field in dataclasses.fields(cls)
        if field.metadata.get("cli", True)
    ]


def given_params(ctx: click.Context, values: dict[str, Any]) -> dict[str, Any]:
    """Those of ``values`` that the user gave; the rest is left to the method's own defaults."""
    given = click.core.ParameterSource.COMMANDLINE
    return {name: values[name] for name in values if ctx.get_parameter_source(name) is given}


@dataclasses.dataclass(frozen=True)
class Hint:
    """A type hint, taken apart."""

    words: dict[str, str | None]  # what is typed -> the value
    number: type[int] | type[float] | None
    flag: bool
    text: bool = False  # whether anything may be typed


def _text_hint(default: Any) -> Hint:
    """Of text that cannot be listed, such as the name of a file."""
    return Hint({NONE: None} if default is None else {}, None, False, True)


def read_hint(hint: Any, default: Any = None) -> Hint:
    """Take apart a union of bool, int, float, ``Literal`` strings and None.

    A default of None means that the value follows from other parameters. Beside any other
    default, None is a value of its own and is typed as "none".
    """
    words: dict[str, str | None] = {}
    number: type[int] | type[float] | None = None
    flag = False
    for member in _members(hint):
        if get_origin(member) is Literal:
            words |= {NONE if word is None else word: word for word in get_args(member)}
        elif member is bool:
            flag = True
        elif member in (int, float):
            number = float if float in (member, number) else int
        elif member is not types.NoneType:
            raise TypeError(f"no option can be made for {member!r}")
    if not all(isinstance(word, str) for word in words) or (flag and (words or number)):
        raise TypeError(f"no option can be made for {hint!r}")
    if types.NoneType in _members(hint) and default not in (None, dataclasses.MISSING):
        words[NONE] = None
    return Hint(words, number, flag)


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _option(cls: type, field: dataclasses.Field[Any], hint: Any) -> click.Option:
    if field.name in RESERVED:
        raise TypeError(f"{cls.__name__}.{field.name}: `kinrank rerank` has an option of this name")
    listed = field.metadata.get("cli", True)
    dashed = field.name.replace("_", "-")
    if listed not in (True, str):  # words that stand for a type that cannot be typed: a matrix
        hint = Literal[tuple(listed)]
    try:
        read = _text_hint(field.default) if listed is str else read_hint(hint, field.default)
    except TypeError as error:
        message = f"{cls.__name__}.{field.name}: {error}; metadata `cli` can hide it"
        raise TypeError(message) from None
    return click.Option(
        [f"--{dashed}/--no-{dashed}" if read.flag else f"--{dashed}", field.name],
        type=_converter(read),
        required=field.default is field.default_factory is dataclasses.MISSING,
        metavar=_metavar(read),
        help=_help(field, read),
    )


def _converter(read: Hint) -> Callable[[str], Any]:
    """What turns the text of an option into a value."""
    if read.text:
        return lambda text: read.words.get(text, text)
    if read.flag:
        return bool
    if not read.words:
        return read.number or str
    expected = list(read.words)
    if read.number is not None:
        expected.append("an integer" if read.number is int else "a number")

    def convert(text: str) -> Any:
        if text in read.words:
            return read.words[text]
        if read.number is not None:
            with suppress(ValueError):
                return read.number(text)
        raise click.BadParameter(f"must be one of {', '.join(expected)}, got {text!r}.")

    return convert


def _metavar(read: Hint) -> str | None:
    if read.flag or read.text:
        return None if read.flag else "TEXT"
    numbers = [] if read.number is None else ["NUMBER" if read.number is float else "INTEGER"]
    return "|".join([*read.words, *numbers])


def _help(field: dataclasses.Field[Any], read: Hint) -> str:
    text = str(field.metadata.get("help", ""))
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if default is dataclasses.MISSING:
        return text
    if default is None:
        default = NONE if None in read.words.values() else FOLLOWS
    elif isinstance(default, bool):
        default = "on" if default else "off"
    return f"{text}  [default: {default}]".strip()


def _last_value(option: str, args: Sequence[str]) -> str | None:
    """The value of ``option`` on a command line that is not parsed yet."""
    value = None
    for position, argument in enumerate(args):
        if argument == option and position + 1 < len(args):
            value = args[position + 1]
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
    return value
