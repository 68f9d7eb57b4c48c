"""`kinrank train`: features and labels in, a file of weights out."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinrank.cli.files import ask_array, ask_json, ask_out, ask_threads, output_file
from kinrank.cli.options import MethodCommand, given_params
from kinrank.cli.report import facts, say, shown_warnings, watched
from kinrank.io import load_array
from kinrank.progress import format_seconds

if TYPE_CHECKING:
    from kinrank.learned.loop import Progress

NAMES = ("csa", "gss", "lattqe", "ssr")


class TrainCommand(MethodCommand):
    """A command whose options are its own and those of the recipe of the method named."""

    def options_of(self, name: str) -> type:
        from kinrank.learned import recipe_class

        return recipe_class(name)

    def named(self, args: list[str]) -> str | None:
        return next((word for word in args if word in NAMES), None)

    def _default_method(self) -> str:
        return NAMES[0]


@click.command(cls=TrainCommand)
@click.argument("method", type=click.Choice(NAMES))
@ask_array("--features", "Vectors to learn from.", required=True)
@ask_array("--labels", "Their identities; not for gss.")
@ask_array("--cams", "Their cameras, if there are some.")
@ask_out("The weights, safetensors.")
@click.option(
    "--checkpoint", type=output_file, metavar="FILE",
    help="State of the training, to go on from.  [default: OUT.checkpoint]",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Begin anew even if there is a checkpoint.")
@ask_threads
@ask_json("Print the model card as JSON.")
@click.pass_context
def train(
    ctx: click.Context, /, method: str, features: str, labels: str | None, cams: str | None,
    out: Path, checkpoint: Path | None, fresh: bool, threads: int | None, as_json: bool,
    **params: Any,
) -> None:  # fmt: skip
    """Train the weights of METHOD (csa, gss, lattqe, ssr) on your own vectors.

    csa, lattqe and ssr learn from labels: give vectors of things that are not in the gallery to be
    searched. A part of the identities is held out, and the weights that rank it best are kept. gss
    learns from the gallery itself, without labels.

    Stopped at any time, the same command goes on from its checkpoint. The file written has a model
    card: method, dimension, parameters, size of the data, metrics. `kinrank train METHOD --help`
    lists the parameters of a method.
    """
    from kinrank import learned

    begun = time.perf_counter()
    vectors = load_array(features)
    columns = {
        name: file and load_array(file) for name, file in (("labels", labels), ("cams", cams))
    }
    with shown_warnings() as warned, watched(show=sys.stderr.isatty()) as watch:
        card = learned.train(
            method, vectors, out=out, checkpoint=checkpoint, fresh=fresh, threads=threads,
            on_epoch=tell_epoch, **columns, **given_params(ctx, params),
        )  # fmt: skip
    summary = {**dataclasses.asdict(card), **facts(begun, watch, warned, out)}
    click.echo(json.dumps(summary) if as_json else _sentences(summary))


def tell_epoch(state: Progress) -> None:
    """One line for each epoch that was judged; the others only move the bar."""
    loss, score = state.history[-1]
    if score is None:
        return
    best = " (best)" if state.best_epoch == state.epoch else ""
    say(f"epoch {state.epoch:>3}: loss {loss:.4f}, held-out mAP {100 * score:.2f}{best}")


def _sentences(summary: dict[str, Any]) -> str:
    metrics = summary["metrics"]
    held_out = ""
    if "mAP" in metrics:
        held_out = (
            f"Held-out mAP {100 * metrics['mAP none']:.2f} without, {100 * metrics['mAP']:.2f} "
            f"with it (epoch {metrics['best epoch']:.0f})\n"
        )
    return (
        f"{summary['method']} for vectors of {summary['dimension']} columns, "
        f"{summary['size']:,} weights, {metrics['epochs']:.0f} epochs: "
        f"{format_seconds(summary['seconds'])}\n{held_out}Written to {summary['output']}"
    )
