"""`kinrank index`: a gallery in a file, searched, added to and removed from."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

import kinrank
from kinrank.cli import conditions
from kinrank.cli.card import index_card, projection_card, projection_facts
from kinrank.cli.conditions import read_attributes, read_words
from kinrank.cli.files import (
    ask,
    ask_array,
    ask_auto,
    ask_gallery,
    ask_json,
    ask_out,
    ask_threads,
    existing_file,
)
from kinrank.cli.options import MethodCommand
from kinrank.cli.places import ask_cluster, ask_work
from kinrank.cli.report import running
from kinrank.cli.stores import ask_store, opened_store
from kinrank.cli.tables import (
    ask_columns,
    ask_with,
    attribute_columns,
    check_output,
    known_columns,
    read_queries,
    read_rows,
    write_ranking,
)
from kinrank.errors import InvalidInputError, KinrankError, StoreError
from kinrank.io import load_array, split_name
from kinrank.progress import format_seconds
from kinrank.registry import make_method
from kinrank.types import Floats

_IDS = ask_array("--ids", "Ids of the rows: an array, or a .txt file with one on each line.")
_PRINTED = 10  # results of a query
_INDEX = click.argument("index", type=existing_file, metavar="INDEX")


@click.group()
def index() -> None:
    """Keep a gallery in a file and ask it one query at a time."""


@index.command(cls=MethodCommand)
@ask_gallery
@ask_columns
@ask_out("The index.", required=True)
@_IDS
@conditions.ask_attributes
@ask_with("Columns of a parquet file that become attributes.  [default: all that can]")
@ask_array("--context", "Vectors that enrich the graph and are never answers.")
@ask(
    "--search",
    "How neighbours are found; approximate is for many rows.",
    type=click.Choice(["exact", "approximate"]),
    default="exact",
)
@ask_work
@ask_cluster
@ask_auto
@ask("--method", "Only cas has an index.", default="cas")
@ask("--model", "The network that made the vectors.  [default: what a file of features says]")
@ask("--pool", "And how, as for `kinrank extract`.  [default: gem for maps]")
@ask_threads
@ask_json()
def build(
    gallery: str,
    column: str | None,
    id_column: str | None,
    out: Path,
    ids: str | None,
    attributes: Any,
    with_columns: list[str] | None,
    context: str | None,
    method: str,
    model: str | None,
    pool: str | None,
    chosen_by: str | None,
    as_json: bool,
    params: dict[str, Any],
    search: Literal["exact", "approximate"],
    work: Path | None,
    cluster: str | None,
    storage: str | None,
    threads: int | None,
) -> None:
    """Build an index over a gallery.

    Of a parquet file, --column names the vectors and --id the ids; other columns become attributes,
    for --where. The index remembers how features of `kinrank extract` were made, so that `kinrank
    serve` can take pictures.
    """
    from kinrank.cas import CAS

    chosen = make_method(method, **params)
    if not isinstance(chosen, CAS):
        raise InvalidInputError(f"`method` must be cas for an index, got {method!r}.")
    with working(as_json) as done:
        recipe = _recipe(gallery, model, pool)
        table = read_rows(gallery, column, id_column, with_columns)
        others = None if context is None else load_array(context)
        made = chosen.fit(
            table.vectors,
            _one_of(table.ids, read_words(ids)),
            others,
            attributes=_attributes(table, attributes),
            params=chosen_by,
            threads=threads,
            run=kinrank.Run(search=search, work=work, cluster=cluster, storage=storage),
        )
        made.recipe = recipe
        made.save(out)
        done({"rows": len(made), "recall": made.recall, "output": str(out)})


@index.command()
@_INDEX
@ask_array("--query", "Vectors of the queries.")
@ask_columns
@ask(
    "--image",
    "A picture as a query, if the index knows how its vectors were made; may be repeated.",
    to="images",
    type=existing_file,
    metavar="FILE",
    multiple=True,
)
@ask_out(
    "The ranking: an npz file, a table (.parquet, .csv), or a run of TREC (.trec).  "
    "[default: ids are printed]"
)
@ask_with("Attributes to show beside each result.")
@ask("-k", "Results per query.", type=int, default=100)
@conditions.ask_conditions
@ask("--base", "By the plain distance, to compare with.", is_flag=True)
@ask_threads
@ask_json()
def search(
    index: str,
    query: str | None,
    column: str | None,
    id_column: str | None,
    images: tuple[str, ...],
    out: Path | None,
    with_columns: list[str] | None,
    k: int,
    as_json: bool,
    **asked: Any,
) -> None:
    """Rank the gallery for each query, each on its own.

    The file written holds `indices`, `distances` and `ids`; Ranking.load reads it. Without one,
    rank, id and distance are printed, ten results of each query unless -k says otherwise.
    """
    if (query is None) == (not images):
        raise click.UsageError("Either --query or --image must be given.")
    check_output(out, with_columns)
    chosen = click.get_current_context().get_parameter_source("k")
    if out is None and chosen is click.core.ParameterSource.DEFAULT:
        k = _PRINTED
    with working(as_json) as done:
        opened = kinrank.open(index)
        columns = attribute_columns(opened, with_columns)
        table = None if query is None else read_queries(query, column, id_column)
        vectors = _described(opened, images) if table is None else table.vectors
        ranking = opened.search(vectors, k, **conditions.search_conditions(opened, asked))
        summary = {"queries": len(ranking), "k": ranking.k}
        asking: Any = images if table is None or table.ids is None else table.ids
        names = asking if len(asking) == len(ranking) else None  # several pictures of one item
        if out is not None:
            write_ranking(ranking, out, names, columns)
            done({**summary, "output": str(out)})
        elif as_json:
            presence = None if ranking.presence is None else ranking.presence.tolist()
            done({**summary, "presence": presence, "results": ranking.to_records(names, columns)})
        else:
            for row, results in enumerate(ranking):
                shown = (
                    "" if ranking.presence is None else f"  presence {ranking.presence[row]:.2f}"
                )
                click.echo(f"{row if names is None else names[row]}{shown}")
                places = ranking.indices[row][ranking.indices[row] >= 0]
                for result, place in zip(results, places, strict=True):
                    more = "".join(f"  {column[place]}" for column in columns.values())
                    click.echo(f"  {result.rank:>3}  {result.id}  {result.distance:.4f}{more}")


def _described(opened: kinrank.Index, images: tuple[str, ...]) -> Floats:
    """The vectors of pictures, made as those of the index were."""
    if opened.recipe is None:
        raise InvalidInputError(
            "This index does not know how its vectors were made, so it cannot be asked with a "
            "picture. Build it from a file of `kinrank extract`, or with --model."
        )
    from kinrank.features.extractor import FeatureExtractor
    from kinrank.features.registry import Recipe

    rows = FeatureExtractor(*Recipe.parse(opened.recipe).load())([(Path(f), None) for f in images])
    for number, why in rows.failures.items():
        raise InvalidInputError(f"{images[number]} cannot be read as a picture: {why}.")
    return rows.features


@index.command()
@_INDEX
@ask_array("--vectors", "Vectors of the new rows.", required=True)
@ask_columns
@_IDS
@conditions.ask_attributes
@ask_threads
@ask_json()
def add(
    index: str,
    vectors: str,
    column: str | None,
    id_column: str | None,
    ids: str | None,
    attributes: Any,
    as_json: bool,
    threads: int | None,
) -> None:
    """Add rows, and save; when the command is done, they are there to stay.

    Columns of a parquet file that the index has as attributes are those of the new rows.
    """
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        table = read_rows(vectors, column, id_column, known_columns(vectors, opened))
        opened.add(
            table.vectors,
            _one_of(table.ids, read_words(ids)),
            attributes=_attributes(table, attributes),
            threads=threads,
        )
        opened.save()
        done({"added": len(table), "rows": len(opened), "output": index})


@index.command()
@_INDEX
@click.argument("typed", nargs=-1, metavar="[ID]...")
@_IDS
@ask_array("--vectors", "Other vectors of these rows.  [default: they stay]")
@ask_columns
@conditions.ask_attributes
@ask_threads
@ask_json()
def update(
    index: str,
    typed: tuple[str, ...],
    ids: str | None,
    vectors: str | None,
    column: str | None,
    id_column: str | None,
    attributes: Any,
    as_json: bool,
    threads: int | None,
) -> None:
    """Give rows that are there other vectors, other attributes or both, and save.

    With --vectors items.parquet --id sku the ids, and the attributes that the index has, are those
    of the file.

    Attributes alone compute nothing again, however large the index is.
    """
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        known = known_columns(vectors, opened)
        table = None if vectors is None else read_rows(vectors, column, id_column, known)
        if table is None or table.ids is None:
            changed = _named_rows(opened, typed, ids)
        else:
            changed = _one_of(table.ids, typed or ids)
        opened.update(
            changed,
            None if table is None else table.vectors,
            attributes=read_attributes(attributes)
            if table is None
            else _attributes(table, attributes),
            threads=threads,
        )
        opened.save()
        done({"updated": len(changed), "rows": len(opened), "output": index})


def _one_of(of_table: Any, others: Any) -> Any:
    """Ids from a column or from elsewhere."""
    if of_table is not None and others is not None:
        raise click.UsageError("Ids must be given once: either --id or another way.")
    return others if of_table is None else of_table


def _attributes(table: kinrank.Table, files: Any) -> dict[str, Any] | None:
    """Those of a table, and those in files of their own."""
    return {**table.attributes, **(read_attributes(files) or {})} or None


def _named_rows(opened: kinrank.Index, typed: tuple[str, ...], ids: str | None) -> Any:
    """The ids of rows, either typed or from a file."""
    if bool(typed) == (ids is not None):
        raise click.UsageError("Ids must be given, either one by one or as --ids FILE.")
    words = list(typed) if ids is None else read_words(ids)
    if isinstance(words, list):  # typed, or lines of a text file
        return conditions.typed_ids(words, text=opened.ids.dtype.kind == "U")
    return words


@index.command()
@_INDEX
@click.argument("typed", nargs=-1, metavar="[ID]...")
@_IDS
@ask_threads
@ask_json()
def remove(
    index: str, typed: tuple[str, ...], ids: str | None, threads: int | None, as_json: bool
) -> None:
    """Remove rows by their ids, and save."""
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        gone = _named_rows(opened, typed, ids)
        opened.remove(gone, threads=threads)
        opened.save()
        done({"removed": len(gone), "rows": len(opened), "output": index})


@index.command()
@_INDEX
@ask_store("--store", "Where the vectors are: `store` of shop.py is shop:store.", required=True)
@ask(
    "--every",
    "Go on, and look after so many seconds, until Ctrl-C or SIGTERM.  [default: look once]",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
)
@ask(
    "--changed-column",
    "An attribute that grows with each change of a row: only such rows are fetched.",
    metavar="NAME",
)
@ask("--confirm", "That more than half of the rows really went.", is_flag=True)
@ask_threads
@ask_json("Print what was done as a line of JSON.")
def follow(
    index: str,
    store: str,
    every: float | None,
    changed_column: str | None,
    confirm: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Bring an index up to date with the store of its vectors, and save.

    Rows that came are added, others changed or removed; an index that keeps no vectors is attached
    again. With --every a store that fails is asked again the next time.
    """
    stopping = threading.Event()

    def say(followed: kinrank.stores.Followed) -> None:
        facts = {**asdict(followed), "rows": len(opened), "output": index}
        click.echo(json.dumps(facts) if as_json else f"{followed}; {len(opened):,} rows")
        sys.stdout.flush()

    with kinrank.open(index, writable=True) as opened, stop_on_signals(stopping):
        followed_store = opened_store(store)
        first = True
        while not stopping.is_set():
            try:
                with running(show=not as_json):
                    followed = kinrank.follow(
                        opened,
                        followed_store,
                        changed_column=changed_column,
                        confirm=confirm,
                        applied=lambda _: opened.save(),
                        stop=stopping.is_set,
                        threads=threads,
                    )
                if first or followed.rows:
                    say(followed)
            except StoreError as error:
                if every is None:
                    raise
                click.echo(f"{error} It is asked again in {every:g} s.", err=True)
            if every is None:
                return
            first = False
            stopping.wait(every)


