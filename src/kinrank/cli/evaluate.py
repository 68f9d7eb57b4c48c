"""`kinrank eval`: features, ground truth and a method; metrics."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kinrank.cli.evaluate_shared import running
from kinrank.cli.files import output_file
from kinrank.errors import InvalidInputError
from kinrank.io import load_array, write_text_atomic
from kinrank.progress import format_seconds
from kinrank.types import Ranking

if TYPE_CHECKING:
    from kinrank.datasets import Dataset
    from kinrank.evaluate import Evaluation

Command = TypeVar("Command", bound=Callable[..., Any])

FILES = ("query", "gallery", "gnd", "query_ids", "gallery_ids", "query_cams", "gallery_cams")


def ask_files(command: Command) -> Command:
    """Options for a data set in single files."""
    texts = {
        "query": "Vectors of the queries.",
        "gallery": "Vectors to search in.",
        "gnd": "Revisited ground truth, pkl or json.",
        "query_ids": "Identities or classes of the queries.",
        "gallery_ids": "Identities or classes of the gallery.",
        "query_cams": "Cameras of the queries.",
        "gallery_cams": "Cameras of the gallery.",
    }
    for name in reversed(FILES):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, metavar="FILE", help=texts[name])(command)
    return command


@click.command(name="eval")
@click.option("--data", metavar="SET", help="A data set, as for `kinrank compare`.")
@ask_files
@click.option("--method", default="cas", show_default=True, help="Such as cas(k1=60,k2=6), none.")
@click.option("--pool", type=int, help="Search everything, then re-rank the first POOL of each.")
@click.option("--ranking", metavar="FILE", help="Measure this ranking (npz) and run no method.")
@click.option("--per-query", type=output_file, metavar="FILE", help="Values of each query, CSV.")
@click.option("--threads", type=int, help="Threads to use.  [default: one per core]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, fractions not per cent.")
def evaluate(
    data: str | None,
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

    chosen = _one_set(data, files)
    seconds = None
    if ranking is not None:
        found = Ranking.load(ranking)
        label = ranking
    else:
        spec = parse_method(method)
        if pool is not None:
            spec = parse_method(f"{method.rstrip(')')}{',' if '(' in method else '('}pool={pool})")
        label = spec.label
        with running():
            found, seconds, _, _ = timed_ranking(spec, chosen, threads=threads)
    result = chosen.evaluate(found)
    if per_query is not None:
        _write_queries(per_query, chosen, result)
    if as_json:
        summary = {"method": label, "data": chosen.name, "seconds": seconds}
        counts = {"no_match": result.no_match.tolist(), "missing": result.missing}
        click.echo(json.dumps({**summary, "metrics": result.summary(), **counts}))
        return
    took = "" if seconds is None else f", {format_seconds(seconds)}"
    click.echo(f"{label} on {chosen.name}{took}\n{result}")


def _one_set(data: str | None, files: dict[str, str | None]) -> Dataset:
    from kinrank.datasets import from_files, load_spec

    given: dict[str, Any] = {name: file for name, file in files.items() if file is not None}
    if data is None:
        return from_files(**{"query": None, "gallery": None, **given})
    chosen = load_spec(data)
    vectors = {name: given.pop(name) for name in ("query", "gallery") if name in given}
    if given:
        word = next(iter(given)).replace("_", "-")
        raise InvalidInputError(f"--{word} must not be given beside --data.")
    if not vectors:
        return chosen
    if len(vectors) == 1:
        raise InvalidInputError("--query and --gallery must both be given or neither.")
    return chosen.with_features(load_array(vectors["query"]), load_array(vectors["gallery"]))


def _write_queries(file: Path, data: Dataset, result: Evaluation) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["query", "name", *result.per_query])
    names = data.query.paths or [""] * result.n_queries
    columns = list(result.per_query.values())
    for query, name in enumerate(names):
        writer.writerow([query, name, *(f"{column[query]:.6f}" for column in columns)])
    write_text_atomic(file, stream.getvalue())
