"""`kinrank rerank`: two files of vectors in, one file of a ranking out."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from kinrank._api import make_method
from kinrank.cli.files import array_file, output_file
from kinrank.cli.options import MethodCommand, given_params
from kinrank.cli.report import facts, format_seconds, shown_warnings, watched
from kinrank.io import load_array


@click.command(cls=MethodCommand)
@click.option(
    "--query", type=array_file, metavar="FILE", required=True, help="Vectors of the queries."
)
@click.option(
    "--gallery", type=array_file, metavar="FILE", required=True, help="Vectors to search in."
)
@click.option(
    "--out", type=output_file, metavar="FILE", required=True, help="The ranking, an npz file."
)
@click.option("--method", default="cas", show_default=True, help="See `kinrank methods`.")
@click.option("-k", type=int, help="Results per query.  [default: the whole gallery]")
@click.option("--threads", type=int, help="Threads to use.  [default: one per core]")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
@click.pass_context
def rerank(
    ctx: click.Context,
    /,
    query: str,
    gallery: str,
    out: Path,
    method: str,
    k: int | None,
    threads: int | None,
    as_json: bool,
    **params: Any,
) -> None:
    """Rank the gallery for each query.

    Vectors are read from npy, npz and safetensors files, one per row; FILE:NAME picks one of
    several arrays. `kinrank rerank --method NAME --help` lists the parameters of a method;
    those with the default "from the others" follow from the rest when left out.

    The file written holds `indices` (row numbers of the gallery, nearest first) and `distances`;
    Ranking.load reads it. On a terminal each stage shows its progress; in a pipe nothing is
    printed but warnings and what --json asks for.
    """
    begun = time.perf_counter()
    chosen = make_method(method, **given_params(ctx, params))
    on_terminal = sys.stderr.isatty()
    with shown_warnings() as warned, watched(show=on_terminal) as watch:
        queries, vectors = load_array(query), load_array(gallery)
        ranking = chosen.rerank(queries, vectors, k, threads=threads)
    ranking.save(out)
    summary = {
        "method": method,
        "parameters": dataclasses.asdict(chosen),
        "n_queries": len(ranking),
        "n_gallery": len(vectors),
        "k": ranking.k,
        **facts(begun, watch, warned, out),
    }
    if as_json:
        click.echo(json.dumps(summary))
    elif on_terminal:
        click.echo(_sentence(summary), err=True)


def _sentence(summary: dict[str, Any]) -> str:
    memory = summary["peak_memory_bytes"]
    peak = "" if memory is None else f", peak memory {memory / 1e6:,.0f} MB"
    return (
        f"{summary['n_queries']:,} queries over {summary['n_gallery']:,} gallery rows, "
        f"first {summary['k']:,} of each, by {summary['method']}: "
        f"{format_seconds(summary['seconds'])}{peak}\nWritten to {summary['output']}"
    )
