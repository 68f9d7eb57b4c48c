"""`kinrank compare`, `ablate` and `report`: many methods, many data sets, one answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kinrank.cli.evaluate_shared import (
    ask_data,
    ask_run,
    load_sets,
    method_list,
    running,
    split_words,
)
from kinrank.cli.files import output_file
from kinrank.errors import InvalidInputError
from kinrank.io import write_text_atomic

if TYPE_CHECKING:
    from kinrank.evaluate.ablation import Ablation

FORMS = ("csv", "md", "tex", "html")
STUDIES = "bsd, nss, distance, k1, k2, omega, kappa, sigma, mu, beta, latency"


@click.command(name="compare")
@ask_data
@click.option(
    "--methods", default="all", show_default=True, help="Such as none,cas,cas(k1=60,k2=6), or all."
)
@click.option("--pool", type=int, help="Every method once more over the first POOL of each query.")
@ask_run
@click.option("--isolate/--no-isolate", default=True, help="A process per cell, for its memory.")
@click.option(
    "--out",
    type=output_file,
    multiple=True,
    metavar="FILE",
    help="The table as .csv, .md, .tex or .html; may be given several times.",
)
def compare_command(
    data: tuple[str, ...],
    methods: str,
    pool: int | None,
    work: Path,
    threads: int | None,
    isolate: bool,
    out: tuple[Path, ...],
) -> None:
    """Many methods on many data sets, in one table.

    Prints Markdown: methods as rows, sets and metrics as columns, time and peak memory, the best
    in bold, and differences with paired bootstrap intervals. A finished cell is kept in --work and
    is not computed again. Exit code 1 if a cell failed.
    """
    from kinrank.evaluate.comparison import compare
    from kinrank.evaluate.layout import comparison_table, difference_table
    from kinrank.evaluate.render import render
    from kinrank.evaluate.reporting.build import best_method
    from kinrank.evaluate.reporting.page import render_page

    for file in out:
        if file.suffix[1:] not in FORMS:
            raise click.BadParameter(f"{file} must end in .{', .'.join(FORMS)}.")
    sets, specs = load_sets(data), method_list(methods, pool)
    with running() as told:
        found = compare(specs, sets, work=work, isolate=isolate, threads=threads, on_cell=told)
    table = comparison_table(found)
    for file in out:
        if file.suffix == ".html":
            page = render_page(found, best_method(found), sets, title="Comparison of methods")
        else:
            page = render(table, file.suffix[1:])
        write_text_atomic(file, page)
    click.echo(render(table, "md"))
    if len(found.methods) > 1:
        click.echo(render(difference_table(found), "md"))
    if found.failures:
        raise click.exceptions.Exit(1)


@click.command(name="ablate")
@ask_data
@click.option("--method", default="cas", show_default=True, help="Where the variations start from.")
@click.option("--studies", default="all", show_default=True, help=f"Of {STUDIES}; with commas.")
@click.option(
    "--values", multiple=True, metavar="NAME=V,V,...", help="Other values, such as k1=10,20,40."
)
@ask_run
@click.option("--out", type=Path, metavar="FOLDER", help="Tables (csv, md, tex) and plots (svg).")
def ablate_command(
    data: tuple[str, ...],
    method: str,
    studies: str,
    values: tuple[str, ...],
    work: Path,
    threads: int | None,
    out: Path | None,
) -> None:
    """The paper's ablations on your features.

    Several data sets, such as one with several kinds of features, stand side by side as in the
    paper's tables. Prints Markdown.
    """
    from kinrank.evaluate.ablation import ablate
    from kinrank.evaluate.render import render

    sets = load_sets(data)
    chosen, grids = split_words(studies), _grids(values)
    with running() as told:
        found = ablate(
            sets,
            method=method,
            studies=chosen,
            values=grids,
            work=work,
            threads=threads,
            on_cell=told,
        )
    for table in found.tables().values():
        click.echo(render(table, "md"))
    if out is not None:
        _write_ablation(out, found)


@click.command(name="report")
@ask_data
@click.option("--methods", default="none,cas", show_default=True, help="As for `kinrank compare`.")
@click.option("--focus", help="The method to look at closely.  [default: the best]")
@click.option(
    "--studies", default="none", show_default=True, help="Ablations: all, none, or names."
)
@click.option("--values", multiple=True, metavar="NAME=V,V,...", help="As for `kinrank ablate`.")
@click.option("--examples", default=6, show_default=True, help="Retrieval examples per data set.")
@click.option("--title", default="Re-ranking report", show_default=True, help="Of the page.")
@ask_run
@click.option("--out", type=output_file, default="report.html", show_default=True, metavar="FILE")
def report_command(
    data: tuple[str, ...],
    methods: str,
    focus: str | None,
    studies: str,
    values: tuple[str, ...],
    examples: int,
    title: str,
    work: Path,
    threads: int | None,
    out: Path,
) -> None:
    """One self-contained HTML page about methods on your features.

    Tables, gains with intervals, each query before and after, distances of matches and
    non-matches, parameter curves, and retrieval examples when images are at hand.
    """
    from kinrank.evaluate.reporting import report as make_report

    sets = load_sets(data)
    with running() as told:
        make_report(
            sets,
            out,
            methods=methods,
            focus=focus,
            studies=() if studies == "none" else split_words(studies),
            values=_grids(values),
            work=work,
            n_examples=examples,
            threads=threads,
            on_cell=told,
            title=title,
        )
    click.echo(f"Written to {out}", err=True)


def _grids(values: tuple[str, ...]) -> dict[str, list[float]]:
    grids = {}
    for text in values:
        name, _, numbers = text.partition("=")
        try:
            grids[name.strip()] = [
                float(n) if "." in n or "e" in n.lower() else int(n) for n in numbers.split(",")
            ]
        except ValueError:
            raise InvalidInputError(f"--values must be like k1=10,20,40, got {text!r}.") from None
    return grids


def _write_ablation(folder: Path, found: Ablation) -> None:
    from kinrank.evaluate.render import render
    from kinrank.evaluate.reporting.page import plot_style
    from kinrank.evaluate.reporting.studies import study_figures

    folder.mkdir(parents=True, exist_ok=True)
    style = plot_style()
    for result in found.results:
        key = result.study.key
        for form in ("csv", "md", "tex"):
            write_text_atomic(folder / f"{key}.{form}", render(result.table(), form))
        figures = study_figures(result)
        for number, figure in enumerate(figures):
            name = key if len(figures) == 1 else f"{key}-{result.sets[number]}"
            write_text_atomic(folder / f"{name.replace('/', '_')}.svg", figure.file(style))
    click.echo(f"Written to {folder}", err=True)
