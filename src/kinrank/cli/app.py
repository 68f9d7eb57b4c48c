"""The commands, put together; errors become one line and an exit code."""

from __future__ import annotations

import errno
import inspect
import json
import sys
from typing import Any

import click

import kinrank
from kinrank.cli.demo import demo
from kinrank.cli.evaluate import evaluate
from kinrank.cli.evaluate_many import ablate_command, compare_command, report_command
from kinrank.cli.extract import extract, models_command, whiten
from kinrank.cli.files import ask_import, ask_json
from kinrank.cli.group import group_command
from kinrank.cli.index import index
from kinrank.cli.project import project
from kinrank.cli.report import show_log
from kinrank.cli.rerank import rerank
from kinrank.cli.serve import serve
from kinrank.cli.train import train
from kinrank.cli.tune import tune
from kinrank.cli.warmup import warmup_command
from kinrank.errors import KinrankError
from kinrank.registry import method_class

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommandFailed(click.ClickException):
    """An error that is shown as one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Refused(CommandFailed):
    """One that the user can cure; the exit code is that of wrong usage."""

    exit_code = 2


class App(click.Group):
    """A group whose commands show kinrank's errors without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KinrankError as error:
            raise Refused(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE or error.strerror is None:
                raise  # click ends quietly when the reader of a pipe has gone
            name = "" if error.filename is None else f"{error.filename}: "
            raise CommandFailed(f"{name}{error.strerror}") from error
        except MemoryError as error:
            raise CommandFailed(f"Not enough memory: {error}") from error


@click.group(cls=App, context_settings=SETTINGS)
@click.version_option(kinrank.__version__, prog_name="kinrank")
def app() -> None:
    """Nearest-neighbour search, right the second time."""
    if sys.stderr.isatty():
        show_log("kinrank.kernels")


@app.command()
@ask_import
@ask_json("Print a JSON list.")
def methods(as_json: bool) -> None:
    """List the methods of re-ranking."""
    documents = {name: inspect.getdoc(method_class(name)) or "" for name in kinrank.methods()}
    # Of each the first sentence, on one line.
    summaries = {n: " ".join(text.partition("\n\n")[0].split()) for n, text in documents.items()}
    if as_json:
        rows = [{"name": name, "summary": text} for name, text in summaries.items()]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(map(len, summaries))
    for name, text in summaries.items():
        click.echo(f"{name:<{width}}  {text}")


for command in (
    rerank,
    group_command,
    index,
    train,
    tune,
    demo,
    serve,
    evaluate,
    compare_command,
    ablate_command,
    report_command,
    extract,
    whiten,
    project,
    models_command,
    warmup_command,
):
    app.add_command(command)
