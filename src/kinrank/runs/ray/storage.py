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

from kinrank.errors import InvalidInputError
from kinrank.optional import require
from kinrank.parallel import Array
from kinrank.runs.ray.handles import (
    PURPOSE,
    FetchedFile,
    Handle,
    MappedFile,
    RowRange,
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
        # By identity and the rows of a shard, None for the whole.
        self._known: dict[tuple[int, int | None], tuple[weakref.ref[Array], list[Handle]]] = {}

    def keep(self, array: Array) -> Handle:
        """A handle of ``array``, which must not be changed from now on."""
        return self.keep_shards(array, None)[0]

    def keep_shards(self, array: Array, size: int | None) -> list[Handle]:
        """Handles of ``array`` in shards of ``size`` rows (None: all), stored once."""
        ref, handles = self._known.get((id(array), size), (None, []))
        if ref is not None and ref() is array:
            return handles
        handles = [self._sent(array)] if size is None else self._shards(array, size)
        self._remember(array, handles, size)
        return handles

    def renew(self) -> None:
        """Store every array again when it is next asked for: a node was lost with its memory."""
        if self._put is not None:  # files outlive a node
            self._known.clear()

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        return np.empty(shape, dtype)

    def target(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Target:
        return Target(shape, np.dtype(dtype).str)

    def filled(self, target: Target, array: Array | None) -> Array:
        """The array of a target, all blocks being there; ``array`` if it has no file."""
        if array is not None:
            return array
        mapped = target.handle.open()
        self._remember(mapped, [target.handle])  # it need not be stored again
        return mapped

    def entries_prefix(self) -> str | None:
        """What files begin with that tasks leave entries of rows in; None if they send them."""
        return None

    def close(self) -> None:
        self._known.clear()

    def _shards(self, array: Array, size: int) -> list[Handle]:
        return [self._sent(array[low : low + size]) for low in range(0, len(array), size)]

    def _sent(self, array: Array) -> Handle:
        self.sent += array.nbytes
        return self._store(np.ascontiguousarray(array))

    def _store(self, array: Array) -> Handle:
        assert self._put is not None
        return SharedArray(self._put(array))

    def drop(self, handle: Handle) -> None:
        """Remove what nobody holds any more."""

    def _remember(self, array: Array, handles: list[Handle], size: int | None = None) -> None:
        key = (id(array), size)
        self._known[key] = (weakref.ref(array), handles)
        weakref.finalize(array, _forget, weakref.ref(self), key, handles)


def _forget(ref: weakref.ref[Storage], key: tuple[int, int | None], handles: list[Handle]) -> None:
    storage = ref()
    if storage is None:
        return
    if key in storage._known and storage._known[key][1] is handles:
        del storage._known[key]
    for handle in handles:
        storage.drop(handle)


class FolderStorage(Storage):
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

    def keep(self, array: Array) -> Handle:
        if isinstance(array.base, np.memmap):  # what was written to it may not be in the file yet
            array.base.flush()
        return super().keep(array)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        shape = (shape,) if isinstance(shape, int) else shape
        if 0 in shape:
            return np.empty(shape, dtype)
        target = self.target(shape, dtype)
        array = np.asarray(np.load(str(target.file), mmap_mode="r+", allow_pickle=False))
        self._remember(array, [target.handle])
        return array

    def target(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Target:
        if 0 in shape:
            return super().target(shape, dtype)
        path = str(self._new_file())
        mapped = np.lib.format.open_memmap(path, "w+", dtype, shape)
        return Target(shape, mapped.dtype.str, path, mapped.offset)

    def entries_prefix(self) -> str:
        return str(self._new_file())

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _new_file(self) -> Path:
        self._count += 1
        return self.folder / f"{self._count}.npy"

    def _shards(self, array: Array, size: int) -> list[Handle]:
        whole = self.keep(array)
        return [RowRange(whole, low, low + size) for low in range(0, len(array), size)]

    def _store(self, array: Array) -> Handle:
        return new_file(str(self._new_file()), array)

    def drop(self, handle: Handle) -> None:
        if isinstance(handle, MappedFile):
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


def make_storage(place: str | os.PathLike[str] | None, put: Callable[[Any], Any]) -> Storage:
    """None is the object store; a folder; or a URL."""
    if place is None:
        return Storage(put)
    if isinstance(place, str) and "://" in place:
        return UrlStorage(place)
    return FolderStorage(place)