@contextmanager
def stop_on_signals(stopping: threading.Event) -> Iterator[None]:
    """Set an event on Ctrl-C and SIGTERM; a second one ends the process as ever."""

    def stop(number: int, _frame: object) -> None:
        stopping.set()
        signal.signal(number, before[signal.Signals(number)])

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@index.command()
@_INDEX
@ask_array("--labels", "What each row shows, if known.")
@ask("--sample", "Rows that are asked.", type=int, default=500)
@ask_json()
def calibrate(index: str, labels: str | None, sample: int, as_json: bool) -> None:
    """Learn what distances mean, and save it: for --unknown-rate and `presence`."""
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        rates = opened.calibrate(read_words(labels), sample=sample)
        opened.save()
        told: dict[str, Any] = {"asked": rates.n_queries}
        if rates.presence is None:
            told["unknown rate"] = "not available: too few rows of the same item"
        else:
            told["taken out"] = len(rates.presence.unknown)
            told["least unknown rate"] = round(rates.presence.least_rate, 4)
        for rate in (0.01, 0.001):
            told[f"threshold at a pair false match rate of {rate:g}"] = rates.threshold(rate)
        done({**told, "output": index})


@index.command()
@_INDEX
@ask("--markdown", "Print a card to share the file with.", is_flag=True)
@ask_json()
def info(index: str, markdown: bool, as_json: bool) -> None:
    """Tell what an index, or a projection of `kinrank project`, holds."""
    if markdown and as_json:
        raise click.UsageError("--markdown cannot be used with --json.")
    projection = _projection_in(Path(index))
    if projection is not None:
        facts = projection_facts(projection)
        if markdown:
            click.echo(projection_card(projection, Path(index)))
        elif as_json:
            click.echo(json.dumps(facts))
        else:
            for name, text in facts.items():
                click.echo(f"{name:<16}{text}")
        return
    opened = kinrank.open(index, verify=False)
    if markdown:
        click.echo(index_card(opened, Path(index)))
        return
    about = opened.info()
    about["bytes_on_disk"] = Path(index).stat().st_size
    if as_json:
        click.echo(json.dumps(about))
        return
    chosen = about.pop("chosen")
    for name, value in about.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        if isinstance(value, dict):
            shown = ", ".join(f"{key}={entry}" for key, entry in value.items())
        click.echo(f"{name.replace('_', ' '):<16}{shown}")
    if opened.chosen is not None:
        click.echo(f"\nParameters chosen without labels for {chosen['rows']:,} rows")
        for name, sentence in opened.chosen.sentences().items():
            click.echo(f"  {name:<14}{sentence}")
        if chosen["outgrown"]:
            click.echo(opened.chosen.advice(len(opened)))


