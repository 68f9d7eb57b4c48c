"""An index as one file: arrays that are mapped from disk, and a table of them with checksums.

    magic (12 bytes), version (4), place, length and CRC-32 of the table (8, 8, 8)
    arrays, each at a multiple of 64 bytes
    the table, JSON: what the index is, and dtype, shape, place and CRC-32 of every array

A file is written beside the old one and takes its place in one step, so that readers keep what
they have mapped and a writer that dies leaves the old file. Numbers are little-endian.

There is one writer at a time; the operating system takes its lock back when a process dies.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import re
import struct
import sys
import weakref
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import FileFormatError, InvalidInputError, LockedError
from kinrank.io import (
    READ_ONLY,
    PathLike,
    release_lock,
    remove_leftovers,
    replacing,
    take_lock,
)
from kinrank.reading import reading

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

MAGIC, VERSION = b"kinrankindex", 2
_OLDER = (1,)  # which had the notes in the table, and can be read
_PREFIX = struct.Struct("<12sIQQQ")
_ALIGN = 64
_CHUNK = 1 << 24
_MAX_TABLE = 100_000_000
_DTYPES = re.compile(r"<f4|<f8|<i4|<i8|\|u1|<U[1-9][0-9]{0,8}|\|b1")


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """What a file holds: words about the index, its arrays, their checksums, and the bytes."""

    path: Path
    about: dict[str, Any]
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


def write(path: PathLike, about: dict[str, Any], arrays: Arrays) -> None:
    """Write an index, whole or not at all; to be called by the one who holds the lock."""
    target = Path(path).resolve()
    remove_leftovers(target)
    total = sum(array.nbytes for array in arrays.values())
    with progress.stage("save", total) as advance, replacing(target) as file:
        file.write(bytes(_PREFIX.size))
        table: dict[str, Any] = {"about": about, "arrays": {}}
        for name, array in arrays.items():
            place, checksum = _aligned(file), 0
            for chunk in _chunks(array):
                file.write(chunk)
                checksum = zlib.crc32(chunk, checksum)
                advance(len(chunk))
            dtype = array.dtype.newbyteorder("<").str
            entry = {"dtype": dtype, "shape": array.shape, "place": place, "crc32": checksum}
            table["arrays"][name] = entry
        try:
            text = json.dumps(table).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"`recipe` must be what JSON can hold, got: {error}") from error
        if len(text) > _MAX_TABLE:  # before the old file is replaced by one that nobody can open
            raise InvalidInputError(
                f"What an index says of itself must have at most {_MAX_TABLE:,} bytes, got "
                f"{len(text):,}: make `recipe` shorter; large things can be in `notes`."
            )
        place = _aligned(file)
        file.write(text)
        file.seek(0)
        file.write(_PREFIX.pack(MAGIC, VERSION, place, len(text), zlib.crc32(text)))
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
        return StoredIndex(file, dict(table["about"]), arrays, checksums, size)


def _read_table(file: Path, stream: IO[bytes], size: int) -> dict[str, Any]:
    head = stream.read(_PREFIX.size)
    if not head.startswith(MAGIC):
        got = f"one that begins with {head[:12]!r}" if head else "an empty file"
        raise FileFormatError(f"{file} must be an index saved by kinrank, got {got}.")
    if len(head) < _PREFIX.size:
        raise _cut_off(file, size)
    _, version, place, length, checksum = _PREFIX.unpack(head)
    if version not in (VERSION, *_OLDER):
        raise FileFormatError(
            f"{file} must be an index of format {VERSION} or older, got {version}: a newer "
            "version of kinrank wrote it."
        )
    if place + length != size or length > _MAX_TABLE:
        raise _cut_off(file, size)
    stream.seek(place)
    text = stream.read(length)
    if zlib.crc32(text) != checksum:
        raise FileFormatError(f"{file} is damaged: its table does not have the checksum it says.")
    table: dict[str, Any] = json.loads(text)
    return table


def _cut_off(file: Path, size: int) -> FileFormatError:
    return FileFormatError(f"{file} is damaged: it was cut off or added to ({size:,} bytes).")


def _array(mapped: mmap.mmap | bytearray, entry: dict[str, Any], size: int) -> npt.NDArray[Any]:
    if not _DTYPES.fullmatch(entry["dtype"]):
        raise ValueError(f"dtype {entry['dtype']!r}")
    dtype, shape = np.dtype(entry["dtype"]), tuple(int(side) for side in entry["shape"])
    count, place = math.prod(shape), int(entry["place"])
    if min(shape, default=0) < 0 or place < 0 or place + count * dtype.itemsize > size:
        raise ValueError(f"an array of shape {shape} at {place}")
    if count == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(mapped, dtype, count, place).reshape(shape)


def _chunks(array: npt.NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array, some at a time."""
    flat = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    raw = flat.reshape(-1).view(np.uint8).data if flat.size else memoryview(b"")
    for begin in range(0, len(raw), _CHUNK):
        yield raw[begin : begin + _CHUNK]


