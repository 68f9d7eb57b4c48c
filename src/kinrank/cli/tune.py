"""`kinrank tune`: files of vectors in, parameters and a verdict out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from kinrank import tune as choose
from kinrank.cli.files import array_file, output_file
from kinrank.cli.options import MethodCommand, given_params
from kinrank.cli.report import shown_warnings, watched
from kinrank.io import load_array


@click.command(cls=MethodCommand)
@click.option(
    "--gallery", type=array_file, metavar="FILE", required=True, help="Vectors to search."
)
@click.option("--query", type=array_file, metavar="FILE", help="Vectors of queries, if there are.")
@click.option(
    "--method", default="cas", show_default=True,
    help="One of cas, kreciprocal, alphaqe, rdp, ecn, gnn.",
)  # fmt: skip
@click.option(
    "--budget", type=float, default=10.0, show_default=True,
    help="What may be spent: the neighbours of 25 rows are looked at for each unit.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random numbers.")
@click.option("--html", type=output_file, metavar="FILE", help="Write a page with the reasons.")
@click.option("--threads", type=int, help="Threads to use.  [default: one per core]")
@click.option("--json", "as_json", is_flag=True, help="Print all that was found as JSON.")
@click.pass_context
def tune(
    ctx: click.Context,
    /,
    gallery: str,
    query: str | None,
    method: str,
    budget: float,
    seed: int,
    html: Path | None,
    threads: int | None,
    as_json: bool,
    **params: Any,
) -> None:
    """Choose the parameters of a method without labels.

    Vectors are read as by `kinrank rerank`. Prints what was chosen, whether re-ranking is expected
    to help, and why. Parameters that are given stay as they are; `kinrank tune --method NAME
    --help` lists them.
    """
    fixed = given_params(ctx, params)
    if html is not None:
        from kinrank.report.pages import check_extra

        check_extra()
    with shown_warnings(), watched(show=sys.stderr.isatty()):
        queries = None if query is None else load_array(query)
        tuning = choose(
            queries, load_array(gallery), method, budget, seed=seed, threads=threads, **fixed
        )
    if html is not None:
        tuning.save_html(html)
    click.echo(json.dumps(tuning.to_dict()) if as_json else str(tuning))
