"""Bodies of requests: read up to a limit, within a time, and never executed."""

from __future__ import annotations

import asyncio
import io
import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Request
from starlette.requests import ClientDisconnect

from kinrank.serve.gate import too_large
from kinrank.serve.lists import LIMIT, take_out
from kinrank.serve.models import Sent
from kinrank.serve.problems import Problem
from kinrank.serve.settings import Settings

JSON = "application/json"
NPY = ("application/x-npy", "application/octet-stream")
IMAGE = "image/"
_BLOCK = 1 << 20  # numbers that are looked at together
_LISTS = 8  # of a body beside its vectors

Body = TypeVar("Body", bound=Sent)


async def read_body(request: Request, settings: Settings) -> bytes:
    """The whole body; a problem if it is too large or takes too long to come."""
    try:
        return await asyncio.wait_for(_read(request, settings.max_body), settings.timeout)
    except ClientDisconnect:  # nobody is there to be told, and no line in the log is worth it
        raise Problem(400, "gone", "The body must arrive whole.") from None
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


def parse_json(model: type[Body], body: bytes, settings: Settings) -> Body:
    """The body as ``model``, with vectors as arrays."""
    lists = max(settings.max_batch, settings.max_pool) + _LISTS
    content, context = take_out(body, lists, settings.max_numbers)
    return model.model_validate(content, context=context)


def parse_npy(body: bytes, settings: Settings) -> npt.NDArray[Any]:
    """A two-dimensional array of numbers; a single vector becomes a row."""
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        reader = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = reader(stream)
    except Exception as error:  # numpy raises anything on broken headers
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise Problem(422, "invalid-input", f"The body must be an npy file: {reason}.") from error
    if dtype.kind not in "fiu" or dtype.hasobject:
        raise Problem(422, "invalid-input", f"The array must hold real numbers, got {dtype}.")
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise Problem(
            422, "invalid-input", f"The array must have one or two dimensions, got shape {shape}."
        )
    # The header is believed only if the bytes are there.
    if len(body) - stream.tell() != math.prod(shape) * dtype.itemsize:
        raise Problem(422, "invalid-input", "The array must be as long as its header says.")
    if math.prod(shape) > settings.max_numbers:
        raise Problem(
            422, "too-many", f"The array must have at most {settings.max_numbers:,} numbers."
        )
    flat = np.frombuffer(body, dtype, offset=stream.tell())
    return np.atleast_2d(flat.reshape(shape, order="F" if fortran else "C"))


def checked_rows(
    rows: npt.NDArray[Any], name: str, width: int | None, limit: int
) -> npt.NDArray[Any]:
    """Vectors of one width and no more than ``limit``, without what cannot be squared."""
    if len(rows) > limit:
        raise Problem(422, "too-many", f"`{name}` must be at most {limit:,}, got {len(rows):,}.")
    if width is not None and rows.shape[1] != width:
        raise Problem(
            422, "invalid-input", f"`{name}` must have {width} columns, got {rows.shape[1]}."
        )
    step = max(1, _BLOCK // rows.shape[1])
    for begin in range(0, len(rows), step):
        block = rows[begin : begin + step].astype(np.float64)
        if not bool((np.abs(block) <= LIMIT).all()):
            raise Problem(
                422, "invalid-input", f"`{name}` must be numbers up to {LIMIT:g}, and no NaN."
            )
    return rows
