"""``kinrank warmup``: compile everything now instead of in somebody's first call."""

from __future__ import annotations

import click

from kinrank.cli.files import ask
from kinrank.cli.report import running
from kinrank.compiling import GROUPS, warmup

_FOR = f"What to compile for, with commas: {', '.join(GROUPS)}, all, or names of methods."


@click.command("warmup")
@ask("--for", _FOR, to="names", default="all", metavar="NAMES")
@ask("--processes", "How many compile at once; one per core by default.", type=int)
def warmup_command(names: str, processes: int | None) -> None:
    """Fill the cache of compiled kernels.

    Kernels are compiled once on a machine, when they are first needed. This does it beforehand, in
    the image of a container for instance. KINRANK_CACHE is the folder of the cache.
    """
    with running():
        done = warmup(names.split(","), processes=processes)
    click.echo(
        f"{done['compiled']} kernels compiled; {done['folder']} holds {done['bytes'] / 1e6:.1f} MB"
    )
