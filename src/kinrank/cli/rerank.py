"""`kinrank rerank`: files of vectors in, one file of a ranking out."""

from __future__ import annotations

import dataclasses
import json
import sys
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import click

import kinrank
from kinrank import progress
from kinrank.cli.conditions import ask_rerank_conditions, rerank_conditions
from kinrank.cli.files import (
    ask,
    ask_array,
    ask_auto,
    ask_gallery,
    ask_import,
    ask_json,
    ask_out,
    ask_threads,
)
from kinrank.cli.options import MethodCommand
from kinrank.cli.places import ask_budget, ask_cluster, ask_search, ask_vectors, ask_work
from kinrank.cli.report import running
from kinrank.cli.tables import (
    ask_columns,
    ask_with,
    check_output,
    read_queries,
    read_rows,
    with_ids,
    write_ranking,
)
from kinrank.parallel import Runner, thread_count
from kinrank.progress import format_seconds
from kinrank.registry import make_method
from kinrank.runs.run import Run
from kinrank.validation import as_matrix

RUN_OPTIONS = [field.name for field in dataclasses.fields(Run)]
_USUAL_K1 = 20
_LARGE_K1 = 60  # from which on the time is worth a word
_MANY_ROWS = 2000


@click.command(cls=MethodCommand)
@ask_array("--query", "Vectors of the queries.  [default: the gallery, each row without itself]")
@ask_gallery
@ask_columns
@ask_out("The ranking: an npz file, a table (.parquet, .csv), or a run of TREC (.trec).")
@ask_with("Columns of the gallery's parquet file to write beside each result.")
@ask("--method", "See `kinrank methods`.", default="cas")
@ask_import
@ask("-k", "Results per query.  [default: the whole gallery]", type=int)
@ask_auto
@ask_rerank_conditions
@ask_threads
@ask("--block-size", "Rows that are worked on at a time.  [default: fits]", type=int)
@ask_search
@ask_budget
@ask_work
@ask_vectors
@ask_cluster
@ask("--plan", "Say what the run would cost, and stop.", to="plan_only", is_flag=True)
@ask_json()
def rerank(
    query: str | None,
    gallery: str,
    column: str | None,
    id_column: str | None,
    out: Path | None,
    with_columns: list[str] | None,
    method: str,
    chosen_by: str | None,
    plan_only: bool,
    as_json: bool,
    params: dict[str, Any],
    **asked: Any,
) -> None:
    """Rank the gallery for each query.

    Without --query every row of the gallery asks all others. Vectors are read from npy, npz,
    safetensors and parquet files, one per row; FILE:NAME picks one of several arrays or columns.
    `kinrank rerank --method NAME --help` lists the parameters of a method;
    those with the default "from the others" follow from the rest when left out.

    The file written holds `indices` (row numbers of the gallery, nearest first) and `distances`;
    Ranking.load reads it. A table (.parquet, .csv) has a row for each result instead: `query`,
    `rank`, `id`, `distance`, and what --with names; a run of TREC (.trec) a line. On a terminal
    each stage shows its progress; in a pipe nothing is printed but warnings and what --json asks
    for. With --memory-budget the plan, the stages with their bytes and times, comes first; with
    --cluster what moved between machines comes last.
    """
    chosen = make_method(method, **params)
    check_output(out, with_columns)
    reasons = {}
    on_terminal = sys.stderr.isatty()
    shown = {"plan": partial(click.echo, err=True)} if on_terminal else {}
    with running() as run, progress.gather(**shown) as told:
        table = read_rows(gallery, column, id_column, with_columns or ())
        rows = table.vectors
        asking = table if query is None else read_queries(query, column, id_column)
        queries = asking.vectors
        searched = None if query is None else rows
        if plan_only:
            _print_plan(chosen, queries, searched, asked, as_json)
            return
        if out is None:
            raise click.UsageError("Missing option '--out'.")
        if on_terminal:
            _tell_large_clusters(chosen, len(queries) + (0 if searched is None else len(searched)))
        work_on = {name: asked.pop(name) for name in RUN_OPTIONS}
        conditions = rerank_conditions(asked)
        if chosen_by is not None and conditions["groups"] is None:  # each group has its own
            tuning = kinrank.tune(queries, searched, method, threads=asked["threads"], **params)
            chosen = tuning.make()
            params = tuning.options
            chosen_by = None
            reasons = {"chosen": dict(tuning.reasons)}
        ranking = kinrank.rerank(
            queries,
            searched,
            method,
            params=chosen_by,
            run=kinrank.Run(**work_on),
            **conditions,
            **params,
        )
    write_ranking(
        with_ids(ranking, table.ids),
        out,
        asking.ids if len(asking) == len(ranking) else None,  # items of several pictures have none
        table.attributes,
    )
    plain: dict[str, Any] = {"recall": float, "cluster": methodcaller("summary")}
    plain["plan"] = methodcaller("as_dict")
    summary = {
        "method": method,
        "parameters": chosen.parameters(),
        **reasons,
        "n_queries": len(ranking),
        "n_gallery": len(rows),
        "k": ranking.k,
        **{name: plain[name](told[name]) for name in plain if name in told},
        **run.summary(out),
    }
    if as_json:
        click.echo(json.dumps(summary))
    elif on_terminal:
        for reason in reasons.get("chosen", {}).values():
            click.echo(reason, err=True)
        click.echo(_sentence(summary), err=True)
        if "cluster" in told:
            click.echo(f"\n{told['cluster']}", err=True)


def _tell_large_clusters(method: Any, n_rows: int) -> None:
    """Say before the work that large clusters take long, and how to know how long."""
    k1 = getattr(method, "k1", None)
    if k1 is None or k1 < _LARGE_K1 or n_rows < _MANY_ROWS:
        return
    times = (k1 / _USUAL_K1) ** 2
    click.echo(
        f"k1={k1} takes up to {times:,.0f} times as long as k1={_USUAL_K1}: the time grows with "
        "its square. --plan measures a sample and says how long each stage takes.",
        err=True,
    )


def _print_plan(method: Any, queries: Any, gallery: Any, asked: Any, as_json: bool) -> None:
    from kinrank.methods.base import ranking_bytes
    from kinrank.runs.execution import Execution
    from kinrank.runs.plan import make_plan, parse_bytes

    if asked["cluster"] is not None:
        raise click.UsageError("--plan is for one machine: leave out --cluster.")
    budget = asked["memory_budget"]
    runner = Runner(thread_count(asked["threads"]))
    execution = Execution(runner, asked["search"], asked["vectors"])
    limit = None if budget is None else parse_bytes("memory_budget", budget)
    if gallery is None:
        rows = as_matrix("vectors", queries)
        row_bytes = ranking_bytes(asked["k"], len(rows))
        plan = make_plan(method, (rows,), asked["k"], execution, limit, row_bytes)
    else:
        matrices = (as_matrix("queries", queries), as_matrix("gallery", gallery))
        plan = make_plan(method, matrices, asked["k"], execution, limit)
    click.echo(json.dumps(plan.as_dict()) if as_json else str(plan))
    plan.check()


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
