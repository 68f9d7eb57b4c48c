"""`kinrank train`: features and labels in, a file of weights out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinrank.cli.files import ask, ask_array, ask_json, ask_out, ask_threads
from kinrank.cli.options import MethodCommand
from kinrank.cli.report import running, say
from kinrank.cli.tables import ask_column, read_vectors
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

    def named(self, args: list[str]) -> str:
        return next((word for word in args if word in NAMES), NAMES[0])


@click.command(cls=TrainCommand)
@click.argument("method", type=click.Choice(NAMES))
@ask_array("--features", "Vectors to learn from.", required=True)
@ask_column
@ask_array("--labels", "Their identities; not for gss.")
@ask_array("--cams", "Their cameras, if there are some.")
@ask_out("The weights, safetensors.", required=True)
@ask_out("State of the training, to go on from.  [default: OUT.checkpoint]", "--checkpoint")
@ask("--fresh", "Begin anew even if there is a checkpoint.", is_flag=True)
@ask_threads
@ask_json("Print the model card as JSON.")
def train(
    method: str,
    features: str,
    column: str | None,
    out: Path,
    as_json: bool,
    params: dict[str, Any],
    **asked: Any,
) -> None:
    """Train the weights of METHOD (csa, gss, lattqe, ssr) on your own vectors.

    csa, lattqe and ssr learn from labels: give vectors of things that are not in the gallery to be
    searched. A part of the identities is held out, and the weights that rank it best are kept. gss
    learns from the gallery itself, without labels.

    Stopped at any time, the same command goes on from its checkpoint. The file written has a model
    card: method, dimension, parameters, size of the data, metrics. `kinrank train METHOD --help`
    lists the parameters of a method.
    """
    from kinrank import learned

    with running() as run:
        for name in ("labels", "cams"):
            asked[name] = asked[name] and load_array(asked[name])
        vectors = read_vectors(features, column)
        asked["on_epoch"] = tell_epoch
        card = learned.train(method, vectors, out=out, **asked, **params)
    summary = {**dataclasses.asdict(card), **run.summary(out)}
    click.echo(json.dumps(summary) if as_json else _sentences(summary))


def tell_epoch(state: Progress) -> None:
    """One line for each epoch that was judged; the others only move the bar."""
    loss, score = state.history[-1]
    if score is not None:
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
