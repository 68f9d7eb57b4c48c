"""Options that say where the work of a command is done."""

from __future__ import annotations

from pathlib import Path

import click

from kinrank.cli.files import ask, ask_all
from kinrank.runs.run import SEARCHES, VECTORS

ask_search = ask(
    "--search",
    "How neighbours are found; for 100,000 rows and more, approximate.",
    type=click.Choice(SEARCHES),
    default="exact",
)
ask_budget = ask(
    "--memory-budget", "Such as 4GB: keep stages in files and the process below it.", metavar="SIZE"
)
ask_vectors = ask(
    "--vectors",
    "What vectors are kept as; float16 is half the bytes.",
    type=click.Choice(VECTORS),
    default="float32",
)
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
