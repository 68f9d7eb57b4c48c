"""`kinrank serve`: an index as a service, with a page."""

from __future__ import annotations

import sys
import warnings
import webbrowser
from typing import Any

import click

from kinrank.cli.conditions import read_words
from kinrank.cli.files import ask, ask_array, existing_file
from kinrank.cli.report import running, show_log
from kinrank.cli.stores import ask_store, opened_store
from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.optional import require

_GIVEN = ("images", "names", "labels", "model", "pool")  # about an index; the demo has its own


@click.command()
@click.argument("index", type=existing_file, metavar="[INDEX]", required=False)
@ask("--demo", "Serve handwritten digits instead of an index.", is_flag=True)
@ask(
    "--images",
    "Pictures of the rows, named as they are. No other files are served.",
    type=click.Path(file_okay=False, exists=True),
    metavar="FOLDER",
)
@ask_array("--names", "Names of the rows, such as features.npz:names.  [default: their ids]")
@ask_array("--labels", "Labels of the rows: an array, or a .txt file with one on each line.")
@ask("--model", "Describes uploaded pictures.  [default: what made the vectors, if known]")
@ask("--pool", "How, as for `kinrank extract`.  [default: gem for maps]")
@ask("--host", "Where to listen.", default="127.0.0.1")
@ask("--port", "0 takes a free one.", type=int, default=8765)
@ask(
    "--token",
    "What callers must bring; required for a host that others can reach.",
    envvar="KINRANK_TOKEN",
    show_envvar=True,
    metavar="TEXT",
)
@ask("--writable", "Let callers add and remove rows.", is_flag=True)
@ask_store("--follow", "The store of the vectors: rows that come, change and go there do so here.")
@ask(
    "--every",
    "Seconds between two looks at the store.",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
)
@ask("--changed-column", "As for `kinrank index follow`.", metavar="NAME")
@ask("--max-body", "Bytes.", type=int, default=32_000_000)
@ask("--max-batch", "Queries at a time.", type=int, default=256)
@ask("--max-k", "Results of a query.", type=int, default=1000)
@ask("--max-pool", "To re-rank.", type=int, default=5000)
@ask("--timeout", "Seconds.", type=float, default=30.0)
@ask("--threads", "Threads that compute.  [default: one per core]", type=int)
@ask("--open", "Show the page in the browser.", to="open_page", is_flag=True)
def serve(
    index: str | None,
    demo: bool,
    open_page: bool,
    follow: str | None,
    every: float,
    changed_column: str | None,
    **options: Any,
) -> None:
    """Serve an INDEX of `kinrank index build`: an API for products, a page to look at it.

    It stops on Ctrl-C or SIGTERM, when all that was accepted is answered.
    """
    if demo == (index is not None):
        raise click.UsageError("Either INDEX or --demo must be given.")
    for package in ("fastapi", "msgspec", "prometheus_client", "uvicorn"):
        require(package, extra="serve", purpose="The service")
    # Here and not above, so that the other commands start without them.
    from kinrank.serve import Settings
    from kinrank.serve import serve as run
    from kinrank.serve.following import FollowedStore
    from kinrank.serve.load import demo_service, open_service

    followed = None
    if follow is not None:
        if demo:
            raise click.UsageError("--follow cannot be used with --demo.")
        followed = FollowedStore(
            store=opened_store(follow), every=every, changed_column=changed_column
        )
        show_log("kinrank.serve.following")
    given = {name: options.pop(name) for name in _GIVEN}
    settings = Settings(**options)
    show_log("kinrank.kernels")  # a start of many seconds says why
    if not settings.loopback:
        click.echo(
            f"Warning: {settings.host} can be reached by other machines. Everybody who knows the "
            "token can ask, and what is sent is not encrypted.",
            err=True,
        )
    with running():
        if index is None:
            for name, value in given.items():
                if value is not None:
                    raise InvalidInputError(
                        f"`{name}` must be left out with --demo, got {value!r}."
                    )
            service = demo_service(settings)
        else:
            given |= {name: read_words(given[name]) for name in ("names", "labels")}
            service = open_service(index, settings, **given, follows=followed is not None)
        service.warm()

    def ready(address: str) -> None:
        click.echo(f"Serving {len(service.index):,} rows of {service.title} at {address}")
        sys.stdout.flush()
        if open_page:
            webbrowser.open(address)

    # Answers that are not quite as asked say so themselves.
    warnings.simplefilter("ignore", KinrankWarning)
    try:
        count = run(service, ready, followed)
    finally:
        service.index.close()
    click.echo(f"Stopped after {count:,} requests.", err=True)
