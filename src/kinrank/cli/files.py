"""Options that several commands have; files are checked before the work begins."""

from __future__ import annotations

from collections.abc import Callable
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


def ask_array(name: str, text: str, *, required: bool = False) -> Decorator:
    """An option for a file of vectors or of words about them."""
    return click.option(name, type=array_file, metavar="FILE", required=required, help=text)


def ask_out(text: str, *, required: bool = True) -> Decorator:
    """The option for the file to write."""
    return click.option("--out", type=output_file, metavar="FILE", required=required, help=text)


def ask_json(text: str = "Print a summary as JSON.") -> Decorator:
    """The option for programs that read what is printed."""
    return click.option("--json", "as_json", is_flag=True, help=text)


ask_threads = click.option("--threads", type=int, help="Threads to use.  [default: one per core]")
ask_query = ask_array("--query", "Vectors of the queries.", required=True)
ask_gallery = ask_array("--gallery", "Vectors to search in.", required=True)
