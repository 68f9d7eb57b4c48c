"""Bodies of requests: read up to a limit, within a time, and never executed.

A parser of JSON makes an object of every number, and a validator an error of every wrong one: 27 MB
of ``[],[],`` became gigabytes, while nobody else was answered. So msgspec checks the text and hands
over the known fields as they stand in it. What is beside the vectors is short, or refused; vectors
are counted first, and become an array row by row.
"""

from __future__ import annotations

import asyncio
import io
import math
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from fastapi import Request
from pydantic import BaseModel
from pydantic_core import PydanticCustomError
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
VECTORS = ("vectors", "candidates")  # fields of many vectors
_WORDS = 2_000_000  # bytes of all fields that are not vectors: ids, labels, conditions
_FIELDS = 1000  # objects, their fields, and nested lists
_COLONS = 200_000  # in all texts too
_SPARE = 8  # brackets beside those of the rows

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
    content: dict[str, Any] = {}
    length = count = 0
    for name, text in read_fields(tuple(model.model_fields), body).items():
        if name in VECTORS:
            content[name] = text  # ``read_rows`` reads it when the model is made
            continue
        length += len(memoryview(text))
        if length > _WORDS:
            words = f"at most {_WORDS:,} bytes of everything else"
            raise _refused(f"The body must be mostly vectors: {words}.", "too-many")
        content[name] = _decoded(text)
        count += _count_fields(content[name])
        if count > _FIELDS:
            words = f"The body must have at most {_FIELDS:,} objects, fields and nested lists."
            raise _refused(words, "too-many")
    return model.model_validate(content, context=settings)


def read_fields(names: tuple[str, ...], body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of an object that were sent, each as its text; all of the body is checked."""
    if body.count(b":") > _COLONS:  # the same field again and again would be read each time
        raise _refused(f"The body must have at most {_COLONS:,} colons.", "too-many")
    sent = _decoded(body, _object_of(names))
    values = {name: getattr(sent, name) for name in names}
    return {name: text for name, text in values.items() if text is not msgspec.UNSET}


@cache
def _object_of(names: tuple[str, ...]) -> Any:
    """What msgspec reads an object with these fields into, and no others."""
    fields: list[Any] = [(name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for name in names]
    return msgspec.defstruct("Fields", fields, forbid_unknown_fields=True)


def _decoded(text: bytes | msgspec.Raw, kind: Any = Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise _broken("it is nested too deeply") from None
    except msgspec.ValidationError as error:  # it is JSON, but not an object of these fields
        raise _refused(f"The body cannot be used: {error}.") from None
    except (msgspec.MsgspecError, ValueError) as error:  # it ends, or its text is no UTF-8
        raise _broken(str(error)) from None


def _count_fields(value: Any) -> int:
    """Objects, their fields and nested lists of a value; no further than to one too many."""
    count = 0
    waiting = [value]
    while waiting and count <= _FIELDS:
        one = waiting.pop()
        if isinstance(one, dict):
            count += len(one)
            one = list(one.values())
        if isinstance(one, list):
            nested = [each for each in one if type(each) in (dict, list)]
            count += len(nested)
            waiting += nested
    return count


def read_row(numbers: Any) -> npt.NDArray[np.float64]:
    """A vector of what was sent."""
    if not isinstance(numbers, list) or not {*map(type, numbers)} <= {int, float}:
        raise _wrong("Input should be a list of valid numbers")
    if not numbers:
        raise _wrong("Input should have at least 1 item")
    if len(numbers) > WIDEST:
        raise _wrong(f"Input should have at most {WIDEST:,} numbers")
    if not -LIMIT <= min(numbers) <= max(numbers) <= LIMIT:
        raise _wrong(f"Numbers should be less than or equal to {LIMIT:g}")
    return np.array(numbers, np.float64)


class _Row:
    """The type of a vector for msgspec: what it read of one goes to ``_Rows.add``."""


class _Rows:
    """Vectors of one length, (n, d), while they are read.

    most : how many there can be; most_numbers : how many numbers all may have
    """

    def __init__(self, most: int, most_numbers: int) -> None:
        self._most = most
        self._most_numbers = most_numbers
        self._count = 0
        self._rows = np.empty((0, 0))

    def add(self, row_type: type[_Row], numbers: Any) -> _Row:
        row = read_row(numbers)
        if not self._count:
            if self._most * len(row) > self._most_numbers:
                raise _wrong(f"Input should have at most {self._most_numbers:,} numbers")
            self._rows = np.empty((self._most, len(row)))
        width = self._rows.shape[1]
        if len(row) != width:
            raise _wrong(
                f"Input must have rows of one length: the first must have {width} columns, "
                f"got {len(row)}"
            )
        self._rows[self._count] = row
        self._count += 1
        return row_type()

    def array(self) -> npt.NDArray[np.float64]:
        if not self._count:
            raise _wrong("Input should be a list of at least 1 item, each a list of numbers")
        return self._rows[: self._count]


def read_rows(text: msgspec.Raw, settings: Settings) -> npt.NDArray[np.float64]:
    """Vectors of one length, (n, d), out of their text."""
    most = max(settings.max_batch, settings.max_pool) + _SPARE
    lists = _checked_lists(bytes(text), most)
    rows = _Rows(lists - 1, settings.max_numbers)
    try:
        msgspec.json.decode(text, type=list[_Row], dec_hook=rows.add)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None
    return rows.array()


def _checked_lists(text: bytes, most: int) -> int:
    """How many lists a text has, before any of its numbers becomes an object."""
    lists = text.count(b"[")
    if max(lists, text.count(b"]")) > most:
        raise _wrong(f"Input should have at most {most:,} lists")
    # What lies between the ends of two rows is one of them, and the comma in front of it.
    if max(row.count(b",") for row in text.split(b"]")) > WIDEST:
        raise _wrong(f"Input should have at most {WIDEST:,} numbers in a list")
    return lists


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


def _refused(words: str, kind: str = "invalid-input") -> Problem:
    return Problem(422, kind, words)


def _broken(reason: str) -> Problem:
    return _refused(f"The body must be JSON: {reason}.")


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("numbers", words)
