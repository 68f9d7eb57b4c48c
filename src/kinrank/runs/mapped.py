"""Arrays in files, and a watch that keeps their pages from filling the memory.

Pages of a mapped file count as the process's memory as long as it has looked at them. Dropped,
they come back from the file (mostly still in the system's cache) when they are looked at again.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import weakref
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.errors import FileFormatError
from kinrank.parallel import Array

_PAUSE = 0.02  # seconds between two looks at the memory
_PIECE = 1 << 24  # bytes that are written at a time
_TRIGGER = 0.88  # share of the budget at which pages are dropped


def resident_bytes() -> int | None:
    """The memory of this process now; None where it is not known."""
    try:
        with Path("/proc/self/statm").open("rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError):
        return None


class FilePlace(NamedTuple):
    """Where the values of an array begin in a file."""

    path: Path
    offset: int


class Memory:
    """The mapped arrays of a run; above the budget their pages are dropped.

    budget : bytes that this process may occupy; None watches nothing
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self._maps: list[weakref.ref[mmap.mmap]] = []
        self._paths: weakref.WeakKeyDictionary[mmap.mmap, Path] = weakref.WeakKeyDictionary()
        self._unwritten: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Memory:
        if self.budget is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._thread = threading.Thread(target=self._watch, name="kinrank-memory", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def mapped(
        self, file: Path, shape: tuple[int, ...], dtype: npt.DTypeLike, *, write: bool = False
    ) -> Array:
        """A file of so many values, as an array; write : one whose changes go to the file.

        One for reading must not be written to: pages that are dropped forget it. To numba it looks
        writable, as arrays in memory do: kernels are compiled for these once.
        """
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        with file.open("r+b") as stream:
            if write:
                stream.truncate(size)
                _reserve(stream, size)
            elif os.fstat(stream.fileno()).st_size < size:
                raise FileFormatError(f"{file} must have {size:,} bytes: it was cut off.")
            access = mmap.ACCESS_WRITE if write else mmap.ACCESS_COPY
            mapped = mmap.mmap(stream.fileno(), size, access=access)
        with self._lock:
            self._maps.append(weakref.ref(mapped))
            self._paths[mapped] = file
            if write:
                self._unwritten.add(mapped)
        array: Array = np.frombuffer(mapped, dtype).reshape(shape)
        return array

    def place(self, array: Array) -> FilePlace | None:
        """Where the values of an array are in one of the files, for others to read; None if not.

        They are in the file then: what was written to the array must be all that ever will be.
        """
        mapped = mapping_of(array)
        if mapped is None or not array.flags.c_contiguous:
            return None
        with self._lock:
            path = self._paths.get(mapped)
            is_unwritten = mapped in self._unwritten
            self._unwritten.discard(mapped)
        if path is None:
            return None
        if is_unwritten:
            mapped.flush()
        begin = np.frombuffer(mapped, np.uint8).ctypes.data
        return FilePlace(path, array.ctypes.data - begin)

    def drop(self) -> None:
        """Drop the pages of all mapped arrays."""
        with self._lock:
            alive = [(ref, ref()) for ref in self._maps]
            self._maps = [ref for ref, mapped in alive if mapped is not None]
        for _, mapped in alive:
            if mapped is not None:
                mapped.madvise(mmap.MADV_DONTNEED)

    def _watch(self) -> None:
        assert self.budget is not None
        pause = _PAUSE
        limit = _TRIGGER * self.budget
        while not self._over.wait(pause):
            used = resident_bytes()
            pause = _PAUSE
            if used is None:
                return
            if used > limit:
                self.drop()
                if (resident_bytes() or 0) > 0.8 * limit:
                    # It belongs to no file: to drop again at once would only slow things.
                    pause = 5 * _PAUSE


def mapping_of(array: Array) -> mmap.mmap | None:
    """The mapped file that an array is a view of; None for one in memory."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None


def _reserve(stream: IO[bytes], size: int) -> None:
    """Take the room on the disk now: if it ran out later, a write to the map would be a crash."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(stream.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    for low in range(0, size, _PIECE):  # bytes that were there are written again
        stream.seek(low)
        piece = stream.read(min(_PIECE, size - low))
        stream.seek(low)
        stream.write(piece)
    stream.flush()
