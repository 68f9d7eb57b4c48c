"""`kinrank eval`: features, ground truth and a method; metrics. And what such commands share."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinrank.cli.files import ask, ask_all, ask_import, ask_json, ask_out, ask_threads
from kinrank.cli.report import running
from kinrank.errors import InvalidInputError
from kinrank.io import is_npz, load_array, write_text_atomic
from kinrank.progress import format_seconds
from kinrank.types import Ranking

if TYPE_CHECKING:
    from kinrank.datasets import Dataset
    from kinrank.evaluate import Evaluation
    from kinrank.evaluate.cells import Failed, Measured

Sets = Callable[[], "list[Dataset]"]
FILES = {
    "query": "Vectors of the queries.",
    "gallery": "Vectors to search in.",
    "gnd": "Revisited ground truth, pkl or json.",
    "qrels": "Relevance judgements of TREC; --query-ids and --gallery-ids are then names in it.",
    "query_ids": "Identities or classes of the queries.",
    "gallery_ids": "Identities or classes of the gallery.",
    "query_cams": "Cameras of the queries.",
    "gallery_cams": "Cameras of the gallery.",
}
_DATA = ask(
    "--data",
    "A folder of features, images or ground truth, or digits, toy. Words after it, with commas: "
    "format=, query=, gallery=, distractors=, images=, name=, unit. May be given several times.",
    multiple=True,
    metavar="SET",
)


def ask_data(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for data sets, by name or folder or in single files; the command can load them."""

    @wraps(command)
    def with_sets(data: tuple[str, ...], **options: Any) -> Any:
        files = {name: options.pop(name) for name in FILES}
        return command(partial(load_sets, data, files), **options)

    files = (ask(f"--{name}", text, metavar="FILE") for name, text in FILES.items())
    return ask_all(_DATA, *files)(with_sets)


def load_sets(texts: Sequence[str], files: dict[str, str | None]) -> list[Dataset]:
    """The data sets that were asked for: those of --data, or one from single files.

    Vectors in files may stand beside one set without its own.
    """
    from kinrank.datasets import from_files, load_spec

    given: dict[str, Any] = {name: file for name, file in files.items() if file is not None}
    if not texts and not given:
        raise InvalidInputError(
            "A data set must be given: --data, or --query and --gallery with --gnd, --qrels or "
            "identities."
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


def tell_cell(cell: Measured | Failed, done: int, total: int) -> None:
    """One line for a cell."""
    from kinrank.evaluate.cells import Failed

    start = f"[{done:>{len(str(total))}}/{total}] {cell.method} on {cell.data}: "
    if isinstance(cell, Failed):
        click.echo(f"{start}failed: {cell.reason}", err=True)
        return
    figures = "  ".join(f"{name} {100 * cell.summary[name]:.1f}" for name in cell.headlines)
    memory = "" if cell.peak_bytes is None else f"  {cell.peak_bytes / 1e6:,.0f} MB"
    click.echo(f"{start}{figures}  {format_seconds(cell.seconds)}{memory}", err=True)
    for text in cell.warnings:
        click.echo(f"Warning: {text}", err=True)


@click.command(name="eval")
@ask_data
@ask("--method", "Such as cas(k1=60,k2=6), none.", default="cas")
@ask_import
@ask("--pool", "Search everything, then re-rank the first POOL of each.", type=int)
@ask("--ranking", "Measure this ranking (npz, or a run of TREC), run no method.", metavar="FILE")
@ask("--groups", "Measure this table of `kinrank group` against --labels, and no ranking.")
@ask("--labels", "With --groups: who each row is, an array or a text file with one a line.")
@ask_out("Values of each query, CSV.", "--per-query")
@ask_threads
@ask_json("Print JSON, fractions not per cent.")
def evaluate(
    load: Sets,
    method: str,
    pool: int | None,
    ranking: str | None,
    groups: str | None,
    labels: str | None,
    per_query: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Features, ground truth and a method: metrics.

    The data set is --data, or the files with vectors and either --gnd, --qrels or the identities.
    Metrics follow from it: Revisited levels for --gnd, nDCG and MAP for --qrels, mAP, CMC and mINP
    for identities. With --groups and
    --labels a grouping is measured instead: adjusted Rand index, B-cubed, pairs, V-measure, and
    single items.
    """
    if groups is not None or labels is not None:
        _measure_groups(groups, labels, as_json)
        return
    from kinrank.evaluate.cells import timed_ranking
    from kinrank.evaluate.spec import parse_method

    sets = load()
    if len(sets) > 1:
        raise InvalidInputError(
            f"`eval` measures one data set, got {len(sets)}. Use `kinrank compare` for several."
        )
    chosen = sets[0]
    seconds = None
    said = {}
    if ranking is not None:
        ranked = _read_ranking(ranking, chosen)
        label = ranking
    else:
        spec = parse_method(method)
        if pool is not None:
            spec = replace(spec, pool=pool)
            spec.build()
        label = spec.label
        with running():
            ranked, timing = timed_ranking(spec, chosen, threads=threads)
        seconds = timing["seconds"]
        said = timing["chosen"]
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


def _read_ranking(file: str, data: Dataset) -> Ranking:
    """A ranking of arrays, or a run file by the names of the data set."""
    if is_npz(file):
        return Ranking.load(file)
    named = data.protocol == "judged"
    queries = data.query.labels if named else None
    gallery = data.gallery.labels if named else None
    return Ranking.from_trec(file, range(len(data.query)) if queries is None else queries, gallery)


def _measure_groups(groups: str | None, labels: str | None, as_json: bool) -> None:
    from kinrank.cli.conditions import read_words
    from kinrank.cli.group import read_groups
    from kinrank.evaluate import score_grouping

    if groups is None or labels is None:
        raise InvalidInputError("--groups and --labels go together: give both or neither.")
    scores = score_grouping(read_words(labels), read_groups(groups))
    click.echo(json.dumps(scores.as_dict()) if as_json else str(scores))


def _write_queries(file: Path, data: Dataset, result: Evaluation) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["query", "name", *result.per_query])
    names = data.query.paths or [""] * result.n_queries
    columns = list(result.per_query.values())
    for query, name in enumerate(names):
        writer.writerow([query, name, *(f"{column[query]:.6f}" for column in columns)])
    write_text_atomic(file, stream.getvalue())
