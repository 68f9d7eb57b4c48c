"""Files named on the command line, checked before the work begins."""

from __future__ import annotations

from pathlib import Path

import click

from kinrank.io import split_name


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
