"""What the commands that measure have in common: data sets, work folder, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kinrank.cli.report import shown_warnings, watched
from kinrank.progress import format_seconds

if TYPE_CHECKING:
    from kinrank.datasets import Dataset
    from kinrank.evaluate.cells import Failed, Measured
    from kinrank.evaluate.comparison import OnCell
    from kinrank.evaluate.spec import MethodSpec

Command = TypeVar("Command", bound=Callable[..., Any])

DATA_HELP = (
    "A folder of features, images or ground truth, or digits, toy. Words after it, with commas: "
    "format=, query=, gallery=, distractors=, images=, name=, unit. May be given several times."
)


def ask_data(command: Command) -> Command:
    """The option for data sets."""
    return click.option("--data", multiple=True, required=True, metavar="SET", help=DATA_HELP)(
        command
    )


def ask_run(command: Command) -> Command:
    """Where finished cells are kept, and how many threads work."""
    command = click.option("--threads", type=int, help="Threads to use.  [default: one per core]")(
        command
    )
    return click.option(
        "--work",
        type=Path,
        default="kinrank-work",
        show_default=True,
        metavar="FOLDER",
        help="Keeps finished cells, so that a run can be stopped and gone on with.",
    )(command)


def load_sets(texts: Sequence[str]) -> list[Dataset]:
    """The data sets that were asked for."""
    from kinrank.datasets import load_spec

    return [load_spec(text) for text in texts]


def method_list(methods: str, pool: int | None) -> list[MethodSpec]:
    """The methods, and each of them over a pool besides if that was asked for."""
    from kinrank.evaluate.spec import NONE, MethodSpec, parse_methods

    specs = parse_methods(methods)
    if pool is None:
        return specs
    pooled = [
        MethodSpec(spec.name, spec.params, pool)
        for spec in specs
        if spec.name != NONE and spec.pool is None
    ]
    return specs + pooled


def split_words(text: str) -> list[str] | None:
    """Names with commas; None for all."""
    return None if text == "all" else [word.strip() for word in text.split(",") if word.strip()]


@contextmanager
def running() -> Iterator[OnCell]:
    """Bars on a terminal, warnings as lines, and one line for each cell that is done."""
    on_terminal = sys.stderr.isatty()
    with shown_warnings(), watched(show=on_terminal):
        yield tell_cell


def tell_cell(cell: Measured | Failed, done: int, total: int) -> None:
    """One line for a cell."""
    width = len(str(total))
    start = f"[{done:>{width}}/{total}] {cell.method} on {cell.data}: "
    from kinrank.evaluate.cells import Failed

    if isinstance(cell, Failed):
        click.echo(f"{start}failed: {cell.reason}", err=True)
        return
    figures = "  ".join(f"{name} {100 * cell.summary[name]:.1f}" for name in cell.headlines)
    memory = "" if cell.peak_bytes is None else f"  {cell.peak_bytes / 1e6:,.0f} MB"
    click.echo(f"{start}{figures}  {format_seconds(cell.seconds)}{memory}", err=True)
    for text in cell.warnings:
        click.echo(f"Warning: {text}", err=True)
