"""Options that say which rows may be answers, how near, and what is asked for together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import click
import numpy as np

from kinrank.cli.files import Decorator, array_file, ask, ask_all, ask_array
from kinrank.conditions import Conditions
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


def _condition_option(name: str) -> Decorator:
    """The option of a field of ``Conditions``, by what its values are."""
    condition = _CONDITIONS[name]
    kind = condition.metadata["kind"]
    text = condition.metadata["help"]
    text = text[:1].upper() + text[1:]
    flag = "--" + name
    if kind == "ids":
        return ask_array(flag, f"{text}: {_WORDS}, or a mask.")
    if kind == "wanted values":
        return ask(
            flag,
            f"{text}. An attribute that is repeated may have any of its values; a range is "
            "price=0..0.5, price=3.. or price=..3.",
            type=_pair,
            metavar="NAME=VALUE",
            multiple=True,
        )
    if kind == "values per query":
        return ask(flag, f"{text}.", type=_file_pair, metavar="NAME=FILE", multiple=True)
    return ask(flag, f"{text}.", type=float)


_CONDITIONS = {condition.name: condition for condition in fields(Conditions)}
_ITEMS = ask_array(
    "--items", f"Which item each query is a picture of, for one ranking of each item: {_WORDS}."
)

ask_rerank_conditions = ask_all(
    _condition_option("allowed"),
    _condition_option("exclude"),
    ask_array("--query-groups", f"A group for each query, ranked apart: {_WORDS}."),
    ask_array("--gallery-groups", "And for each row of the gallery."),
    _ITEMS,
    _condition_option("threshold"),
)
ask_conditions = ask_all(
    *map(_condition_option, _CONDITIONS),
    ask(
        "--pair-false-match-rate",
        "Instead of a threshold, the share of wrong rows of the gallery that may count as answers "
        "to a query, after `calibrate`.",
        type=float,
    ),
    ask(
        "--unknown-rate",
        "Of the queries whose item is not in the gallery, the share that may get an answer, after "
        "`calibrate`.",
        type=float,
    ),
    _ITEMS,
    ask("--right", "A right answer; may be repeated.", metavar="ID", multiple=True),
    ask("--wrong", "A wrong answer; may be repeated.", metavar="ID", multiple=True),
)
ask_attributes = ask(
    "--attribute",
    f"What is known of the rows, one value each: {_WORDS}; may be repeated.",
    to="attributes",
    type=_file_pair,
    metavar="NAME=FILE",
    multiple=True,
)


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
    for name in ("allowed", "exclude", "items", "query_groups", "gallery_groups"):
        given[name] = _numbers(read_words(given[name]))
    of_queries = given.pop("query_groups")
    of_gallery = given.pop("gallery_groups")
    groups = of_gallery if of_queries is None else (of_queries, of_gallery)
    return {**given, "groups": groups}


def search_conditions(opened: Index, given: dict[str, Any]) -> dict[str, Any]:
    """``given`` as ``Index.search`` takes it."""
    text = opened.ids.dtype.kind == "U"
    read = dict(given)
    for name, condition in _CONDITIONS.items():
        kind = condition.metadata["kind"]
        if kind == "ids":
            words = read_words(given[name])
            read[name] = words if text else _numbers(words)
        elif kind == "wanted values":
            read[name] = _wanted_values(opened, given[name])
        elif kind == "values per query":
            read[name] = read_attributes(given[name])
    read["items"] = _numbers(read_words(given["items"]))
    for name in ("right", "wrong"):
        read[name] = typed_ids(given[name], text=text) or None
    return read


def _wanted_values(
    opened: Index, pairs: tuple[tuple[str, str], ...]
) -> dict[str, list[Any] | dict[str, Any]] | None:
    """What was typed as NAME=VALUE, by name; None for nothing."""
    words: dict[str, list[str]] = {}
    for name, word in pairs:
        words.setdefault(name, []).append(word)
    return {name: _typed(opened, name, words[name]) for name in words} or None


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
