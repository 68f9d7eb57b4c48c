"""Options that say who may be an answer, how near, and what is asked for together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from kinrank.cli.files import array_file, ask, ask_all, ask_array
from kinrank.errors import InvalidInputError
from kinrank.index import Index
from kinrank.io import load_array
from kinrank.reading import read_text

_BETWEEN = ".."
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WORDS = "an array, or a .txt file with one on each line"


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (found and name):
        raise click.BadParameter(f"must be NAME=VALUE, got {text!r}.")
    return name, value


def _file_pair(text: str) -> tuple[str, str]:
    name, value = _pair(text)
    return name, array_file(value)


_FILTERS = (
    ask_array("--allowed", f"Rows that alone may be answers: {_WORDS}, or a mask."),
    ask_array("--exclude", "Rows that may not be answers, likewise."),
)
_OF = ask_array("--of", f"Whose picture each query is, for one ranking of each thing: {_WORDS}.")
_THRESHOLD = ask("--threshold", "The largest distance of an answer.", type=float)

ask_rerank_conditions = ask_all(
    *_FILTERS,
    ask_array("--query-groups", f"A group for each query, ranked apart: {_WORDS}."),
    ask_array("--gallery-groups", "And for each row of the gallery."),
    _OF,
    _THRESHOLD,
)
ask_conditions = ask_all(
    *_FILTERS,
    ask(
        "--where",
        "An attribute that answers must have; one repeated may be any of its values. Of numbers "
        "also a range, such as price=0..0.5, price=3.. or price=..3.",
        type=_pair, metavar="NAME=VALUE", multiple=True,
    ),
    ask(
        "--differ",
        "An attribute that answers must not share with the query, a value for each query.",
        type=_file_pair, metavar="NAME=FILE", multiple=True,
    ),
    _THRESHOLD,
    ask(
        "--false-match-rate",
        "Instead, the share of wrong rows that may count as answers, after `calibrate`.",
        type=float,
    ),
    _OF,
    ask("--right", "A right answer; may be repeated.", metavar="ID", multiple=True),
    ask("--wrong", "A wrong answer; may be repeated.", metavar="ID", multiple=True),
)  # fmt: skip
ask_attributes = ask(
    "--attribute", f"What is known of the rows, one value each: {_WORDS}; may be repeated.",
    to="attributes", type=_file_pair, metavar="NAME=FILE", multiple=True,
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
    """``given`` as ``kinrank.rerank`` takes it: what files hold instead of their names."""
    for name in ("allowed", "exclude", "of", "query_groups", "gallery_groups"):
        given[name] = _numbers(read_words(given[name]))
    groups = given.pop("query_groups"), given.pop("gallery_groups")
    one_of_both = groups[1] if groups[0] is None else groups
    return {**given, "groups": one_of_both}


def search_conditions(opened: Index, given: dict[str, Any]) -> dict[str, Any]:
    """``given`` as ``Index.search`` takes it."""
    text = opened.ids.dtype.kind == "U"
    for name in ("allowed", "exclude"):
        words = read_words(given[name])
        given[name] = words if text else _numbers(words)
    given["of"] = _numbers(read_words(given["of"]))
    given["differ"] = read_attributes(given["differ"])
    where: dict[str, list[str]] = {}
    for name, value in given["where"]:
        where.setdefault(name, []).append(value)
    given["where"] = {name: _typed(opened, name, where[name]) for name in where} or None
    for name in ("right", "wrong"):
        given[name] = typed_ids(given[name], text=text) or None
    return given


def _typed(opened: Index, name: str, words: list[str]) -> list[Any] | dict[str, Any]:
    """Typed values of an attribute, as those of the index, or a range of them."""
    column = opened.attributes.get(name)
    kind = "U" if column is None else column.dtype.kind
    if kind == "U":
        return words
    if kind == "b":
        return [_truth(name, word) for word in words]
    if len(words) == 1 and _BETWEEN in words[0]:
        low, _, high = words[0].partition(_BETWEEN)
        return {"min": _number(name, low or None), "max": _number(name, high or None)}
    return [_number(name, word) for word in words]


def _truth(name: str, word: str) -> bool:
    if word.lower() not in _TRUTHS:
        raise InvalidInputError(f"`--where {name}` must be true or false, got {word!r}.")
    return _TRUTHS[word.lower()]


def _number(name: str, word: str | None) -> Any:
    """A number that was typed; None for none."""
    for kind in (int, float):
        try:
            return None if word is None else kind(word)
        except ValueError:
            continue
    raise InvalidInputError(
        f"`--where {name}` must be a number or one range such as 0..0.5, got {word!r}."
    )


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


def typed_ids(typed: Sequence[str], *, text: bool) -> list[Any]:
    """Ids typed on the command line, as those of the index."""
    try:
        return [word if text else int(word) for word in typed]
    except ValueError as error:
        raise InvalidInputError(
            f"Ids must be integers, as those of the index, got {', '.join(typed)}."
        ) from error
