"""What is finished of a run, block by block, in a folder.

    run.json             which run this is: a key over its inputs and parameters
    007-diffusion/       the seventh call of a runner's ``rows`` or ``fill``
        call.json        what is computed: kernel, shapes, numbers
        0.bin 1.bin      the arrays, each rows' values in their places
        blocks           a line for each finished block: rows, entries, check sum

A block is written first and then listed, so what is listed was written. Killing the process loses
nothing that is listed. A run that goes on compares the check sums of what it finds: after a restart
of the machine bytes may be missing, and a folder can be touched by others.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import pickle
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

import numpy as np

from kinrank.errors import FileFormatError, InvalidInputError, LockedError
from kinrank.io import take_lock, write_text_atomic
from kinrank.parallel import Array, Range, Runner
from kinrank.reading import read_json

FORMAT = 1
_PIECE = 1 << 24  # bytes of an array that are read at a time
_PATTERNS = ("run.json", "[0-9]*-*", "kept-*", "scratch-*")


class BlockEntry(NamedTuple):
    """A finished block: rows low to high, where its entries end, and the sum over its bytes."""

    low: int
    high: int
    end: int
    check: int

    @property
    def line(self) -> str:
        return " ".join(map(str, self)) + "\n"


class Journal:
    """The folder of one run, which one object in one process has at a time."""

    def __init__(self, folder: Path, key: str, parameter: str = "work") -> None:
        """Begin a run, or find the one to go on with; refuses a folder of another run.

        parameter : where users said the folder, for messages
        """
        self.folder = folder
        self.parameter = parameter
        self._numbers = {kind: itertools.count(1) for kind in ("call", "kept", "scratch")}
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "run.json"
        if not file.exists() and any(folder.iterdir()):
            raise InvalidInputError(
                f"`{parameter}` must be an empty or new folder, or one of a run that was stopped, "
                f"got {folder} with other files in it."
            )
        if not _says(file, {"format": FORMAT, "key": key}):
            raise InvalidInputError(
                f"`{parameter}` must be a new folder for other vectors, parameters or versions, "
                f"got {folder} with another run in it. Remove it, or repeat that run."
            )
        self._lock = self._locked(file)
        for file in folder.glob("scratch-*"):
            file.unlink()

    def call(self, name: str, facts: dict[str, Any]) -> Call:
        """The next call of the run; a folder that was begun before is gone on with."""
        title = name.replace("/", "-").replace(" ", "-")
        number = next(self._numbers["call"])
        return Call(self.folder / f"{number:03d}-{title}", facts, self.parameter)

    def kept(self, name: str) -> Path:
        """The file of something that is made once; it may not be there yet."""
        return self.folder / f"kept-{next(self._numbers['kept'])}-{name}"

    def scratch(self) -> Path:
        """A new file that nobody will look for later."""
        file = self.folder / f"scratch-{os.getpid()}-{next(self._numbers['scratch'])}"
        file.touch()
        return file

    def clear(self) -> None:
        """Remove what was written; the folder too if nothing else is in it.

        Windows keeps files whose arrays are still in use; the next run there removes them.
        """
        self._lock.close()  # Windows removes no file that is open
        for path in [path for pattern in _PATTERNS for path in self.folder.glob(pattern)]:
            try:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            except PermissionError:
                if sys.platform != "win32":
                    raise
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def leave(self) -> None:
        """Let others have the folder, which is removed where nothing in it is finished."""
        kept = ("[0-9]*-*/blocks", "kept-*")
        is_empty = not any(path for pattern in kept for path in self.folder.glob(pattern))
        if is_empty and self.folder.exists():
            self.clear()
        self._lock.close()

    def _locked(self, file: Path) -> IO[bytes]:
        """The file of the run, open and locked; the lock goes with the process."""
        lock = file.open("rb")
        try:
            take_lock(lock)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return lock  # a file system without locks
            lock.close()
            raise LockedError(
                f"Another process computes this run in {self.folder}: wait until it has ended, or "
                f"give another `{self.parameter}`."
            ) from error
        return lock


class Call:
    """One call: its files, and which of its blocks are finished."""

    def __init__(self, folder: Path, facts: dict[str, Any], parameter: str = "work") -> None:
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        if not _says(folder / "call.json", facts):
            raise InvalidInputError(
                f"`{parameter}` must be a folder of this version's runs, got {folder.parent}, "
                f"where {folder.name} was made by something else. Remove it and begin again."
            )
        self._list = self.folder / "blocks"
        self.blocks = self._listed(int(facts["rows"]))

    def file(self, number: int) -> Path:
        """The file of an array; it is there, perhaps without anything in it."""
        path = self.folder / f"{number}.bin"
        path.touch()
        return path

    def finished(self, block: BlockEntry) -> None:
        """List a block whose bytes are written."""
        with self._list.open("ab") as file:
            file.write(block.line.encode())
        self.blocks.append(block)

    @property
    def end(self) -> int:
        """Where the entries of the last block end."""
        return self.blocks[-1].end if self.blocks else 0

    def checked(self, check: Callable[[BlockEntry, int], int], in_order: bool = False) -> None:
        """Forget blocks whose bytes, by ``check(block, begin of entries)``, are not what they were.

        in_order : and those behind a gap: entries of rows are written one behind the other
        """
        listed = self.blocks
        self.blocks = []
        for block in listed:
            behind_gap = block.low != (self.blocks[-1].high if self.blocks else 0)
            if not (in_order and behind_gap) and check(block, self.end) == block.check:
                self.blocks.append(block)
            elif in_order:
                break
        text = "".join(block.line for block in self.blocks)
        if self._list.exists() and self._list.read_bytes() != text.encode():
            write_text_atomic(self._list, text)

    def missing(self, n: int, cut: Callable[[int], list[Range]]) -> list[Range]:
        """What is left of ``range(n)``, cut into blocks."""
        missing = []
        begin = 0  # of a gap between finished blocks
        for block in sorted(self.blocks, key=lambda block: block.low):
            missing += [(begin + low, begin + high) for low, high in cut(block.low - begin)]
            begin = block.high
        return missing + [(begin + low, begin + high) for low, high in cut(n - begin)]

    def _listed(self, n: int) -> list[BlockEntry]:
        """The blocks in the list; what is no block of ``n`` rows is left out."""
        blocks = []
        lines = self._list.read_bytes().split(b"\n") if self._list.exists() else [b""]
        for line in lines[:-1]:  # what ends without a newline was not finished
            with suppress(TypeError, ValueError):
                block = BlockEntry(*map(int, line.split()))
                if 0 <= block.low < block.high <= n and block.end >= 0:
                    blocks.append(block)
        return blocks


def check_sum(arrays: Iterable[Array]) -> int:
    """A sum over the bytes of arrays."""
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return total


def feed(digest: Any, value: Any) -> None:
    """Add to a digest what tells a value from others: all that it holds."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"array {value.shape} {value.dtype}".encode())
        lines = np.atleast_1d(value)
        step = max(1, _PIECE // max(1, lines[:1].nbytes))
        for low in range(0, len(lines), step):
            piece = np.ascontiguousarray(lines[low : low + step])
            digest.update(piece.reshape(-1).view(np.uint8).data)
    elif isinstance(value, tuple | list):
        digest.update(f"{type(value).__name__} {len(value)}".encode())
        for item in value:
            feed(digest, item)
    elif is_dataclass(value) and not isinstance(value, type):
        digest.update(f"record {type(value).__qualname__}".encode())
        for item in fields(value):
            digest.update(item.name.encode())
            feed(digest, getattr(value, item.name))
    elif hasattr(value, "tocsr"):
        rows = value.tocsr()
        feed(digest, (rows.shape, rows.indptr, rows.indices, rows.data))
    elif hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        feed(digest, np.asarray(value))
    elif value is None or isinstance(value, bool | int | float | str | PurePath):
        digest.update(f"{value!r};".encode())
    else:
        digest.update(pickle.dumps(value, protocol=5))


def described(value: Any) -> Any:
    """What a call was given, without the values of arrays: these follow from the key of the run."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), *value.shape]
    if isinstance(value, bool | int | float | str | np.generic) or value is None:
        return str(value)
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    if is_dataclass(value) and not isinstance(value, Runner):  # threads change nothing
        return [described(getattr(value, field.name)) for field in fields(value)]
    return type(value).__name__


def _says(file: Path, facts: dict[str, Any]) -> bool:
    """Whether a file says these facts; they are written if it is not there."""
    if not file.exists():
        write_text_atomic(file, json.dumps(facts))
        return True
    what = "a file of a stopped run"
    written = read_json(file, what)
    if not isinstance(written, dict):
        raise FileFormatError(f"{file} must be {what}, got {type(written).__name__}.")
    return written == facts
