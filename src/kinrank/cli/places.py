"""Options that say where the work of a command is done."""

from __future__ import annotations

from pathlib import Path

import click

from kinrank.cli.files import ask, ask_all

ask_work = ask(
    "--work",
    "Where stages are kept in files; a run that was stopped goes on.  [default: a temporary one]",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
)
ask_cluster = ask_all(
    ask(
        "--cluster",
        "Machines of a Ray cluster to do the work.  [default: this one alone]",
        metavar="local|auto|HOST:PORT|ray://HOST:PORT",
    ),
    ask(
        "--storage",
        "Where machines exchange arrays; in a folder a run that was stopped goes on.  "
        "[default: their memory]",
        metavar="FOLDER|URL",
    ),
)
