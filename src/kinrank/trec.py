"""Files of TREC: runs, which are rankings by name, and qrels, which say what is relevant."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from kinrank.errors import InvalidInputError, shown
from kinrank.reading import read_text, reading

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]

_RUN = "a run file of TREC: query, Q0, id, rank, score and name in each line"
_RUN_COLUMNS = 6
_QRELS = "a qrels file: query, 0, document and grade in each line, or a table of BEIR"
_QRELS_COLUMNS = 4
_BEIR_COLUMNS = 3  # and a line of names above them
_MOST_ROWS = 1 << 31


class RunEntry(NamedTuple):
    """A result of a query in a run file."""

    query: str
    name: str
    rank: int
    score: float


def read_run(path: str | os.PathLike[str]) -> list[RunEntry]:
    """The results in a run file, in the order of its lines."""
    seen: set[tuple[str, str]] = set()
    entries = []
    with reading(path, _RUN):
        for number, words in _lines(path, _RUN):
            if len(words) != _RUN_COLUMNS:
                raise ValueError(f"{len(words)} words in line {number}")
            entry = RunEntry(words[0], words[2], int(words[3]), float(words[4]))
            if not math.isfinite(entry.score):
                raise ValueError(f"the score {words[4]} in line {number}")
            if (entry.query, entry.name) in seen:
                raise ValueError(f"{entry.name} twice for {entry.query}, in line {number}")
            seen.add((entry.query, entry.name))
            entries.append(entry)
    return entries


def run_line(query: str, name: str, rank: int, score: float, run: str) -> str:
    """A line of a run file."""
    words = [query, "Q0", name, str(rank), repr(score), run]
    bad = next((word for word in words if not _is_word(word)), None)
    if bad is not None:
        raise InvalidInputError(f"A run file of TREC holds words without spaces, got {shown(bad)}.")
    return " ".join(words) + "\n"


def numbers_of_names(what: str, names: list[str] | None, used: list[str]) -> dict[str, int]:
    """The number of each name; without names the ``used`` ones are numbers themselves."""
    if names is None:
        numbers = {name: int(name) for name in used if name.isdecimal() and int(name) < _MOST_ROWS}
        allowed = "given, or the file must have numbers from 0"
    else:
        numbers = {name: number for number, name in enumerate(names)}
        allowed = "all names of the run file"
    unknown = next((name for name in used if name not in numbers), None)
    if unknown is not None:
        raise InvalidInputError(f"`{what}` must be {allowed}, got a file with {shown(unknown)}.")
    return numbers


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Read relevance judgements: query -> document -> grade.

    path : a qrels file of TREC (query, an unused column, document, grade), or a table of BEIR: a
        line of names above three columns (query-id, corpus-id, score)
    """
    qrels: dict[str, dict[str, int]] = {}
    with reading(path, _QRELS):
        lines = _lines(path, _QRELS)
        columns = _QRELS_COLUMNS
        if lines and len(lines[0][1]) == _BEIR_COLUMNS:
            columns = _BEIR_COLUMNS
            lines = lines[1:]
        if not lines:
            raise ValueError("no judgement")
        for number, words in lines:
            if len(words) != columns:
                raise ValueError(f"{len(words)} words in line {number}")
            query = words[0]
            document = words[-2]
            grades = qrels.setdefault(query, {})
            if document in grades:
                raise ValueError(f"two judgements of {document} for {query}, in line {number}")
            grades[document] = int(words[-1])
    return qrels


def qrels_text(qrels: Qrels) -> str:
    """The content of a qrels file of TREC."""
    return "".join(
        f"{query} 0 {document} {grade}\n"
        for query, grades in qrels.items()
        for document, grade in grades.items()
    )


def _lines(path: str | os.PathLike[str], what: str) -> list[tuple[int, list[str]]]:
    """The words of each line that has some, with its number from 1."""
    lines = enumerate(read_text(path, what).split("\n"), 1)
    return [(number, words) for number, line in lines if (words := line.split())]


def _is_word(word: str) -> bool:
    """Whether it can stand in a line of words, in UTF-8."""
    try:
        word.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return len(word.split()) == 1