def _aligned(file: IO[bytes]) -> int:
    place = -(-file.tell() // _ALIGN) * _ALIGN
    file.write(bytes(place - file.tell()))
    return place


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


class WriteLock:
    """The right to write an index: of one object in one process, until ``release``.

    Two files are locked: one beside the index, since saving puts another file in its place, and the
    index itself, which may have other names (hard links). A process that is killed leaves the file
    beside it, empty, and the next writer takes it.
    """

    def __init__(self, path: PathLike) -> None:
        self._target = Path(path).resolve()
        self._path = self._target.with_name(f"{self._target.name}.lock")
        self._owner = os.getpid()
        beside = None
        while beside is None:
            beside = self._taken(path)
        self._files = [beside]
        # Also when the holder is forgotten, or the process ends, without a release.
        self._end = weakref.finalize(self, _remove, self._files, self._path, self._owner)
        if not self._lock_target():
            self.release()
            raise _locked(path)

    @property
    def inherited(self) -> bool:
        """Whether this process is a copy of the one that took the lock."""
        return os.getpid() != self._owner

    def check_process(self) -> None:
        """Raise in a copy of the process that took the lock."""
        if self.inherited:
            raise LockedError(
                f"{self._target} is open for writing in the process that this one was forked from "
                f"({self._owner}). Save it there, or save to another file here."
            )

    def written(self) -> None:
        """Lock the file that has taken the place of the old one."""
        for old in self._files[1:]:
            _unlock(old)
            self._files.remove(old)
        self._lock_target()

    def release(self) -> None:
        """Let others write."""
        self._end()

    def _taken(self, path: PathLike) -> IO[bytes] | None:
        """The file beside the index, locked; None if its last holder removed it meanwhile."""
        try:
            file = self._path.open("ab")
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            raise InvalidInputError(
                f"{os.fspath(path)} cannot be opened for writing: {self._path.parent} cannot be "
                f"written to ({error.strerror}). To search it, leave out writable=True."
            ) from error
        try:
            take_lock(file)
        except OSError as error:
            file.close()
            raise _locked(path) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                return file
        file.close()
        return None

    def _lock_target(self) -> bool:
        """Lock the index itself, if it is there; False if another has it."""
        # On Windows a lock would keep others from reading it; to open a pipe would wait for ever.
        if sys.platform == "win32" or not self._target.is_file():
            return True
        try:
            file = self._target.open("rb")
        except OSError:  # who reads it is told why
            return True
        try:
            take_lock(file)
        except OSError as error:
            file.close()
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        self._files.append(file)
        return True


def _locked(path: PathLike) -> LockedError:
    return LockedError(
        f"{os.fspath(path)} is open for writing in another process or object. Close it there "
        "first; to search it, leave out writable=True."
    )


def _unlock(file: IO[bytes]) -> None:
    if not file.closed:
        # Copies of the process have the file open too: to close it here would not unlock it.
        release_lock(file)
    file.close()


def _remove(files: list[IO[bytes]], path: Path, owner: int) -> None:
    if os.getpid() != owner:  # a copy of the process: the lock is not its own
        return
    if sys.platform == "win32":  # a file that is open cannot be removed there
        _unlock(files[0])
    with suppress(OSError):  # another one has it already
        path.unlink()
    for file in files:
        _unlock(file)
