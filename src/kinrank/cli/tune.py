"""`kinrank tune`: files of vectors in, parameters and a verdict out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import kinrank
from kinrank.cli.files import ask, ask_array, ask_json, ask_out, ask_threads
from kinrank.cli.options import MethodCommand
from kinrank.cli.report import running
from kinrank.cli.tables import ask_column, read_queries, read_vectors


@click.command(cls=MethodCommand)
@ask_array("--gallery", "Vectors to search.", required=True)
@ask_array("--query", "Vectors of queries, if there are.")
@ask_column
@ask("--method", "One of cas, kreciprocal, alphaqe, rdp, ecn, gnn.", default="cas")
@ask(
    "--budget",
    "What may be spent: the neighbours of 25 rows are looked at for each unit.",
    type=float,
    default=10.0,
)
@ask("--seed", "Of the random numbers.", type=int, default=0)
@ask_out("Write a page with the reasons.", "--html")
@ask_threads
@ask_json("Print all that was found as JSON.")
def tune(
    gallery: str,
    query: str | None,
    column: str | None,
    html: Path | None,
    as_json: bool,
    params: Any,
    **asked: Any,
) -> None:
    """Choose the parameters of a method without labels.

    Vectors are read as by `kinrank rerank`. Prints what was chosen, whether re-ranking is expected
    to help, and why. Parameters that are given stay as they are; `kinrank tune --method NAME
    --help` lists them.
    """
    if html is not None:
        from kinrank.report.pages import check_extra

        check_extra()
    with running():
        queries = None if query is None else read_queries(query, column, None).vectors
        tuning = kinrank.tune(queries, read_vectors(gallery, column), **asked, **params)
    if html is not None:
        tuning.save_html(html)
    click.echo(json.dumps(tuning.to_dict()) if as_json else str(tuning))
