"""Command-line options made from the fields of a method, so that each default stands once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, Literal, get_type_hints

import click

from kinrank.cli.files import import_modules
from kinrank.options import Hint
from kinrank.registry import method_class

# What `kinrank rerank` itself asks for; a method's field of this name could not be reached.
RESERVED = frozenset(
    {"query", "gallery", "out", "method", "k", "threads", "json", "help", "search", "work", "plan"}
    | {"block_size", "cluster", "storage", "vectors", "allowed", "exclude", "items", "threshold"}
    | {"query_groups", "gallery_groups", "column", "id", "with", "import"}
)
NONE = "none"
FOLLOWS = "from the others"


class MethodCommand(click.Command):
    """A command whose options are its own and those of the method that ``--method`` names.

    It gets the parameters that were typed as ``params``; the method has defaults for the rest.
    """

    def options_of(self, name: str) -> type:
        """The dataclass whose fields are the options of a method."""
        return method_class(name)

    def named(self, args: list[str]) -> str:
        """The method on a command line that is not parsed yet."""
        name = next(str(param.default) for param in self.params if param.name == "method")
        return next(iter(reversed(_typed_values(args, "--method"))), name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._choose(ctx, args)
        rest = super().parse_args(ctx, args)
        values = {str(option.name): ctx.params.pop(option.name) for option in self._chosen(ctx)[1]}
        typed = click.core.ParameterSource.COMMANDLINE
        ctx.params["params"] = {
            name: values[name] for name in values if ctx.get_parameter_source(name) is typed
        }
        return rest

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

    def _choose(self, ctx: click.Context, args: list[str]) -> None:
        if any("--import" in param.opts for param in self.params):
            import_modules(_typed_values(args, "--import"))  # methods that the name may be one of
        # Made once: click tells parameters apart by identity.
        name = self.named(args)
        ctx.meta[__name__] = (name, method_options(self.options_of(name)))

    def _chosen(self, ctx: click.Context) -> tuple[str, list[Any]]:
        if __name__ not in ctx.meta:
            self._choose(ctx, [])
        chosen: tuple[str, list[Any]] = ctx.meta[__name__]
        return chosen


def _typed_values(args: list[str], option: str) -> list[str]:
    """The values of an option on a command line that is not parsed yet."""
    values = []
    for argument, after in pairwise([*args, ""]):
        word, equals, value = argument.partition("=")
        if word == option:
            values.append(value if equals else after)
    return [value for value in values if value]


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


def read_hint(hint: Any, default: Any = None) -> Hint:
    """A hint of what can be typed: bool alone, or numbers, words and None."""
    read = Hint.of(hint, default)
    words = all(isinstance(word, str) for word in read.words)
    if read.other or not words or (read.flag and (read.words or read.number)):
        raise TypeError(f"no option can be made for {hint!r}")
    return read


def _option(cls: type, field: dataclasses.Field[Any], hint: Any) -> click.Option:
    if field.name in RESERVED:
        raise TypeError(f"{cls.__name__}.{field.name}: `kinrank rerank` has an option of this name")
    listed = field.metadata.get("cli", True)
    dashed = field.name.replace("_", "-")
    if listed is str:  # text that cannot be listed, such as the name of a file
        read = Hint({NONE: None} if field.default is None else {}, other=True)
    else:  # words may stand for a type that cannot be typed: a matrix
        hint = hint if listed is True else Literal[tuple(listed)]
        try:
            read = read_hint(hint, field.default)
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
    if read.other:
        return lambda text: read.words.get(text, text)
    if read.flag or not read.words:
        return bool if read.flag else read.number or str
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
    if read.flag or read.other:
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
