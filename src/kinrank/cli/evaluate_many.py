"""`kinrank compare`, `ablate` and `report`: many methods, many data sets, one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinrank.cli.evaluate import Sets, ask_data, tell_cell
from kinrank.cli.files import ask, ask_all, ask_import, ask_out, ask_threads, output_file
from kinrank.cli.report import running
from kinrank.errors import InvalidInputError, KinrankError
from kinrank.io import make_folder, write_text_atomic
from kinrank.progress import format_seconds

if TYPE_CHECKING:
    from kinrank.datasets import Dataset
    from kinrank.evaluate.spec import MethodSpec
    from kinrank.report.figures import Chart

MANY = 8  # methods that take long enough to say so beforehand
FORMS = ("csv", "md", "tex", "html")
STUDIES = "bsd, nss, distance, k1, k2, omega, kappa, sigma, mu, beta, latency"
_FOLDER: dict[str, Any] = {"type": Path, "metavar": "FOLDER"}
_METRICS = ask(
    "--metrics", "What is shown, such as mAP,R1.  [default: what the field prints first]"
)
_TWO_COLUMNS = ask(
    "--two-columns",
    "LaTeX and figures for a page of two columns.",
    is_flag=True,
)
_RUN = ask_all(
    ask(
        "--work",
        "Keeps finished cells, so that a run can be stopped and gone on with.",
        default="kinrank-work",
        **_FOLDER,
    ),
    ask_threads,
)


@click.command(name="compare")
@ask_data
@ask("--methods", "Such as none,cas(k1=60,k2=6),cas(params=auto), or all.", default="all")
@ask_import
@ask("--pool", "Every method once more over the first POOL of each query.", type=int)
@_METRICS
@_RUN
@ask(
    "--isolate/--no-isolate",
    "A process per cell, for its memory.",
    default=True,
    show_default=False,
)
@ask_out("The table as .csv, .md, .tex or .html; may be given several times.", multiple=True)
@ask("--figures", "Gains and costs as pdf and svg.", **_FOLDER)
@_TWO_COLUMNS
def compare_command(
    load: Sets,
    methods: str,
    pool: int | None,
    out: tuple[Path, ...],
    figures: Path | None,
    two_columns: bool,
    **run: Any,
) -> None:
    """Many methods on many data sets, in one table.

    Prints Markdown: methods as rows, sets and metrics as columns, time and peak memory, the best
    in bold, and differences with paired bootstrap intervals. A finished cell is kept in --work and
    is not computed again. Exit code 1 if a cell failed.
    """
    from kinrank.evaluate.comparison import compare
    from kinrank.report.comparison import comparison_tables
    from kinrank.report.formats import render
    from kinrank.report.pages import check_extra, comparison_page, cost_charts, gain_charts

    rendered = partial(render, two_columns=two_columns)

    for file in out:
        if file.suffix[1:] not in FORMS:
            raise click.BadParameter(f"{file} must end in .{', .'.join(FORMS)}.")
    if figures is not None or any(file.suffix == ".html" for file in out):
        check_extra()
    sets = load()
    specs = _methods(methods, pool)
    with running():
        _tell_time(specs, sets, run["threads"])
        comparison = compare(specs, sets, on_cell=tell_cell, **run)
    tables = comparison_tables(comparison)
    for file in out:
        form = file.suffix[1:]
        if form == "html":
            title = "Comparison of methods"
            text = comparison_page(comparison, comparison.best, sets, title=title)
        else:  # the differences would be other columns of a CSV file
            text = "\n".join(rendered(table, form) for table in tables[: 1 if form == "csv" else 2])
        write_text_atomic(file, text)
    if figures is not None:
        charts = [*gain_charts(comparison), *cost_charts(comparison)]
        named = {chart.title.replace(": ", "-"): chart for chart in charts}
        _save_charts(figures, named, two_columns=two_columns)
    click.echo("\n".join(render(table, "md") for table in tables))
    if comparison.failures:
        raise click.exceptions.Exit(1)


@click.command(name="ablate")
@ask_data
@ask("--method", "Where the variations start from.", default="cas")
@ask("--studies", f"Of {STUDIES}; with commas.", default="all")
@ask("--values", "Other values, such as k1=10,20,40.", multiple=True, metavar="NAME=V,V,...")
@_METRICS
@_TWO_COLUMNS
@_RUN
@ask("--out", "Tables (csv, md, tex) and figures (pdf, svg).", **_FOLDER)
def ablate_command(
    load: Sets,
    studies: str,
    values: tuple[str, ...],
    out: Path | None,
    two_columns: bool,
    **run: Any,
) -> None:
    """The paper's ablations on your features.

    Several data sets, such as one with several kinds of features, stand side by side as in the
    paper's tables. Prints Markdown.
    """
    from kinrank.evaluate.ablation import ablate
    from kinrank.report.comparison import study_charts
    from kinrank.report.formats import render
    from kinrank.report.pages import check_extra

    if out is not None:
        check_extra()
    sets = load()
    chosen = _words(studies)
    grids = _grids(values)
    with running():
        ablation = ablate(sets, studies=chosen, values=grids, on_cell=tell_cell, **run)
    for table in ablation.tables().values():
        click.echo(render(table, "md"))
    if out is None:
        return
    make_folder(out)
    for study in ablation.studies:
        key = study.key
        charts = study_charts(study)
        for form in ("csv", "md", "tex"):
            text = render(study.table(), form, two_columns=two_columns)
            write_text_atomic(out / f"{key}.{form}", text)
        names = [key] if len(charts) == 1 else [f"{key}-{name}" for name in study.sets]
        _save_charts(out, dict(zip(names, charts, strict=False)), two_columns=two_columns)
    click.echo(f"Written to {out}", err=True)


@click.command(name="report")
@ask_data
@ask("--methods", "As for `kinrank compare`.", default="none,cas")
@ask_import
@ask("--focus", "The method to look at closely.  [default: the best]")
@ask("--studies", "Ablations: all, none, or names.", default="none")
@ask("--values", "As for `kinrank ablate`.", multiple=True, metavar="NAME=V,V,...")
@_METRICS
@ask("--examples", "Retrieval examples per data set.", to="n_examples", default=6)
@ask("--title", "Of the page.", default="Re-ranking report")
@_RUN
@click.option("--out", type=output_file, default="report.html", show_default=True, metavar="FILE")
def report_command(
    load: Sets, methods: str, studies: str, values: tuple[str, ...], out: Path, **run: Any
) -> None:
    """One self-contained HTML page about methods on your features.

    Tables, gains with intervals, each query before and after, distances of matches and
    non-matches, parameter curves, and retrieval examples when images are at hand.
    """
    from kinrank.evaluate.reporting import report

    sets = load()
    specs = _methods(methods)
    chosen = () if studies == "none" else _words(studies)
    with running():
        _tell_time(specs, sets, run["threads"])
        run |= {"methods": methods, "studies": chosen, "values": _grids(values)}
        report(sets, out, on_cell=tell_cell, **run)
    click.echo(f"Written to {out}", err=True)


def _methods(text: str, pool: int | None = None) -> list[MethodSpec]:
    """The methods, and each of them over a pool besides if that was asked for."""
    from kinrank.evaluate.spec import NONE, left_out, parse_methods

    specs = parse_methods(text)
    for name, reason in left_out(text).items():
        click.echo(f"Left out of all: {name}, which {reason}.", err=True)
    if pool is None:
        return specs
    return specs + [replace(s, pool=pool) for s in specs if s.name != NONE and s.pool is None]


def _tell_time(specs: Sequence[MethodSpec], sets: Sequence[Dataset], threads: int | None) -> None:
    """Say about how long many methods will take on large sets."""
    from kinrank.evaluate.cells import SAMPLES, estimate_seconds

    for data in sets:
        rows = len(data.query) + len(data.gallery)
        if len(specs) <= MANY or rows <= 2 * SAMPLES[1] or data.gallery.features is None:
            continue
        seconds = 0.0
        for spec in specs:
            with suppress(KinrankError):  # the cell itself will say why
                seconds += estimate_seconds(spec, data, threads=threads)
        click.echo(
            f"{len(specs)} methods on {data.name} will take about {format_seconds(seconds)}, "
            f"judging by {SAMPLES[0]:,} and {SAMPLES[1]:,} of its {rows:,} rows; cells that are "
            "kept from before take none.",
            err=True,
        )


def _words(text: str) -> Sequence[str] | None:
    """Names with commas; None for all."""
    return None if text == "all" else [word.strip() for word in text.split(",") if word.strip()]


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


def _save_charts(folder: Path, charts: Mapping[str, Chart], *, two_columns: bool) -> None:
    from kinrank.report.figures import COLUMN, WIDTH

    make_folder(folder)
    width = COLUMN if two_columns else WIDTH
    for name, chart in charts.items():
        for form in ("pdf", "svg"):
            file = f"{name.replace('/', '_').replace(' ', '-')}.{form}"
            chart.save(folder / file, width)
