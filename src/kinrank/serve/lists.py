"""JSON bodies, read so that no list in them can cost more than its place in memory.

A parser makes an object of every number, and a validator an error of every wrong one: 27 MB of
``[],[],`` became gigabytes, while nobody else was answered. So lists of numbers are taken out of
the text first, ``[[0.5, 1], [2, 3]]`` leaves ``[[0], [1]]``, and each is read by itself once it is
known what it should be. What is left is short, or refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import PydanticCustomError, from_json

from kinrank.serve.problems import Problem

LIMIT = 1e15  # squares of larger numbers do not fit
WIDEST = 65_536  # numbers of a vector
_LONGEST = 2_000_000  # bytes of a list of numbers, or of a text
_WORDS = 2_000_000  # bytes of all that is no list of numbers: ids, labels, names of fields
_FIELDS = 1000  # objects, their fields, and lists of other things
_START = re.compile(rb'["\[]')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LIST = re.compile(rb'\[[^\[\]{}"]*+\]')


@dataclass(frozen=True, eq=False)
class NumberLists:
    """The lists of numbers of a body, by the number that stands in their place.

    most : numbers that the rows of one field may have together
    """

    body: bytes
    spans: list[tuple[int, int]]
    most: int

    def values(self, value: Any) -> Any:
        """What was sent where ``value`` stands: such a list, or ``value`` itself."""
        # All other lists hold text, objects or lists, or they would have been taken out.
        if not (isinstance(value, list) and len(value) == 1 and type(value[0]) is int):
            return value
        begin, end = self.spans[value[0]]
        if self.body.count(b",", begin, end) >= WIDEST:
            raise _wrong(f"Input should have at most {WIDEST:,} numbers")
        return _parsed(self.body[begin:end])

    def row(self, value: Any) -> npt.NDArray[np.float64]:
        """A vector."""
        numbers = self.values(value)
        if not isinstance(numbers, list) or not {*map(type, numbers)} <= {int, float}:
            raise _wrong("Input should be a list of valid numbers")
        if not numbers:
            raise _wrong("Input should have at least 1 item")
        try:
            row = np.array(numbers, np.float64)
        except OverflowError:
            row = np.array([np.inf])
        if not bool((np.abs(row) <= LIMIT).all()):
            raise _wrong(f"Numbers should be less than or equal to {LIMIT:g}")
        return row

    def rows(self, value: Any) -> npt.NDArray[np.float64]:
        """Vectors of one length, (n, d)."""
        if not isinstance(value, list) or self.values(value) is not value:
            raise _wrong("Input should be a list of at least 1 item, each a list of numbers")
        first = self.row(value[0])
        if len(value) * len(first) > self.most:
            raise _wrong(f"Input should have at most {self.most:,} numbers")
        rows = np.empty((len(value), len(first)))
        for at, one in enumerate(value):
            row = self.row(one)
            if len(row) != len(first):
                raise _wrong(
                    f"Input must have rows of one length: the first must have {len(first)} "
                    f"columns, got {len(row)}"
                )
            rows[at] = row
        return rows


def take_out(body: bytes, most_lists: int, most_numbers: int) -> tuple[Any, NumberLists]:
    """The body with a number instead of each list of numbers, and these lists."""
    rest: list[bytes] = []
    spans: list[tuple[int, int]] = []
    at = length = fields = 0
    while at < len(body):
        start = _START.search(body, at, at + _LONGEST)
        begin = start.start() if start else min(len(body), at + _LONGEST)
        between, at = body[at:begin], begin
        fields += between.count(b":") + between.count(b"{")
        if start:
            text = start[0] == b'"'
            token = (_STRING if text else _LIST).match(body, begin, begin + _LONGEST)
            at = token.end() if token else begin + 1
            if token and not text:
                between += b"[%d]" % len(spans)
                spans.append((begin, at))
            elif token:
                between += body[begin:at]
            elif text:
                raise _broken("a text has no end, or is too long")
            else:
                between += b"["
                fields += 1
        rest.append(between)
        length += len(between)
        if length > _WORDS or fields > _FIELDS:
            raise Problem(
                422, "too-many", f"The body must be mostly numbers: at most {_WORDS:,} bytes and "
                f"{_FIELDS:,} fields that are not.",
            )  # fmt: skip
        if len(spans) > most_lists:
            raise Problem(422, "too-many", f"The body must have at most {most_lists:,} lists.")
    return _parsed(b"".join(rest)), NumberLists(body, spans, most_numbers)


def _parsed(text: bytes) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:  # it counts from where the text begins, not from the body's start
        raise _broken(str(error).partition(" at line")[0]) from None


def _broken(reason: str) -> Problem:
    return Problem(422, "invalid-input", f"The body must be JSON: {reason}.")


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("numbers", words)
