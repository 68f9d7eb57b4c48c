"""What tasks are given instead of arrays: ``open`` makes an array of it where the task runs."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import ClusterError
from kinrank.optional import require

Array: TypeAlias = npt.NDArray[Any]

PURPOSE = "Work on a cluster"


class Handle(Protocol):
    """What a task is given instead of an array."""

    def open(self) -> Array:
        """The array; not to be written into."""


@dataclass(frozen=True)
class SharedArray:
    """An array in Ray's object store, read where it lies."""

    ref: Any

    def open(self) -> Array:
        """See Handle."""
        ray = require("ray", extra="ray", purpose=PURPOSE)
        return np.asarray(_AsWritable(ray.get(self.ref)))


class _AsWritable:
    """An array of the object store without its mark of being read-only.

    Numba compiles a kernel anew for arrays with that mark; no kernel writes into what it reads.
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        facts = dict(array.__array_interface__)
        self.__array_interface__ = {**facts, "data": (facts["data"][0], False)}


@dataclass(frozen=True)
class Kind:
    """What an array is besides its numbers."""

    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, array: Array) -> Kind:
        """That of an array."""
        return cls(array.shape, array.dtype.str)


@dataclass(frozen=True)
class Mapped:
    """A file on storage that every node sees under the same path; only what is read is fetched."""

    path: str
    kind: Kind

    def open(self) -> Array:
        """See Handle."""
        try:
            # Copy on write: kernels see a plain array and nothing can reach the file.
            array = np.asarray(np.load(self.path, mmap_mode="c", allow_pickle=False))
        except Exception as error:  # a broken header raises almost anything
            raise ClusterError(
                f"The storage must keep what is put there, got for {self.path}: {error}"
            ) from error
        if Kind.of(array) != self.kind:  # kernels check nothing
            raise ClusterError(
                f"The storage must keep what is put there, got for {self.path}: {array.dtype} "
                f"{array.shape} instead of {np.dtype(self.kind.dtype)} {self.kind.shape}"
            )
        return array


@dataclass(frozen=True)
class Fetched:
    """A file behind an fsspec URL, copied once to each node that reads it."""

    url: str
    session: str
    kind: Kind

    def open(self) -> Array:
        """See Handle."""
        folder = local_folder(self.session)
        folder.mkdir(mode=0o700, exist_ok=True)
        copy = folder / self.url.rpartition("/")[2]
        if not copy.exists():
            self._fetch(copy)
        return Mapped(str(copy), self.kind).open()

    def _fetch(self, copy: Path) -> None:
        import fcntl

        with copy.with_suffix(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the other tasks of the node wait for the one copy
            if copy.exists():
                return
            fsspec = require("fsspec", extra="ray", purpose=PURPOSE)
            begun = copy.with_suffix(".part")
            with fsspec.open(self.url, "rb") as source, begun.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            begun.replace(copy)


@dataclass(frozen=True)
class Sliced:
    """Some rows of an array."""

    whole: Handle
    low: int
    high: int

    def open(self) -> Array:
        """See Handle."""
        return self.whole.open()[self.low : self.high]


@dataclass(frozen=True)
class Written(Mapped):
    """A file that this process writes into."""

    memory: Any

    def flushed(self) -> Mapped:
        """What others may read from now on."""
        self.memory.flush()
        return Mapped(self.path, self.kind)


def local_folder(session: str) -> Path:
    """Where a node keeps its copies of one session."""
    return Path(tempfile.gettempdir()) / f"kinrank-{session}"
