"""`kinrank index`: a gallery in a file, searched, added to and removed from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

import kinrank
from kinrank.cli import conditions
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
from kinrank.cli.report import running
from kinrank.errors import InvalidInputError, KinrankError
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
@ask_out("The index.", required=True)
@_IDS
@conditions.ask_attributes
@ask_array("--context", "Vectors that enrich the graph and are never answers.")
@ask(
    "--search", "How neighbours are found; approximate is for many rows.",
    type=click.Choice(["exact", "approximate"]), default="exact",
)  # fmt: skip
@ask_auto
@ask("--method", "Only cas has an index.", default="cas")
@ask("--model", "The network that made the vectors.  [default: what a file of features says]")
@ask("--pool", "And how, as for `kinrank extract`.  [default: gem for maps]")
@ask_threads
@ask_json()
def build(
    gallery: str, out: Path, ids: str | None, attributes: Any, context: str | None, method: str,
    model: str | None, pool: str | None, chosen_by: str | None, as_json: bool,
    params: dict[str, Any], search: Literal["exact", "approximate"], threads: int | None,
) -> None:  # fmt: skip
    """Build an index over a gallery.

    It remembers how features of `kinrank extract` were made, so that `kinrank serve` can take
    pictures.
    """
    from kinrank.methods.cas import CAS

    chosen = make_method(method, **params)
    if not isinstance(chosen, CAS):
        raise InvalidInputError(f"`method` must be cas for an index, got {method!r}.")
    with working(as_json) as done:
        recipe = _recipe(gallery, model, pool)
        vectors, others = load_array(gallery), None if context is None else load_array(context)
        made = chosen.fit(
            vectors,
            read_words(ids),
            others,
            attributes=read_attributes(attributes),
            params=chosen_by,
            threads=threads,
            run=kinrank.Run(search=search),
        )
        made.recipe = recipe
        made.save(out)
        done({"rows": len(made), "recall": made.recall, "output": str(out)})


@index.command()
@_INDEX
@ask_array("--query", "Vectors of the queries.")
@ask(
    "--image",
    "A picture as a query, if the index knows how its vectors were made; may be repeated.",
    to="images", type=existing_file, metavar="FILE", multiple=True,
)  # fmt: skip
@ask_out("The ranking, an npz file.  [default: ids are printed]")
@ask("-k", "Results per query.", type=int, default=100)
@conditions.ask_conditions
@ask("--base", "By the plain distance, to compare with.", is_flag=True)
@ask_threads
@ask_json()
def search(
    index: str, query: str | None, images: tuple[str, ...], out: Path | None, k: int, as_json: bool,
    **asked: Any,
) -> None:  # fmt: skip
    """Rank the gallery for each query, each on its own.

    The file written holds `indices`, `distances` and `ids`; Ranking.load reads it. Without one,
    rank, id and distance are printed, ten results of each query unless -k says otherwise.
    """
    if (query is None) == (not images):
        raise click.UsageError("Either --query or --image must be given.")
    chosen = click.get_current_context().get_parameter_source("k")
    if out is None and chosen is click.core.ParameterSource.DEFAULT:
        k = _PRINTED
    with working(as_json) as done:
        opened = kinrank.open(index)
        vectors = _described(opened, images) if query is None else load_array(query)
        ranking = opened.search(vectors, k, **conditions.search_conditions(opened, asked))
        summary = {"queries": len(ranking), "k": ranking.k}
        names = images if len(images) == len(ranking) else None  # items have none
        if out is not None:
            ranking.save(out)
            done({**summary, "output": str(out)})
        elif as_json:
            presence = None if ranking.presence is None else ranking.presence.tolist()
            done({**summary, "presence": presence, "results": ranking.to_records(names)})
        else:
            for row, results in enumerate(ranking):
                shown = (
                    "" if ranking.presence is None else f"  presence {ranking.presence[row]:.2f}"
                )
                click.echo(f"{names[row] if names else row}{shown}")
                for result in results:
                    click.echo(f"  {result.rank:>3}  {result.id}  {result.distance:.4f}")


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
@_IDS
@conditions.ask_attributes
@ask_threads
@ask_json()
def add(
    index: str, vectors: str, ids: str | None, attributes: Any, as_json: bool, threads: int | None
) -> None:
    """Add rows, and save; when the command is done, they are there to stay."""
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        rows, names = load_array(vectors), read_words(ids)
        opened.add(rows, names, attributes=read_attributes(attributes), threads=threads)
        opened.save()
        done({"added": len(rows), "rows": len(opened), "output": index})


@index.command()
@_INDEX
@click.argument("typed", nargs=-1, metavar="[ID]...")
@_IDS
@ask_array("--vectors", "Other vectors of these rows.  [default: they stay]")
@conditions.ask_attributes
@ask_threads
@ask_json()
def update(
    index: str, typed: tuple[str, ...], ids: str | None, vectors: str | None, attributes: Any,
    as_json: bool, threads: int | None,
) -> None:  # fmt: skip
    """Give rows that are there other vectors, other attributes or both, and save.

    Attributes alone compute nothing again, however large the index is.
    """
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        changed = _named_rows(opened, typed, ids)
        rows = None if vectors is None else load_array(vectors)
        opened.update(changed, rows, attributes=read_attributes(attributes), threads=threads)
        opened.save()
        done({"updated": len(changed), "rows": len(opened), "output": index})


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
@ask_array("--labels", "What each row shows, if known.")
@ask("--sample", "Rows that are asked.", type=int, default=500)
@ask_json()
def calibrate(index: str, labels: str | None, sample: int, as_json: bool) -> None:
    """Learn what distances mean, and save it: for --false-match-rate and `presence`."""
    with working(as_json) as done, kinrank.open(index, writable=True) as opened:
        rates = opened.calibrate(read_words(labels), sample=sample)
        opened.save()
        thresholds = {f"threshold at {rate:g}": rates.threshold(rate) for rate in (0.01, 0.001)}
        done({"asked": rates.n_queries, **thresholds, "output": index})


@index.command()
@_INDEX
@ask_json()
def info(index: str, as_json: bool) -> None:
    """Tell what an index holds."""
    opened = kinrank.open(index, verify=False)
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
