"""`kinrank rerank`: files of vectors in, one file of a ranking out."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

import kinrank
from kinrank import progress
from kinrank.cli.conditions import ask_rerank_conditions, rerank_conditions
from kinrank.cli.files import ask_array, ask_gallery, ask_json, ask_out, ask_threads
from kinrank.cli.options import MethodCommand, given_params
from kinrank.cli.report import facts, shown_warnings, watched
from kinrank.io import load_array
from kinrank.parallel import Runner, thread_count
from kinrank.progress import format_seconds
from kinrank.registry import make_method
from kinrank.runs.options import SEARCHES, VECTORS
from kinrank.validation import as_matrix

_CONDITIONS = ("allowed", "exclude", "query_groups", "gallery_groups", "of")
_PLAIN = (None, "exact", "float32")  # values of options that ask for nothing special


@click.command(cls=MethodCommand)
@ask_array("--query", "Vectors of the queries.  [default: the gallery, each row without itself]")
@ask_gallery
@ask_out("The ranking, an npz file.", required=False)
@click.option("--method", default="cas", show_default=True, help="See `kinrank methods`.")
@click.option("-k", type=int, help="Results per query.  [default: the whole gallery]")
@click.option(
    "--params", "chosen_by", type=click.Choice(["auto"]),
    help="auto chooses the parameters that are not given, without labels.",
)  # fmt: skip
@ask_rerank_conditions
@ask_threads
@click.option("--block-size", type=int, help="Rows that are worked on at a time.  [default: fits]")
@click.option(
    "--search", type=click.Choice(SEARCHES), default="exact", show_default=True,
    help="How neighbours are found; for 100,000 rows and more, approximate.",
)  # fmt: skip
@click.option(
    "--memory-budget", metavar="SIZE",
    help="Such as 4GB: keep stages in files and the process below it.",
)  # fmt: skip
@click.option(
    "--work", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Where these files are; a run that was stopped goes on.  [default: a temporary one]",
)  # fmt: skip
@click.option(
    "--vectors", type=click.Choice(VECTORS), default="float32", show_default=True,
    help="What vectors are kept as; float16 is half the bytes.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="local|auto|HOST:PORT|ray://HOST:PORT",
    help="Machines of a Ray cluster to do the work.  [default: this one alone]",
)  # fmt: skip
@click.option(
    "--storage", metavar="FOLDER|URL",
    help="Where machines exchange arrays.  [default: their memory]",
)  # fmt: skip
@click.option("--plan", "plan_only", is_flag=True, help="Say what the run would cost, and stop.")
@ask_json()
@click.pass_context
def rerank(
    ctx: click.Context, /, query: str | None, gallery: str, out: Path | None, method: str,
    k: int | None, threads: int | None, block_size: int | None, search: str,
    memory_budget: str | None, work: Path | None, vectors: str, cluster: str | None,
    storage: str | None, plan_only: bool, as_json: bool, threshold: float | None,
    chosen_by: str | None, **params: Any,
) -> None:  # fmt: skip
    """Rank the gallery for each query.

    Without --query every row of the gallery asks all others. Vectors are read from npy, npz and
    safetensors files, one per row; FILE:NAME picks one of several arrays.
    `kinrank rerank --method NAME --help` lists the parameters of a method;
    those with the default "from the others" follow from the rest when left out.

    The file written holds `indices` (row numbers of the gallery, nearest first) and `distances`;
    Ranking.load reads it. On a terminal each stage shows its progress; in a pipe nothing is
    printed but warnings and what --json asks for. With --memory-budget the plan, the stages with
    their bytes and times, comes first; with --cluster what moved between machines comes last.
    """
    begun = time.perf_counter()
    given = {name: params.pop(name) for name in _CONDITIONS}
    chosen = make_method(method, **given_params(ctx, params))
    on_terminal = sys.stderr.isatty()
    rows = load_array(gallery)
    queries = rows if query is None else load_array(query)
    searched = None if query is None else rows
    asked = {"search": search, "vectors": vectors, "memory_budget": memory_budget, "work": work}
    where: dict[str, Any] = {name: asked[name] for name in asked if asked[name] not in _PLAIN}
    if plan_only and cluster is not None:
        raise click.UsageError("--plan is for one machine: leave out --cluster.")
    if plan_only and query is None:
        raise click.UsageError("--plan is for queries and a gallery: give --query.")
    if plan_only:
        _print_plan(chosen, queries, rows, k, threads, where, as_json)
        return
    if out is None:
        raise click.UsageError("Missing option '--out'.")
    shown = {"plan": partial(click.echo, err=True)} if on_terminal else {}
    gathered, reasons = progress.gather(**shown), {}
    with shown_warnings() as warned, gathered as notes, watched(show=on_terminal) as watch:
        options, conditions = given_params(ctx, params), rerank_conditions(given)
        if chosen_by is not None and "groups" not in conditions:  # each group has its own
            tuning = kinrank.tune(queries, searched, method, threads=threads, **options)
            chosen, options, chosen_by = tuning.make(), tuning.params, None
            reasons = {"chosen": dict(tuning.reasons)}
        ranking = kinrank.rerank(
            queries, searched, method, k, threshold=threshold, params=chosen_by, threads=threads,
            block_size=block_size, cluster=cluster, storage=storage, **conditions, **where,
            **options,
        )  # fmt: skip
    ranking.save(out)
    summary = {
        "method": method,
        "parameters": chosen.parameters(),
        **reasons,
        "n_queries": len(ranking),
        "n_gallery": len(rows),
        "k": ranking.k,
        **_plain_notes(notes),
        **facts(begun, watch, warned, out),
    }
    if as_json:
        click.echo(json.dumps(summary))
    elif on_terminal:
        for reason in reasons.get("chosen", {}).values():
            click.echo(reason, err=True)
        click.echo(_sentence(summary), err=True)
        if "cluster" in notes:
            click.echo(f"\n{notes['cluster']}", err=True)


def _print_plan(
    method: Any, queries: Any, gallery: Any, k: int | None, threads: int | None,
    where: dict[str, Any], as_json: bool,
) -> None:  # fmt: skip
    from kinrank.runs.plan import make_plan, parse_bytes

    kept = {name: where[name] for name in ("search", "vectors") if name in where}
    run = Runner(thread_count(threads), **kept)
    budget = where.get("memory_budget")
    limit = None if budget is None else parse_bytes("memory_budget", budget)
    plan = make_plan(
        method, as_matrix("queries", queries), as_matrix("gallery", gallery), k, run, limit
    )
    click.echo(json.dumps(plan.as_dict()) if as_json else str(plan))
    plan.check()


def _plain_notes(notes: dict[str, Any]) -> dict[str, Any]:
    """What the run said of itself, as plain values."""
    plain: dict[str, Any] = {
        name: notes[name] for name in ("recall", "cluster", "plan") if name in notes
    }
    if "cluster" in plain:
        plain["cluster"] = plain["cluster"].summary()
    if "plan" in plain:
        plain["plan"] = plain["plan"].as_dict()
    return plain


def _sentence(summary: dict[str, Any]) -> str:
    memory = summary["peak_memory_bytes"]
    peak = "" if memory is None else f", peak memory {memory / 1e6:,.0f} MB"
    if "recall" in summary:
        peak += f", recall of the neighbours {summary['recall']:.3f}"
    return (
        f"{summary['n_queries']:,} queries over {summary['n_gallery']:,} gallery rows, "
        f"first {summary['k']:,} of each, by {summary['method']}: "
        f"{format_seconds(summary['seconds'])}{peak}\nWritten to {summary['output']}"
    )
