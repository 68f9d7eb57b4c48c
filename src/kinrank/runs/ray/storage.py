"""Where arrays lie while tasks read them: the object store, a shared folder, or behind a URL.

Each array is stored once, known by its identity, and let go of when it is collected. What a task
gets is a handle; ``open`` turns it into an array where the task runs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import ClusterError, InvalidInputError
from kinrank.optional import require
from kinrank.runs.ray.handles import (
    PURPOSE,
    Array,
    Fetched,
    Handle,
    Kind,
    Mapped,
    SharedArray,
    Sliced,
    Written,
)


class Storage:
    """Arrays by identity, each stored once; subclasses say where.

    sent : bytes stored so far
    """

    def __init__(self) -> None:
        self.session = secrets.token_hex(8)
        self.sent = 0
        self._known: dict[int, tuple[weakref.ref[Array], Handle]] = {}
        self._parts: dict[int, tuple[weakref.ref[Array], int, list[Handle]]] = {}

    @property
    def held(self) -> int:
        """Bytes of the arrays that are stored now."""
        whole = [held[0]() for held in list(self._known.values())]
        parts = [held[0]() for held in list(self._parts.values())]
        return sum(array.nbytes for array in (*whole, *parts) if array is not None)

    def keep(self, array: Array) -> Handle:
        """A handle of ``array``, which must not be changed from now on."""
        held = self._known.get(id(array))
        if held is not None and held[0]() is array:
            return held[1]
        handle = self._store(np.ascontiguousarray(array))
        self.sent += array.nbytes
        self._remember(array, handle)
        return handle

    def keep_parts(self, array: Array, size: int) -> list[Handle]:
        """Handles of ``array`` in parts of ``size`` rows, stored once like the whole."""
        held = self._parts.get(id(array))
        if held is not None and held[0]() is array and held[1] == size:
            return held[2]
        handles = self._cut(array, size)
        self._parts[id(array)] = (weakref.ref(array), size, handles)
        for handle in handles:
            weakref.finalize(array, _forget, weakref.ref(self), id(array), handle)
        return handles

    def _cut(self, array: Array, size: int) -> list[Handle]:
        self.sent += array.nbytes
        return [
            self._store(np.ascontiguousarray(array[low : low + size]))
            for low in range(0, len(array), size)
        ]

    def renew(self) -> None:
        """Store every array again when it is next asked for: a node was lost with its memory."""

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """An array to write into."""
        return np.empty(shape, dtype)

    def close(self) -> None:
        """Remove what was stored."""
        self._known.clear()
        self._parts.clear()

    def _store(self, array: Array) -> Handle:
        raise NotImplementedError

    def _remember(self, array: Array, handle: Handle) -> None:
        self._known[id(array)] = (weakref.ref(array), handle)
        weakref.finalize(array, _forget, weakref.ref(self), id(array), handle)

    def _drop(self, handle: Handle) -> None:
        """Remove what nobody holds any more."""


def _forget(storage: weakref.ref[Storage], key: int, handle: Handle) -> None:
    alive = storage()
    if alive is None:
        return
    held = alive._known.get(key)
    if held is not None and held[1] is handle:
        del alive._known[key]
    alive._parts.pop(key, None)
    alive._drop(handle)


class ObjectStore(Storage):
    """In the memory of the nodes: each that reads an array gets all of it, once."""

    def __init__(self, put: Callable[[Any], Any]) -> None:
        super().__init__()
        self._put = put

    def _store(self, array: Array) -> Handle:
        return SharedArray(self._put(array))

    def renew(self) -> None:
        self._known.clear()
        self._parts.clear()


class Folder(Storage):
    """In files that all nodes see; results are written there too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        try:
            if not os.fspath(path):
                raise ValueError("no name")
            self.folder = Path(path).resolve(strict=True) / f"kinrank-{self.session}"
            self.folder.mkdir(mode=0o700)
        except (OSError, ValueError, TypeError) as error:
            raise InvalidInputError(
                f"`storage` must be a folder that all machines see and may write to, or a URL, "
                f"got {path!r}: {error}"
            ) from error
        self._count = 0

    def new_file(self) -> Path:
        """A name that is not in use."""
        self._count += 1
        return self.folder / f"{self._count}.npy"

    def begin(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> tuple[Path, int]:
        """An npy file of that shape without contents, and where they begin."""
        path = self.new_file()
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        with path.open("wb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            offset = file.tell()
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            file.truncate(offset + size)
        return path, offset

    def join(self, parts: dict[Path, int], dtype: npt.DTypeLike) -> Array:
        """Files of so many bare numbers that tasks left, one behind the other, mapped."""
        size = sum(parts.values())
        for part, count in parts.items():
            there = part.stat().st_size if part.exists() else 0
            if there != count * np.dtype(dtype).itemsize and count:
                raise ClusterError(
                    f"The storage must keep what is put there, got {there} bytes in {part} instead "
                    f"of {count * np.dtype(dtype).itemsize}"
                )
        if size == 0:
            return np.empty(0, dtype)
        path, offset = self.begin((size,), dtype)
        with path.open("r+b") as whole:
            whole.seek(offset)
            for part in parts:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, whole, 1 << 20)
                part.unlink()
        return self.finished(path, Kind((size,), np.dtype(dtype).str))

    def finished(self, path: Path, kind: Kind) -> Array:
        """What tasks wrote to a file, mapped; it need not be stored again."""
        handle = Mapped(str(path), kind)
        array = handle.open()
        self._remember(array, handle)
        return array

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        shape = (shape,) if isinstance(shape, int) else shape
        if 0 in shape:
            return np.empty(shape, dtype)
        path, _ = self.begin(shape, dtype)
        mapped = np.load(path, mmap_mode="r+", allow_pickle=False)
        array = np.asarray(mapped)
        self._remember(array, Written(str(path), Kind.of(array), mapped))
        return array

    def keep(self, array: Array) -> Handle:
        handle = super().keep(array)
        return handle.flushed() if isinstance(handle, Written) else handle

    def _cut(self, array: Array, size: int) -> list[Handle]:
        whole = self.keep(array)
        return [Sliced(whole, low, low + size) for low in range(0, len(array), size)]

    def _store(self, array: Array) -> Handle:
        path = self.new_file()
        with path.open("xb") as file:  # nobody knows of it before it is closed
            np.lib.format.write_array(file, array, allow_pickle=False)
        return Mapped(str(path), Kind.of(array))

    def _drop(self, handle: Handle) -> None:
        if isinstance(handle, Mapped):
            Path(handle.path).unlink(missing_ok=True)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Remote(Storage):
    """Behind a URL that fsspec knows; results come back by the object store."""

    def __init__(self, url: str) -> None:
        super().__init__()
        fsspec = require("fsspec", extra="ray", purpose=PURPOSE)
        if not all(part.strip("/") for part in url.partition("://")[::2]):
            raise InvalidInputError(f"`storage` must say a place, as scheme://place, got {url!r}.")
        self.url = f"{url.rstrip('/')}/kinrank-{self.session}"
        self._count = 0
        try:
            self._files, self._path = fsspec.core.url_to_fs(self.url)
            self._files.makedirs(self._path, exist_ok=True)
        except (ValueError, ImportError, OSError) as error:
            raise InvalidInputError(
                f"`storage` must be a folder or a URL that fsspec can write to, got {url!r}: "
                f"{error}"
            ) from error

    def _store(self, array: Array) -> Handle:
        self._count += 1
        name = f"{self._count}.npy"
        with self._files.open(f"{self._path}/{name}", "wb") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        return Fetched(f"{self.url}/{name}", self.session, Kind.of(array))

    def _drop(self, handle: Handle) -> None:
        assert isinstance(handle, Fetched)
        with suppress(OSError):  # nobody is there to be told
            self._files.rm(f"{self._path}/{handle.url.rpartition('/')[2]}")

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            self._files.rm(self._path, recursive=True)


def make_storage(where: str | os.PathLike[str] | None, put: Callable[[Any], Any]) -> Storage:
    """None is the object store; a folder; or a URL."""
    if where is None:
        return ObjectStore(put)
    if isinstance(where, str) and "://" in where:
        return Remote(where)
    return Folder(where)
