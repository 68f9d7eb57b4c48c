"""Bodies of requests: read up to a limit, within a time, and never executed.

A parser of JSON makes an object of every number, and a validator an error of every wrong one: 27 MB
of ``[],[],`` became gigabytes, while nobody else was answered. So lists of numbers are taken out of
the text first, ``[[0.5, 1], [2, 3]]`` leaves ``[[0], [1]]``, and each is read by itself once it is
known what it should be. What is left is short, or refused.
"""

from __future__ import annotations

import asyncio
import io
import math
import re
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Request
from pydantic import BaseModel
from pydantic_core import PydanticCustomError, from_json
from starlette.requests import ClientDisconnect

from kinrank.reading import read_npy_header
from kinrank.serve.gate import too_large
from kinrank.serve.problems import Problem
from kinrank.serve.settings import Settings

JSON = "application/json"
NPY = "application/x-npy"
IMAGE = "image/*"
LIMIT = 1e15  # squares of larger numbers do not fit
WIDEST = 65_536  # numbers of a vector
_LONGEST = 2_000_000  # bytes of a list of numbers, or of a text
_WORDS = 2_000_000  # bytes of all that is no list of numbers: ids, labels, names of fields
_FIELDS = 1000  # objects, their fields, and lists of other things
_LISTS = 8  # of a body beside its vectors
_START = re.compile(rb'["\[]')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LIST = re.compile(rb'\[[^\[\]{}"]*+\]')

Body = TypeVar("Body", bound=BaseModel)


def media_type(request: Request, *accepted: str) -> str:
    """What the body is, one of ``accepted``."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = NPY if sent == "application/octet-stream" else sent
    kind = IMAGE if kind.startswith("image/") else kind
    if kind not in accepted:
        words = f"`Content-Type` must be {' or '.join(accepted)}, got {sent or 'none'!r}."
        raise Problem(415, "media-type", words)
    return kind


async def read_body(request: Request) -> bytes:
    """The whole body; a problem if it is too large or takes too long to come."""
    settings: Settings = request.app.state.service.settings
    body = bytearray()
    try:
        async with asyncio.timeout(settings.timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > settings.max_body:
                    raise too_large(settings.max_body)
    except ClientDisconnect:  # nobody is there to be told, and no line in the log is worth it
        raise Problem(400, "gone", "The body must arrive whole.") from None
    except TimeoutError:
        words = f"The body must arrive within {settings.timeout:g} s."
        raise Problem(408, "slow-body", words, {"Connection": "close"}) from None
    return bytes(body)


def parse_json(model: type[Body], body: bytes, settings: Settings) -> Body:
    """The body as ``model``, with vectors as arrays."""
    lists = max(settings.max_batch, settings.max_pool) + _LISTS
    content, context = take_out(body, lists, settings.max_numbers)
    return model.model_validate(content, context=context)


def parse_npy(body: bytes, settings: Settings) -> npt.NDArray[Any]:
    """A two-dimensional array of numbers; a single vector becomes a row."""
    stream = io.BytesIO(body)
    try:
        shape, fortran, dtype = read_npy_header(stream)
    except Exception as error:  # numpy raises anything on broken headers
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise _refused(f"The body must be an npy file: {reason}.") from error
    if dtype.kind not in "fiu" or dtype.hasobject:
        raise _refused(f"The array must hold real numbers, got {dtype}.")
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise _refused(f"The array must have one or two dimensions, got shape {shape}.")
    # The header is believed only if the bytes are there.
    if len(body) - stream.tell() != math.prod(shape) * dtype.itemsize:
        raise _refused("The array must be as long as its header says.")
    if math.prod(shape) > settings.max_numbers:
        words = f"The array must have at most {settings.max_numbers:,} numbers."
        raise _refused(words, "too-many")
    flat = np.frombuffer(body, dtype, offset=stream.tell())
    return np.atleast_2d(flat.reshape(shape, order="F" if fortran else "C"))


def parse_vector(text: str) -> npt.NDArray[np.float64]:
    """A vector from an address: numbers with commas, (1, d)."""
    try:
        return np.array([[float(word) for word in text.split(",")]])
    except ValueError:
        raise _refused("`vector` must be numbers with commas, got other words.") from None


def checked_rows(
    rows: npt.NDArray[Any], name: str, width: int | None, limit: int
) -> npt.NDArray[Any]:
    """Vectors of one width and no more than ``limit``, without what cannot be squared."""
    if len(rows) > limit:
        raise _refused(f"`{name}` must be at most {limit:,}, got {len(rows):,}.", "too-many")
    if width is not None and rows.shape[1] != width:
        raise _refused(f"`{name}` must have {width} columns, got {rows.shape[1]}.")
    if not -LIMIT <= float(rows.min()) <= float(rows.max()) <= LIMIT:
        raise _refused(f"`{name}` must be numbers up to {LIMIT:g}, and no NaN.")
    return rows


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
        numbers = self.values(value)
        if not isinstance(numbers, list) or not {*map(type, numbers)} <= {int, float}:
            raise _wrong("Input should be a list of valid numbers")
        if not numbers:
            raise _wrong("Input should have at least 1 item")
        if not -LIMIT <= min(numbers) <= max(numbers) <= LIMIT:
            raise _wrong(f"Numbers should be less than or equal to {LIMIT:g}")
        return np.array(numbers, np.float64)

    def rows(self, value: Any) -> npt.NDArray[np.float64]:
        """Vectors of one length, (n, d)."""
        if not isinstance(value, list) or self.values(value) is not value:
            raise _wrong("Input should be a list of at least 1 item, each a list of numbers")
        width = len(self.row(value[0]))
        if len(value) * width > self.most:
            raise _wrong(f"Input should have at most {self.most:,} numbers")
        rows = np.empty((len(value), width))
        for at, entry in enumerate(value):
            row = self.row(entry)
            if len(row) != width:
                raise _wrong(
                    f"Input must have rows of one length: the first must have {width} "
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
        between = body[at:begin]
        at = begin
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
            words = f"at most {_WORDS:,} bytes and {_FIELDS:,} fields that are not"
            raise _refused(f"The body must be mostly numbers: {words}.", "too-many")
        if len(spans) > most_lists:
            raise _refused(f"The body must have at most {most_lists:,} lists.", "too-many")
    return _parsed(b"".join(rest)), NumberLists(body, spans, most_numbers)


def _parsed(text: bytes) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:  # it counts from where the text begins, not from the body's start
        raise _broken(str(error).partition(" at line")[0]) from None


def _refused(words: str, kind: str = "invalid-input") -> Problem:
    return Problem(422, kind, words)


def _broken(reason: str) -> Problem:
    return _refused(f"The body must be JSON: {reason}.")


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("numbers", words)
