"""`kinrank demo`: a table on the terminal and a page with pictures."""

from __future__ import annotations

import sys
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kinrank.cli.files import ask, ask_out, ask_threads
from kinrank.cli.report import running
from kinrank.io import write_text_atomic
from kinrank.progress import format_seconds

if TYPE_CHECKING:
    from kinrank.demo import Demo

_WIDTH = 22
DIGITS = "digits"


@click.command()
@ask_out("The page, one HTML file that needs nothing else.", default="demo.html")
@ask("--open", "Show the page in the browser.", to="open_page", is_flag=True)
@ask(
    "--images",
    "With picture files: those of FOLDER, or files made of the digits.",
    is_flag=False,
    flag_value=DIGITS,
    metavar="[FOLDER]",
)
@ask_threads
def demo(out: Path, open_page: bool, images: str | None, threads: int | None) -> None:
    """Re-rank handwritten digits and show what changed.

    100 digits of scikit-learn look for their own kind among the other 1,697, by plain Euclidean
    distance and by CAS, and all are put into groups without a label. Prints mAP, R1 and mINP
    before and after, how right the groups are, and the time of each stage, and writes a page with
    the pictures.

    With --images the same from picture files: features by efficientnet-lite0 (extra
    `efficientnet`), search, re-ranking and the page. A folder per class, or a data set, is
    measured; of other folders the page shows what changed. Up to 100 pictures are the queries.
    """
    # Here and not above, so that the other commands start without numba and scikit-learn.
    from kinrank.demo import run
    from kinrank.report.pages import check_extra, demo_page

    check_extra()
    if sys.stderr.isatty():
        click.echo("Ranking (the first run on a machine compiles for a while) ...", err=True)
    with ExitStack() as stack:
        stack.enter_context(running(show=images is not None))
        if images is None:
            result = run(threads)
        else:
            from kinrank.demo.images import run_images

            folder = None if images == DIGITS else images
            result = stack.enter_context(run_images(folder, threads))
        write_text_atomic(out, demo_page(result))
    click.echo(_table(result))
    click.echo(f"\nPage with pictures: {out}")
    if open_page:
        webbrowser.open(out.resolve().as_uri())


def _table(result: Demo) -> str:
    rows = [f"{len(result.queries)} {result.subject.many} among {result.others:,} others", ""]
    rows += [*_figures(result), ""]
    if result.tuning is not None:
        expected = result.tuning.expectation
        because = result.tuning.diagnosis.reason
        rows += [f"Expected without labels: {expected}. {because}", ""]
    rows += [*_groups(result), ""]
    for name, value in result.preparation.items():
        rows.append(f"{name:<{_WIDTH}}{format_seconds(value):>9}\n")
    rows.append(f"Time of each stage of {result.call}")
    timed = {**result.after.seconds, "in all": sum(result.after.seconds.values())}
    rows += [f"  {name:<{_WIDTH - 2}}{format_seconds(value):>9}" for name, value in timed.items()]
    return "\n".join(rows)


def _groups(result: Demo) -> list[str]:
    """What was found without labels, and how right it is where that is known."""
    groups = result.groups
    single = len(groups.singles)
    several = len(groups) - single
    lines = [f"Grouped without labels: {several} groups of 2 and more, {single} single items"]
    scores = result.grouping
    if scores is not None:
        lines.append(
            f"  adjusted Rand index {100 * scores.ari:.1f}, B-cubed precision "
            f"{100 * scores.bcubed_precision:.1f}, recall {100 * scores.bcubed_recall:.1f}"
        )
    return lines


def _figures(result: Demo) -> list[str]:
    if not result.judged:
        changed = result.changes()
        new = f"{(changed > 0).sum()} queries have new results in their first ten"
        return [f"{new}, {changed.mean():.1f} on average"]
    before = result.before
    after = result.after
    lines = (
        (before.name, before.headline, "9.2f"),
        (after.name, after.headline, "9.2f"),
        ("change", result.change, "+9.2f"),
    )
    return [" " * _WIDTH + "".join(f"{name:>9}" for name in before.headline)] + [
        f"{title:<{_WIDTH}}" + "".join(format(value, form) for value in figures.values())
        for title, figures, form in lines
    ]
