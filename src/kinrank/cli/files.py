"""Options that several commands have; files are checked before the work begins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from kinrank.io import split_name

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def existing_file(text: str) -> str:
    """A file that is there."""
    if not Path(text).is_file():
        raise click.BadParameter(f"there is no file {text!r}.")
    return text


def array_file(text: str) -> str:
    """A file of vectors that is there, perhaps with ``:name`` at its end."""
    if not split_name(text)[0].is_file():
        raise click.BadParameter(f"there is no file {text!r}.")
    return text


def output_file(text: str) -> Path:
    """A file that can be written: said before the work, not after it."""
    path = Path(text)
    if path.is_dir():
        raise click.BadParameter(f"{text!r} is a folder.")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}.")
    return path


def ask(name: str, text: str, *, to: str | None = None, **options: Any) -> Decorator:
    """An option with its help, which shows a default; to : the argument that gets it."""
    options.setdefault("show_default", "default" in options)
    return click.option(name.replace("_", "-"), *([] if to is None else [to]), help=text, **options)


def ask_array(name: str, text: str, **options: Any) -> Decorator:
    """An option for a file of vectors or of words about them."""
    return ask(name, text, type=array_file, metavar="FILE", **options)


def ask_out(text: str, name: str = "--out", **options: Any) -> Decorator:
    """An option for a file to write."""
    return ask(name, text, type=output_file, metavar="FILE", **options)


def ask_json(text: str = "Print a summary as JSON.") -> Decorator:
    """The option for programs that read what is printed."""
    return ask("--json", text, to="as_json", is_flag=True)


def ask_all(*options: Decorator) -> Decorator:
    """Several options, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def import_modules(names: Sequence[str]) -> None:
    """Import modules that register methods; those in the current folder too."""
    for name in names:
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        try:
            import_module(name)
        except Exception as error:  # whatever the user's module raises
            raise click.BadParameter(f"{name} cannot be imported: {error}") from error


ask_import = click.option(
    "--import",
    multiple=True,
    is_eager=True,  # before methods are looked up
    expose_value=False,
    callback=lambda _ctx, _option, names: import_modules(names),
    metavar="MODULE",
    help="A module that registers methods of your own; may be repeated.",
)
ask_threads = ask("--threads", "Threads to use.  [default: one per core]", type=int)
ask_gallery = ask_array("--gallery", "Vectors to search in.", required=True)
ask_auto = ask(
    "--params",
    "auto chooses the parameters that are not given, without labels.",
    to="chosen_by",
    type=click.Choice(["auto"]),
)
