"""`kinrank serve`: an index as a service, with a page."""

from __future__ import annotations

import sys
import warnings
import webbrowser
from typing import TYPE_CHECKING, Any

import click

from kinrank.cli.conditions import read_words
from kinrank.cli.files import ask_array, existing_file
from kinrank.cli.report import show_log, shown_warnings, watched
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.optional import require

if TYPE_CHECKING:
    from kinrank.serve.service import Service


@click.command()
@click.argument("index", type=existing_file, metavar="[INDEX]", required=False)
@click.option("--demo", is_flag=True, help="Serve handwritten digits instead of an index.")
@click.option(
    "--images", type=click.Path(file_okay=False, exists=True), metavar="FOLDER",
    help="Pictures of the rows, named as they are. No other files are served.",
)  # fmt: skip
@ask_array("--names", "Names of the rows, such as features.npz:names.  [default: their ids]")
@ask_array("--labels", "Labels of the rows: an array, or a .txt file with one on each line.")
@click.option(
    "--model", help="Describes uploaded pictures.  [default: what made the vectors, if known]"
)
@click.option("--pool", help="How, as for `kinrank extract`.  [default: gem for maps]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=int, default=8765, show_default=True, help="0 takes a free one.")
@click.option(
    "--token", envvar="KINRANK_TOKEN", show_envvar=True, metavar="TEXT",
    help="What callers must bring; required for a host that others can reach.",
)  # fmt: skip
@click.option("--writable", is_flag=True, help="Let callers add and remove rows.")
@click.option("--max-body", type=int, default=32_000_000, show_default=True, help="Bytes.")
@click.option("--max-batch", type=int, default=256, show_default=True, help="Queries at a time.")
@click.option("--max-k", type=int, default=1000, show_default=True, help="Results of a query.")
@click.option("--max-pool", type=int, default=5000, show_default=True, help="To re-rank.")
@click.option("--timeout", type=float, default=30.0, show_default=True, help="Seconds.")
@click.option("--threads", type=int, help="Threads that compute.  [default: one per core]")
@click.option("--open", "open_page", is_flag=True, help="Show the page in the browser.")
def serve(
    index: str | None, demo: bool, open_page: bool, images: str | None, names: str | None,
    labels: str | None, model: str | None, pool: str | None, **limits: Any,
) -> None:  # fmt: skip
    """Serve an INDEX of `kinrank index build`: an API for products, a page to look at it.

    It stops on Ctrl-C or SIGTERM, when all that was accepted is answered.
    """
    if demo == (index is not None):
        raise click.UsageError("Either INDEX or --demo must be given.")
    for package in ("fastapi", "uvicorn"):
        require(package, extra="serve", purpose="The service")
    # Here and not above, so that the other commands start without them.
    from kinrank.serve import Settings
    from kinrank.serve import serve as run
    from kinrank.serve.load import demo_service, open_service

    settings = Settings(**limits)
    show_log("kinrank.kernels")  # a start of many seconds says why
    if not settings.loopback:
        click.echo(
            f"Warning: {settings.host} can be reached by other machines. Everybody who knows the "
            "token can ask, and what is sent is not encrypted.",
            err=True,
        )
    given = {"images": images, "names": names, "labels": labels, "model": model, "pool": pool}
    with shown_warnings(), watched(show=sys.stderr.isatty()):
        if index is None:
            _refuse(given)
            service = demo_service(settings)
        else:
            words = {"names": read_words(names), "labels": read_words(labels)}
            service = open_service(index, settings, **{**given, **words})
        service.warm()
    # Answers that are not quite as asked say so themselves.
    warnings.simplefilter("ignore", KinrankWarning)
    try:
        count = run(service, lambda address: _ready(service, address, open_page))
    finally:
        service.index.close()
    click.echo(f"Stopped after {count:,} requests.", err=True)


def _refuse(given: dict[str, str | None]) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"`{name}` must be left out with --demo, got {value!r}.")


def _ready(service: Service, address: str, open_page: bool) -> None:
    click.echo(f"Serving {len(service.index):,} rows of {service.title} at {address}")
    sys.stdout.flush()
    if open_page:
        webbrowser.open(address)
