"""What tasks are given instead of arrays: ``open`` makes an array of it where the task runs."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from kinrank.errors import ClusterError
from kinrank.io import wait_for_lock
from kinrank.optional import require
from kinrank.parallel import Array

PURPOSE = "Work on a cluster"
CHANGED = "The storage must keep what is put there, got"
_COPYING = 3600.0  # seconds that a task waits for another to copy a file


class Handle:
    """What a task is given instead of an array."""

    def open(self) -> Array:
        """The array; not to be written into."""
        raise NotImplementedError


@dataclass(frozen=True)
class SharedArray(Handle):
    """An array in Ray's object store, read where it lies."""

    ref: Any

    def open(self) -> Array:
        array = require("ray", extra="ray", purpose=PURPOSE).get(self.ref)
        # Without its mark of being read-only: numba compiles a kernel anew for arrays with it, and
        # no kernel writes into what it reads.
        interface = array.__array_interface__
        unmarked = {**interface, "data": (interface["data"][0], False)}
        return np.asarray(SimpleNamespace(__array_interface__=unmarked, array=array))


@dataclass(frozen=True)
class MappedFile(Handle):
    """A file on storage that every node sees under the same path; only what is read is fetched."""

    path: str
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> Array:
        try:
            # Copy on write: kernels see a plain array and nothing can reach the file.
            array = np.asarray(np.load(self.path, mmap_mode="c", allow_pickle=False))
        except Exception as error:  # a broken header raises almost anything
            raise ClusterError(f"{CHANGED} for {self.path}: {error}") from error
        if (array.shape, array.dtype.str) != (self.shape, self.dtype):  # kernels check nothing
            raise ClusterError(
                f"{CHANGED} for {self.path}: {array.dtype} {array.shape} instead of "
                f"{np.dtype(self.dtype)} {self.shape}"
            )
        return array


def new_file(path: str, array: Array) -> MappedFile:
    """An array in a file that nobody sees before it is whole."""
    # Not into the file itself: a worker that was given up may write it again while it is mapped.
    begun = Path(f"{path}.{secrets.token_hex(4)}")
    with begun.open("xb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
    begun.replace(path)
    return MappedFile(path, array.shape, array.dtype.str)


@dataclass(frozen=True)
class FetchedFile(Handle):
    """A file behind an fsspec URL, copied once to each node that reads it."""

    url: str
    session: str
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> Array:
        folder = local_folder(self.session)
        folder.mkdir(mode=0o700, exist_ok=True)
        copy = folder / self.url.rpartition("/")[2]
        with copy.with_suffix(".lock").open("ab") as lock:
            wait_for_lock(lock, _COPYING)  # the other tasks of the node wait for the one copy
            if not copy.exists():
                fsspec = require("fsspec", extra="ray", purpose=PURPOSE)
                begun = copy.with_suffix(".part")
                with fsspec.open(self.url, "rb") as source, begun.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                begun.replace(copy)
        return MappedFile(str(copy), self.shape, self.dtype).open()


@dataclass(frozen=True)
class FilePart(Handle):
    """Values in a file of a run, which every node sees under the same path."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> Array:
        try:
            return np.asarray(np.memmap(self.path, self.dtype, "c", self.offset, self.shape))
        except (OSError, ValueError) as error:
            raise ClusterError(f"{CHANGED} for {self.path}: {error}") from error


@dataclass(frozen=True)
class Target:
    """An array that blocks fill: tasks write to its file from ``offset`` on, or send their rows."""

    shape: tuple[int, ...]
    dtype: str
    file: str | None = None
    offset: int = 0


def local_folder(session: str) -> Path:
    """Where a node keeps its copies of one session."""
    return Path(tempfile.gettempdir()) / f"kinrank-{session}"
