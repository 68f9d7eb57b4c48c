"""The safetensors format, read and written without its package.

A file is the length of the header (8 bytes), the header (JSON: name -> dtype, shape, data_offsets)
and the bytes of all arrays. Reading it here maps arrays from disk and takes bfloat16, which the
package's numpy side refuses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import FileFormatError
from kinrank.reading import reading

Entry: TypeAlias = dict[str, Any]

_WHOLE = "a whole safetensors file"
_PREFIX = 8
_MAX_HEADER = 100_000_000
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


def read_header(file: Path) -> tuple[dict[str, Entry], Any, int]:
    """The entries by name, what the file says about itself, and where the data begins."""
    with reading(file, _WHOLE), file.open("rb") as stream:
        length = int.from_bytes(stream.read(_PREFIX), "little")
        if length > min(_MAX_HEADER, file.stat().st_size - _PREFIX):
            raise ValueError(f"a header of {length} bytes")
        try:
            entries = json.loads(stream.read(length))
        except (ValueError, RecursionError) as error:
            raise ValueError("a header that is not JSON") from error
        if not isinstance(entries, dict):
            raise TypeError("a header that is not a JSON object")
    return entries, entries.pop("__metadata__", {}), _PREFIX + length


def read_entry(file: Path, name: str, entry: Entry, begin: int) -> npt.NDArray[Any]:
    """The array ``name``, mapped from disk; bfloat16 becomes float32 in memory."""
    with reading(file, _WHOLE):
        try:
            kind = str(entry["dtype"])
            shape = tuple(int(size) for size in entry["shape"])
            first, end = (int(offset) for offset in entry["data_offsets"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"no dtype, shape and data_offsets for {name!r}") from error
        if kind not in _DTYPES:
            raise FileFormatError(
                f"{name!r} in {file} must be of dtype {', '.join(_DTYPES)}, got {kind}."
            )
        dtype = np.dtype(_DTYPES[kind])
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or first < 0 or end - first != size:
            raise ValueError(f"offsets {first}, {end} for shape {shape} of {kind}")
        if begin + end > file.stat().st_size:
            raise ValueError(f"too few bytes for {name!r}")
        if size == 0:  # nothing to map
            return np.empty(shape, np.float32 if kind == "BF16" else dtype)
        array = np.memmap(file, dtype, "r", begin + first, shape)
        if kind == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array


def write(
    stream: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write arrays and words; the same ones give the same bytes."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, array in arrays.items():
        kind = next(kind for kind, dtype in _DTYPES.items() if np.dtype(dtype) == array.dtype)
        end = begin + array.nbytes
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _PREFIX)  # the data begins at a multiple of eight
    stream.write(len(text).to_bytes(_PREFIX, "little") + text)
    for array in arrays.values():
        stream.write(np.ascontiguousarray(array).data)
