"""`kinrank eval`: features, ground truth and a method; metrics. And what such commands share."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kinrank.cli.files import output_file
from kinrank.cli.report import shown_warnings, watched
from kinrank.errors import InvalidInputError
from kinrank.io import load_array, write_text_atomic
from kinrank.progress import format_seconds
from kinrank.types import Ranking

if TYPE_CHECKING:
    from kinrank.datasets import Dataset
    from kinrank.evaluate import Evaluation
    from kinrank.evaluate.cells import Failed, Measured
    from kinrank.evaluate.comparison import OnCell

Command = TypeVar("Command", bound=Callable[..., Any])

DATA_HELP = (
    "A folder of features, images or ground truth, or digits, toy. Words after it, with commas: "
    "format=, query=, gallery=, distractors=, images=, name=, unit."
)
FILES = {
    "query": "Vectors of the queries.",
    "gallery": "Vectors to search in.",
    "gnd": "Revisited ground truth, pkl or json.",
    "query_ids": "Identities or classes of the queries.",
    "gallery_ids": "Identities or classes of the gallery.",
    "query_cams": "Cameras of the queries.",
    "gallery_cams": "Cameras of the gallery.",
}
threads_option = click.option(
    "--threads", type=int, help="Threads to use.  [default: one per core]"
)


def data_options(command: Command) -> Command:
    """Options for data sets: by name or folder, or one in single files."""
    for name, text in reversed(FILES.items()):
        command = click.option(f"--{name.replace('_', '-')}", metavar="FILE", help=text)(command)
    text = f"{DATA_HELP} May be given several times."
    return click.option("--data", multiple=True, metavar="SET", help=text)(command)


def load_sets(texts: Sequence[str], files: dict[str, str | None]) -> list[Dataset]:
    """The data sets that were asked for: those of --data, or one from single files.

    Vectors in files may stand beside one set without its own.
    """
    from kinrank.datasets import from_files, load_spec

    given: dict[str, Any] = {name: file for name, file in files.items() if file is not None}
    if not texts and not given:
        raise InvalidInputError(
            "A data set must be given: --data, or --query and --gallery with --gnd or identities."
        )
    if not texts:
        return [from_files(**{"query": None, "gallery": None, **given})]
    sets = [load_spec(text) for text in texts]
    vectors = {name: given.pop(name) for name in ("query", "gallery") if name in given}
    if given:
        word = next(iter(given)).replace("_", "-")
        raise InvalidInputError(f"--{word} cannot be combined with --data.")
    if not vectors:
        return sets
    if len(vectors) == 1:
        raise InvalidInputError("--query and --gallery go together: give both or neither.")
    if len(sets) > 1:
        raise InvalidInputError(
            "--query and --gallery can be combined with one --data, and several were given."
        )
    return [sets[0].with_features(load_array(vectors["query"]), load_array(vectors["gallery"]))]


@contextmanager
def running() -> Iterator[OnCell]:
    """Bars on a terminal, warnings as lines, and one line for each cell that is done."""
    with shown_warnings(), watched(show=sys.stderr.isatty()):
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


@click.command(name="eval")
@data_options
@click.option("--method", default="cas", show_default=True, help="Such as cas(k1=60,k2=6), none.")
@click.option("--pool", type=int, help="Search everything, then re-rank the first POOL of each.")
@click.option("--ranking", metavar="FILE", help="Measure this ranking (npz) and run no method.")
@click.option("--per-query", type=output_file, metavar="FILE", help="Values of each query, CSV.")
@threads_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, fractions not per cent.")
def evaluate(
    data: tuple[str, ...],
    method: str,
    pool: int | None,
    ranking: str | None,
    per_query: Path | None,
    threads: int | None,
    as_json: bool,
    **files: str | None,
) -> None:
    """Features, ground truth and a method: metrics.

    The data set is --data, or the files with vectors and either --gnd or the identities. Metrics
    follow from it: Revisited levels for --gnd, mAP, CMC and mINP for identities.
    """
    from kinrank.evaluate.cells import timed_ranking
    from kinrank.evaluate.spec import parse_method

    sets = load_sets(data, files)
    if len(sets) > 1:
        raise InvalidInputError(
            f"`eval` measures one data set, got {len(sets)}. Use `kinrank compare` for several."
        )
    chosen = sets[0]
    seconds, said = None, {}
    if ranking is not None:
        ranked = Ranking.load(ranking)
        label = ranking
    else:
        spec = parse_method(method)
        if pool is not None:
            spec = replace(spec, pool=pool)
            spec.build()
        label = spec.label
        with running():
            ranked, timing = timed_ranking(spec, chosen, threads=threads)
        seconds, said = timing["seconds"], timing["chosen"]
    result = chosen.evaluate(ranked)
    if per_query is not None:
        _write_queries(per_query, chosen, result)
    if as_json:
        summary: dict[str, Any] = {"method": label, "data": chosen.name, "seconds": seconds}
        summary |= {"chosen": said} if said else {}
        counts = {"no_match": result.no_match.tolist(), "missing": result.missing}
        click.echo(json.dumps({**summary, "metrics": result.summary(), **counts}))
        return
    took = "" if seconds is None else f", {format_seconds(seconds)}"
    click.echo(f"{label} on {chosen.name}{took}\n{result}")
    for name, sentence in said.items():
        click.echo(f"{name:<14}{sentence}")


def _write_queries(file: Path, data: Dataset, result: Evaluation) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["query", "name", *result.per_query])
    names = data.query.paths or [""] * result.n_queries
    columns = list(result.per_query.values())
    for query, name in enumerate(names):
        writer.writerow([query, name, *(f"{column[query]:.6f}" for column in columns)])
    write_text_atomic(file, stream.getvalue())
