"""`kinrank group`: vectors or pictures in, a table of who is who out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

import kinrank
from kinrank.cli.conditions import read_words
from kinrank.cli.files import ask, ask_array, ask_json, ask_threads, existing_file, output_file
from kinrank.cli.places import ask_budget, ask_cluster, ask_search, ask_vectors, ask_work
from kinrank.cli.report import running
from kinrank.cli.tables import ask_columns, read_rows
from kinrank.io import load_array
from kinrank.reading import reading


def table_file(text: str) -> Path:
    """A table that can be written, by its ending."""
    path = output_file(text)
    if path.suffix not in (".csv", ".json"):
        raise click.BadParameter(f"{text!r} must end in .csv or .json.")
    return path


@click.command(name="group")
@ask_array("--gallery", "Vectors to group.")
@ask("--images", "Or a folder of pictures; features by --model.", metavar="FOLDER")
@ask("--model", "As in `kinrank extract`.", default="efficientnet-lite0")
@ask_array("--ids", "Names of the rows, an array or a text file with one a line.")
@ask_columns
@ask("--out", "The table, csv or json.", type=table_file, metavar="FILE", required=True)
@ask("--links", "With --images: a new folder, with links to the pictures of each group.")
@ask("--strictness", "0 generous to 1 cautious.", type=float, default=0.5)
@ask("--threshold", "Instead: the least link within a group, 0 to 1.", type=float)
@ask("--corrections", "The file of corrections, which may not be there yet.", metavar="FILE")
@ask("--distinct", "A value for each row: no two of one value are the same.", type=existing_file)
@ask_array("--labels", "Who each row is: tells how right the groups are.")
@ask("--compare", "With --labels: HDBSCAN, DBSCAN on Jaccard and average link too.", is_flag=True)
@ask_search
@ask_budget
@ask_work
@ask_vectors
@ask_cluster
@ask_threads
@ask_json()
def group_command(
    gallery: str | None,
    images: str | None,
    model: str,
    ids: str | None,
    column: str | None,
    id_column: str | None,
    out: Path,
    links: str | None,
    strictness: float,
    threshold: float | None,
    corrections: str | None,
    distinct: str | None,
    labels: str | None,
    compare: bool,
    threads: int | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Say who is the same: a table with a group for each row or picture.

    No threshold is asked for. Where the features cannot tell, it says so, and all rows are single
    items. With --corrections, what people corrected in that file is heeded.
    """
    if (gallery is None) == (images is None):
        raise click.UsageError("Give either --gallery or --images.")
    if links is not None and images is None:
        raise click.UsageError("--links needs --images: there are no files to link to.")
    if compare and labels is None:
        raise click.UsageError("--compare needs --labels.")
    with running():
        if images is not None:
            vectors, names = _described(images, model, threads)
        else:
            assert gallery is not None
            table = read_rows(gallery, column, id_column)
            vectors = table.vectors
            names = table.ids
        if ids is not None:
            names = read_words(ids)
        constraints = None
        if distinct is not None:
            constraints = kinrank.Constraints(distinct={"distinct": read_words(distinct)})
        groups = kinrank.group(
            vectors,
            names,
            strictness=strictness,
            threshold=threshold,
            constraints=constraints,
            corrections=corrections,
            threads=threads,
            run=kinrank.Run(**where),
        )
        groups.save(out)
        if links is not None:
            assert images is not None
            groups.link_files(images, links)
        scores = {}
        if compare:
            from kinrank.evaluate.groupings import compare_groupings

            scores = compare_groupings(vectors, read_words(labels), groups.labels, threads=threads)
        elif labels is not None:
            from kinrank.evaluate import score_grouping

            scores = {"kinrank": score_grouping(read_words(labels), groups.labels)}
    _tell(groups, out, scores, as_json)


def _tell(groups: kinrank.Groups, out: Path, scores: dict[str, Any], as_json: bool) -> None:
    single = len(groups.singles)
    if as_json:
        summary = {
            "out": str(out),
            "rows": len(groups.labels),
            "groups": len(groups) - single,
            "singles": single,
            "sure": groups.verdict.sure,
            "verdict": groups.verdict.text,
            "contradictions": list(groups.contradictions),
            "scores": {name: score.as_dict() for name, score in scores.items()},
        }
        click.echo(json.dumps(summary))
        return
    click.echo(
        f"{len(groups.labels):,} rows: {len(groups) - single:,} groups of 2 and more, {single:,} "
        f"single items. {groups.verdict.text}"
    )
    for text in groups.contradictions:
        click.echo(f"Warning: {text}", err=True)
    if len(scores) == 1:
        click.echo(str(scores["kinrank"]))
    elif scores:
        width = max(map(len, scores))
        click.echo(f"{'':<{width}}    ARI  B-cubed  precision  recall  singles  groups")
        for name, score in scores.items():
            click.echo(
                f"{name:<{width}}  {100 * score.ari:5.1f}  {100 * score.bcubed_f:7.1f}  "
                f"{100 * score.bcubed_precision:9.1f}  {100 * score.bcubed_recall:6.1f}  "
                f"{_percent(score.singles_found):>7}  {score.groups:6,}"
            )


def _percent(share: float | None) -> str:
    """A share in per cent, a dash for none."""
    return "-" if share is None else f"{100 * share:.1f}"


def _described(images: str, model: str, threads: int | None) -> tuple[Any, Any]:
    """Features and names of the pictures in a folder; those that cannot be read are left out."""
    from kinrank.features import extract

    extracted = extract(images, model, threads=threads)
    for name, why in extracted.failures:
        click.echo(f"Warning: {name} is left out: {why}.", err=True)
    return extracted.features, extracted.names


def read_groups(path: str) -> Any:
    """The group of each row: of a table that ``Groups.save`` wrote, or an array."""
    if Path(path).suffix not in (".csv", ".json"):
        return np.asarray(load_array(path))
    with reading(Path(path), "a table with a column `group`"):
        text = Path(path).read_text(encoding="utf-8")
        is_json = Path(path).suffix == ".json"
        records = json.loads(text) if is_json else list(csv.DictReader(io.StringIO(text)))
        return [str(record["group"]) for record in records]
