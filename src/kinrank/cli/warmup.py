"""``kinrank warmup``: compile everything now instead of in somebody's first call."""

from __future__ import annotations

import sys

import click

from kinrank.cli.report import watched
from kinrank.compiling import GROUPS, warmup


@click.command("warmup")
@click.option(
    "--for", "names", default="all", show_default=True, metavar="NAMES",
    help=f"What to compile for, with commas: {', '.join(GROUPS)}, all, or names of methods.",
)  # fmt: skip
@click.option("--processes", type=int, help="How many compile at once; one per core by default.")
def warmup_command(names: str, processes: int | None) -> None:
    """Fill the cache of compiled kernels.

    Kernels are compiled once on a machine, when they are first needed. This does it beforehand, in
    the image of a container for instance. KINRANK_CACHE is the folder of the cache.
    """
    with watched(show=sys.stderr.isatty()):
        done = warmup(names.split(","), processes=processes)
    click.echo(
        f"{done['compiled']} kernels compiled; {done['folder']} holds {done['bytes'] / 1e6:.1f} MB"
    )
