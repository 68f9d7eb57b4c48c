"""Options that say who may be an answer, how near, and what is asked for together."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from kinrank.cli.files import Decorator, array_file
from kinrank.errors import InvalidInputError
from kinrank.index import Index
from kinrank.io import load_array
from kinrank.reading import read_text

_WORDS = "an array, or a .txt file with one on each line"


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (found and name):
        raise click.BadParameter(f"must be NAME=VALUE, got {text!r}.")
    return name, value


def _file_pair(text: str) -> tuple[str, str]:
    name, value = _pair(text)
    return name, array_file(value)


def _all(*options: Decorator) -> Decorator:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _words(name: str, text: str) -> Decorator:
    return click.option(name, type=array_file, metavar="FILE", help=text)


_FILTERS = (
    _words("--allowed", f"Rows that alone may be answers: {_WORDS}, or a mask."),
    _words("--exclude", "Rows that may not be answers, likewise."),
)
_OF = _words("--of", f"Whose picture each query is, for one ranking of each thing: {_WORDS}.")
_THRESHOLD = click.option("--threshold", type=float, help="The largest distance of an answer.")

ask_rerank_conditions = _all(
    *_FILTERS,
    _words("--query-groups", f"A group for each query, ranked apart: {_WORDS}."),
    _words("--gallery-groups", "And for each row of the gallery."),
    _OF,
    _THRESHOLD,
)
ask_conditions = _all(
    *_FILTERS,
    click.option(
        "--where", type=_pair, metavar="NAME=VALUE", multiple=True,
        help="An attribute that answers must have; one repeated may be any of its values.",
    ),
    click.option(
        "--differ", type=_file_pair, metavar="NAME=FILE", multiple=True,
        help="An attribute that answers must not share with the query, a value for each query.",
    ),
    _THRESHOLD,
    click.option(
        "--false-match-rate", type=float,
        help="Instead, the share of wrong rows that may count as answers, after `calibrate`.",
    ),
    _OF,
    click.option("--right", metavar="ID", multiple=True, help="A right answer; may be repeated."),
    click.option("--wrong", metavar="ID", multiple=True, help="A wrong answer; may be repeated."),
)  # fmt: skip
ask_attributes = click.option(
    "--attribute", "attributes", type=_file_pair, metavar="NAME=FILE", multiple=True,
    help=f"What is known of the rows, one value each: {_WORDS}; may be repeated.",
)  # fmt: skip


def read_words(path: str | None) -> Any:
    """Ids, names or labels from an array file or from the lines of a text file."""
    if path is None:
        return None
    if path.endswith(".txt"):
        return read_text(path).removesuffix("\n").split("\n")
    return np.asarray(load_array(path))


def read_attributes(given: tuple[tuple[str, str], ...]) -> dict[str, Any] | None:
    """Columns by name; numbers in text files are numbers."""
    return {name: _numbers(read_words(path)) for name, path in given} or None


def rerank_conditions(given: dict[str, Any]) -> dict[str, Any]:
    """What ``kinrank.rerank`` is asked beside vectors and method; without the threshold."""
    files = {name: _numbers(read_words(given[name])) for name in ("allowed", "exclude", "of")}
    groups = [_numbers(read_words(given[f"{side}_groups"])) for side in ("query", "gallery")]
    if any(group is not None for group in groups):
        files["groups"] = tuple(groups) if groups[0] is not None else groups[1]
    return {name: value for name, value in files.items() if value is not None}


def search_conditions(opened: Index, given: dict[str, Any]) -> dict[str, Any]:
    """What ``Index.search`` is asked beside vectors."""
    text = opened.ids.dtype.kind == "U"
    conditions: dict[str, Any] = {name: given[name] for name in ("threshold", "false_match_rate")}
    for name in ("allowed", "exclude"):
        words = read_words(given[name])
        conditions[name] = words if text else _numbers(words)
    conditions["of"] = _numbers(read_words(given["of"]))
    conditions["differ"] = read_attributes(given["differ"])
    where: dict[str, list[Any]] = {}
    for name, value in given["where"]:
        where.setdefault(name, []).append(value)
    typed = {name: _typed(opened, name, words) for name, words in where.items()}
    conditions["where"] = typed or None
    for name in ("right", "wrong"):
        conditions[name] = typed_ids(given[name], text=text) if given[name] else None
    return {name: value for name, value in conditions.items() if value is not None}


def _typed(opened: Index, name: str, words: list[str]) -> list[Any]:
    """Typed values of an attribute, as those of the index."""
    column = opened.attributes.get(name)
    kind = "U" if column is None else column.dtype.kind
    if kind == "b":
        return [word.lower() in ("true", "1", "yes") for word in words]
    return words if kind == "U" else [*np.asarray(_numbers(words)).tolist()]


def _numbers(words: Any) -> Any:
    """The lines of a text file as numbers where all of them are; arrays stay as they are."""
    if not isinstance(words, list):
        return words
    for kind in (int, float):
        try:
            return [kind(word) for word in words]
        except ValueError:
            continue
    return words


def typed_ids(typed: tuple[str, ...], *, text: bool) -> list[Any]:
    """Ids typed on the command line, as those of the index."""
    try:
        return [word if text else int(word) for word in typed]
    except ValueError as error:
        raise InvalidInputError(
            f"Ids must be integers, as those of the index, got {', '.join(typed)}."
        ) from error
