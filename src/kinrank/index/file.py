"""The file of an index: arrays that are mapped from disk, and a table of them with checksums.

    magic (12 bytes), version (4), offset, length and CRC-32 of the table (8, 8, 8)
    arrays, each at a multiple of 64 bytes
    the table, JSON: a description of the index; dtype, shape, offset and CRC-32 of every array

A file is written beside the old one and takes its place in one step, so that readers keep what
they have mapped and a writer that dies leaves the old file. Numbers are little-endian.

Nothing here knows what the arrays mean (``kinrank.index.state_file`` does), or who may write
(``kinrank.index.write_lock``).
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.io import (
    PathLike,
    remove_leftovers,
    replacing,
)
from kinrank.reading import reading

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

MAGIC = b"kinrankindex"
VERSION = 1
_PREFIX = struct.Struct("<12sIQQQ")  # magic, version; offset, length and CRC-32 of the table
_ALIGN = 64  # bytes
_CHUNK = 1 << 24  # bytes that are written and summed at a time
_MAX_TABLE = 100_000_000  # bytes
# float32, float64, int32, int64, uint8, text, bool
_DTYPES = re.compile(r"<f4|<f8|<i4|<i8|\|u1|<U[1-9][0-9]{0,8}|\|b1")


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """What a file holds.

    description : of the index, as it was written; arrays : by name, mapped from disk
    checksums : CRC-32 of each array, as it was when it was written
    size : of the file in bytes
    """

    path: Path
    description: dict[str, Any]
    arrays: Arrays
    checksums: dict[str, int]
    size: int

    def verify(self) -> None:
        """Read all arrays and raise if one is not what was written."""
        total = sum(array.nbytes for array in self.arrays.values())
        with progress.stage("verify", total) as advance:
            for name, array in self.arrays.items():
                checksum = 0
                for chunk in _chunks(array):
                    checksum = zlib.crc32(chunk, checksum)
                    advance(len(chunk))
                if checksum != self.checksums[name]:
                    raise FileFormatError(
                        f"{self.path} is damaged: the bytes of `{name}` are not those that were "
                        "written. Restore the file, or build the index again."
                    )


def write(path: PathLike, description: dict[str, Any], arrays: Arrays) -> None:
    """Write the file of an index, whole or not at all; for a caller who holds its ``WriteLock``.

    description : what JSON can hold; arrays : by name, of dtypes that ``read`` accepts
    """
    target = Path(path).resolve()
    remove_leftovers(target)
    total = sum(array.nbytes for array in arrays.values())
    with progress.stage("save", total) as advance, replacing(target) as file:
        file.write(bytes(_PREFIX.size))
        table: dict[str, Any] = {"description": description, "arrays": {}}
        for name, array in arrays.items():
            offset = _align(file)
            checksum = 0
            for chunk in _chunks(array):
                file.write(chunk)
                checksum = zlib.crc32(chunk, checksum)
                advance(len(chunk))
            table["arrays"][name] = {
                "dtype": array.dtype.newbyteorder("<").str,
                "shape": array.shape,
                "offset": offset,
                "crc32": checksum,
            }
        try:
            text = json.dumps(table).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"`recipe` must be what JSON can hold, got: {error}") from error
        if len(text) > _MAX_TABLE:  # before the old file is replaced by one that nobody can open
            raise InvalidInputError(
                f"What an index says of itself must have at most {_MAX_TABLE:,} bytes, got "
                f"{len(text):,}: make `recipe` shorter; large things can be in `notes`."
            )
        offset = _align(file)
        file.write(text)
        file.seek(0)
        file.write(_PREFIX.pack(MAGIC, VERSION, offset, len(text), zlib.crc32(text)))
    _sync_folder(target.parent)


def read(path: PathLike, *, writable: bool = False) -> StoredIndex:
    """Map an index from disk; sizes are checked, the bytes of arrays are not (see ``verify``).

    writable : whether the file will be replaced while the arrays are in use. Windows lets nobody
        replace a file that is mapped, so that its bytes are read into memory there.
    """
    file = Path(path)
    with reading(file, "a whole index of kinrank"):
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            table = _read_table(file, stream, size)
            mapped: mmap.mmap | bytearray
            if writable and sys.platform == "win32":
                stream.seek(0)
                mapped = bytearray(stream.read())
            else:
                # A private map: arrays can be written to like any other, the file stays as it is.
                mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        entries = table["arrays"]
        arrays = {name: _array(mapped, entry, size) for name, entry in entries.items()}
        checksums = {name: int(entry["crc32"]) for name, entry in entries.items()}
        return StoredIndex(file, dict(table["description"]), arrays, checksums, size)


def _read_table(file: Path, stream: IO[bytes], size: int) -> dict[str, Any]:
    """The table at the end of a file: "description", and "arrays" by name.

    file : for messages; stream : the same file, open; size : its bytes
    """
    head = stream.read(_PREFIX.size)
    if not head.startswith(MAGIC):
        got = f"one that begins with {head[:12]!r}" if head else "an empty file"
        raise FileFormatError(f"{file} must be an index saved by kinrank, got {got}.")
    if len(head) < _PREFIX.size:
        raise _cut_off(file, size)
    _, version, offset, length, checksum = _PREFIX.unpack(head)
    if version != VERSION:
        raise FileFormatError(
            f"{file} must be an index of format {VERSION}, got {version}: another version of "
            "kinrank wrote it. Build the index again."
        )
    if offset + length != size or length > _MAX_TABLE:
        raise _cut_off(file, size)
    stream.seek(offset)
    text = stream.read(length)
    if zlib.crc32(text) != checksum:
        raise FileFormatError(f"{file} is damaged: its table does not have the checksum it says.")
    table: dict[str, Any] = json.loads(text)
    return table


def _cut_off(file: Path, size: int) -> FileFormatError:
    """The error for a file whose length is not the one that its beginning says."""
    return FileFormatError(f"{file} is damaged: it was cut off or added to ({size:,} bytes).")


def _array(mapped: mmap.mmap | bytearray, entry: dict[str, Any], size: int) -> npt.NDArray[Any]:
    """The array that an entry of the table describes, as a view of the file's bytes.

    mapped : the bytes of the file; size : how many these are
    entry : with the keys "dtype", "shape" and "offset", which may be anything
    Raises ValueError for an array that cannot be, or that lies outside the file.
    """
    if not _DTYPES.fullmatch(entry["dtype"]):
        raise ValueError(f"dtype {entry['dtype']!r}")
    dtype = np.dtype(entry["dtype"])
    shape = tuple(int(side) for side in entry["shape"])
    count = math.prod(shape)
    offset = int(entry["offset"])
    if min(shape, default=0) < 0 or offset < 0 or offset + count * dtype.itemsize > size:
        raise ValueError(f"an array of shape {shape} at {offset}")
    if count == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(mapped, dtype, count, offset).reshape(shape)


def _chunks(array: npt.NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array, little-endian, ``_CHUNK`` of them at a time."""
    flat = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    raw = flat.reshape(-1).view(np.uint8).data if flat.size else memoryview(b"")
    for begin in range(0, len(raw), _CHUNK):
        yield raw[begin : begin + _CHUNK]


def _align(file: IO[bytes]) -> int:
    """Write zeros up to the next multiple of ``_ALIGN``; returns where the file is then."""
    offset = -(-file.tell() // _ALIGN) * _ALIGN
    file.write(bytes(offset - file.tell()))
    return offset


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
