"""Where arrays lie while tasks read them: the object store, a shared folder, or behind a URL.

Each array is stored once, known by its identity, and let go of when it is collected. What a task
gets is a handle; ``open`` turns it into an array where the task runs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.optional import require
from kinrank.parallel import Array
from kinrank.runs.mapped import Memory
from kinrank.runs.ray.handles import (
    PURPOSE,
    FetchedFile,
    FilePart,
    Handle,
    MappedFile,
    SharedArray,
    Target,
    new_file,
)


class Storage:
    """Arrays by identity, each stored once: in the memory of the nodes, or where a subclass says.

    put : Ray's, which stores an object; each node that reads an array gets all of it, once
    sent : bytes stored so far
    """

    def __init__(self, put: Callable[[Any], Any] | None = None) -> None:
        self.session = secrets.token_hex(8)
        self.sent = self._count = 0
        self._put = put
        self._known: dict[int, tuple[weakref.ref[Array], Handle]] = {}  # by identity

    def keep(self, array: Array) -> Handle:
        """A handle of ``array``, which must not be changed from now on."""
        ref, handle = self._known.get(id(array), (None, None))
        if ref is not None and ref() is array and handle is not None:
            return handle
        self.sent += array.nbytes
        handle = self._store(np.ascontiguousarray(array))
        self._known[id(array)] = (weakref.ref(array), handle)
        weakref.finalize(array, _forget, weakref.ref(self), id(array), handle)
        return handle

    def target(self, array: Array) -> Target:
        """Where tasks put the rows that they own of ``array``."""
        return Target(array.shape, array.dtype.str)

    def renew(self) -> None:
        """Store every array again when it is next asked for: a node was lost with its memory."""
        if self._put is not None:  # files outlive a node
            self._known.clear()

    def close(self) -> None:
        """Remove what was stored."""
        self._known.clear()

    def drop(self, handle: Handle) -> None:
        """Remove what nobody holds any more."""

    def _store(self, array: Array) -> Handle:
        assert self._put is not None
        return SharedArray(self._put(array))


def _forget(ref: weakref.ref[Storage], key: int, handle: Handle) -> None:
    storage = ref()
    if storage is None:
        return
    if key in storage._known and storage._known[key][1] is handle:
        del storage._known[key]
    storage.drop(handle)


class FolderStorage(Storage):
    """In files that all nodes see.

    folder : where they are; one that is not there is made, and removed in the end
    memory : of a run whose arrays are files that all nodes see already; None for no such run
    """

    def __init__(self, folder: Path, memory: Memory | None = None) -> None:
        super().__init__()
        self.folder = folder
        self._memory = memory

    def keep(self, array: Array) -> Handle:
        place = None if self._memory is None else self._memory.place(array)
        if place is None:
            return super().keep(array)
        return FilePart(str(place.path), place.offset, array.shape, array.dtype.str)

    def target(self, array: Array) -> Target:
        place = None if self._memory is None else self._memory.place(array)
        if place is None:
            return super().target(array)
        return Target(array.shape, array.dtype.str, str(place.path), place.offset)

    def close(self) -> None:
        super().close()
        if self._memory is None:  # else the run removes its files
            shutil.rmtree(self.folder, ignore_errors=True)

    def _store(self, array: Array) -> Handle:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._count += 1
        return new_file(str(self.folder / f"scratch-{self.session}-{self._count}.npy"), array)

    def drop(self, handle: Handle) -> None:
        assert isinstance(handle, MappedFile)
        Path(handle.path).unlink(missing_ok=True)


class UrlStorage(Storage):
    """Behind a URL that fsspec knows; results come back by the object store."""

    def __init__(self, url: str) -> None:
        super().__init__()
        fsspec = require("fsspec", extra="ray", purpose=PURPOSE)
        if not all(part.strip("/") for part in url.partition("://")[::2]):
            raise InvalidInputError(f"`storage` must say a place, as scheme://place, got {url!r}.")
        self.url = f"{url.rstrip('/')}/kinrank-{self.session}"
        try:
            self._files, self._path = fsspec.core.url_to_fs(self.url)
            self._files.makedirs(self._path, exist_ok=True)
        except (ValueError, ImportError, OSError) as error:
            raise InvalidInputError(
                f"`storage` must be a folder or a URL that fsspec can write to, got {url!r}: "
                f"{error}"
            ) from error

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            self._files.rm(self._path, recursive=True)

    def _store(self, array: Array) -> Handle:
        self._count += 1
        name = f"{self._count}.npy"
        with self._files.open(f"{self._path}/{name}", "wb") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        return FetchedFile(f"{self.url}/{name}", self.session, array.shape, array.dtype.str)

    def drop(self, handle: Handle) -> None:
        assert isinstance(handle, FetchedFile)
        with suppress(OSError):  # nobody is there to be told
            self._files.rm(f"{self._path}/{handle.url.rpartition('/')[2]}")


def checked_folder(place: str | os.PathLike[str]) -> Path:
    """The folder that users gave as ``storage``, when it can be written to."""
    try:
        if not os.fspath(place):
            raise ValueError("no name")
        folder = Path(place).resolve(strict=True)
        Path(tempfile.mkdtemp(prefix="kinrank-", dir=folder)).rmdir()
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInputError(
            f"`storage` must be a folder that all machines see and may write to, or a URL, "
            f"got {place!r}: {error}"
        ) from error
    return folder


def make_storage(place: str | os.PathLike[str] | None, put: Callable[[Any], Any]) -> Storage:
    """None is the object store; a folder; or a URL."""
    if place is None:
        return Storage(put)
    if isinstance(place, str) and "://" in place:
        return UrlStorage(place)
    return FolderStorage(checked_folder(place) / f"kinrank-{secrets.token_hex(8)}")