@index.command()
@_INDEX
@ask_json()
def verify(index: str, as_json: bool) -> None:
    """Read all of an index and compare its checksums."""
    with working(as_json) as done:
        opened = kinrank.open(index, verify=True)
        done({"rows": len(opened), "whole": True, "output": index})


def _projection_in(file: Path) -> kinrank.Projection | None:
    """The projection that a safetensors file holds; None for a file of another kind."""
    with file.open("rb") as stream:
        head = stream.read(9)
    if head[8:] != b"{":  # behind the length of its JSON
        return None
    return kinrank.Projection.load(file)


def _recipe(gallery: str, model: str | None, pool: str | None) -> str | None:
    """How the vectors were made, as the user or their file says."""
    if model is None and pool is not None:
        raise InvalidInputError(f"`pool` needs a model: give --model too, got --pool {pool} alone.")
    if model is not None:
        from kinrank.features import Descriptor, Recipe, load_model

        recipe = Recipe.of(load_model(model), Descriptor(pool=pool))  # type: ignore[arg-type]
        if recipe is None:
            raise InvalidInputError(f"`model` must be a name or an ONNX file, got {model!r}.")
        return str(recipe)
    try:
        said = load_array(split_name(gallery)[0], "recipe")
    except KinrankError:  # a file of another kind, or one that does not say
        return None
    return str(said) if said.dtype.kind == "U" and said.ndim == 0 else None


@contextmanager
def working(as_json: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Progress while something is done; call what is yielded to say in one line what it was."""
    with running(show=not as_json) as run:

        def done(summary: dict[str, Any]) -> None:
            facts = run.facts()
            if as_json:
                click.echo(json.dumps({**summary, **facts}))
            else:
                line = ", ".join(f"{name} {value}" for name, value in summary.items())
                click.echo(f"{line}: {format_seconds(facts['seconds'])}", err=True)

        yield done
