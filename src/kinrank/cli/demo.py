"""`kinrank demo`: a table on the terminal and a page with pictures."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kinrank.cli.files import output_file
from kinrank.cli.report import format_seconds, shown_warnings
from kinrank.io import write_text_atomic

if TYPE_CHECKING:
    from kinrank.demo import Demo

_WIDTH = 22


@click.command()
@click.option(
    "--out",
    type=output_file,
    metavar="FILE",
    default="demo.html",
    show_default=True,
    help="The page, one HTML file that needs nothing else.",
)
@click.option("--open", "open_page", is_flag=True, help="Show the page in the browser.")
@click.option("--threads", type=int, help="Threads to use.  [default: one per core]")
def demo(out: Path, open_page: bool, threads: int | None) -> None:
    """Re-rank handwritten digits and show what changed.

    100 digits of scikit-learn look for their own kind among the other 1,697, by plain Euclidean
    distance and by CAS. Prints mAP, R1 and mINP before and after and the time of each stage, and
    writes a page with the pictures.
    """
    # Here and not above, so that the other commands start without numba and scikit-learn.
    from kinrank.demo import render, run

    if sys.stderr.isatty():
        click.echo("Ranking (the first run on a machine compiles for a while) ...", err=True)
    with shown_warnings():
        result = run(threads)
    write_text_atomic(out, render(result))
    click.echo(_table(result))
    click.echo(f"\nPage with pictures: {out}")
    if open_page:
        webbrowser.open(out.resolve().as_uri())


def _table(result: Demo) -> str:
    before, after = result.before, result.after
    rows = [
        f"{len(result.queries)} handwritten digits among {len(result.gallery):,} others",
        "",
        " " * _WIDTH + "".join(f"{name:>9}" for name in before.headline),
        _row(before.name, before.headline, "9.2f"),
        _row(after.name, after.headline, "9.2f"),
        _row("change", result.change, "+9.2f"),
        "",
        f"Time of each stage of {result.call}",
    ]
    timed = {**after.seconds, "in all": sum(after.seconds.values())}
    rows += [f"  {name:<{_WIDTH - 2}}{format_seconds(value):>9}" for name, value in timed.items()]
    return "\n".join(rows)


def _row(title: str, figures: dict[str, float], form: str) -> str:
    return f"{title:<{_WIDTH}}" + "".join(format(value, form) for value in figures.values())
