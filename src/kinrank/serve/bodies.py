"""Bodies of requests: read up to a limit, within a time, and never executed."""

from __future__ import annotations

import asyncio
import io
import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Request

from kinrank.serve.gate import too_large
from kinrank.serve.models import LIMIT, Sent
from kinrank.serve.problems import Problem
from kinrank.serve.settings import Settings

JSON = "application/json"
NPY = ("application/x-npy", "application/octet-stream")
IMAGE = "image/"

Body = TypeVar("Body", bound=Sent)


async def read_body(request: Request, settings: Settings) -> bytes:
    """The whole body; a problem if it is too large or takes too long to come."""
    try:
        return await asyncio.wait_for(_read(request, settings.max_body), settings.timeout)
    except TimeoutError:
        raise Problem(
            408, "slow-body", f"The body must arrive within {settings.timeout:g} s.",
            {"Connection": "close"},
        ) from None  # fmt: skip


async def _read(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
    return b"".join(parts)


def media_type(request: Request) -> str:
    """What the body is said to be."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def wrong_media(got: str, *wanted: str) -> Problem:
    """A body of a kind that is not taken."""
    return Problem(
        415, "media-type", f"`Content-Type` must be {' or '.join(wanted)}, got {got or 'none'!r}."
    )


def parse_json(model: type[Body], body: bytes) -> Body:
    """The body as ``model``."""
    return model.model_validate_json(body)


def parse_npy(body: bytes) -> npt.NDArray[Any]:
    """A two-dimensional array of numbers; a single vector becomes a row."""
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        reader = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = reader(stream)
    except (ValueError, KeyError, EOFError, SyntaxError) as error:
        raise Problem(422, "invalid-input", f"The body must be an npy file: {error}.") from error
    if dtype.kind not in "fiu" or dtype.hasobject:
        raise Problem(422, "invalid-input", f"The array must hold real numbers, got {dtype}.")
    if len(shape) not in (1, 2) or 0 in shape:
        raise Problem(
            422, "invalid-input", f"The array must have one or two dimensions, got shape {shape}."
        )
    # The header is believed only if the bytes are there.
    if len(body) - stream.tell() != math.prod(shape) * dtype.itemsize:
        raise Problem(422, "invalid-input", "The array must be as long as its header says.")
    flat = np.frombuffer(body, dtype, offset=stream.tell())
    return np.atleast_2d(flat.reshape(shape, order="F" if fortran else "C"))


def checked_rows(rows: Any, name: str, width: int | None, limit: int) -> npt.NDArray[Any]:
    """Vectors as an array, of one width and no more than ``limit``."""
    if len(rows) > limit:
        raise Problem(422, "too-many", f"`{name}` must be at most {limit:,}, got {len(rows):,}.")
    wanted = len(rows[0]) if width is None else width
    if not isinstance(rows, np.ndarray):
        for row in rows:
            if len(row) != wanted:
                raise _wrong_width(name, wanted, len(row))
    array = np.asarray(rows)
    if array.shape[1] != wanted:
        raise _wrong_width(name, wanted, array.shape[1])
    with np.errstate(invalid="ignore"):
        if not bool((np.abs(array.astype(np.float64)) <= LIMIT).all()):
            raise Problem(
                422, "invalid-input", f"`{name}` must be numbers up to {LIMIT:g}, and no NaN."
            )
    return array


def _wrong_width(name: str, wanted: int, got: int) -> Problem:
    return Problem(422, "invalid-input", f"`{name}` must have {wanted} columns, got {got}.")
