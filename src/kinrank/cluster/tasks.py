"""What runs on the workers."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank.cluster import pages
from kinrank.cluster.job import Job, arrays_in
from kinrank.cluster.storage import Array, local_folder


@dataclass(frozen=True)
class Part:
    """What one block owns of an array that is being filled.

    shape, dtype : of the whole array; begin, end : the block's part along the first axis
    file, offset : where the part is written; without a file it is sent back
    """

    shape: tuple[int, ...]
    dtype: str
    begin: int
    end: int
    file: str | None = None
    offset: int = 0

    def write(self, array: Array) -> None:
        """Put the block's part into its place in the file."""
        assert self.file is not None
        row = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        # Not through a mapping: its pages may belong to two blocks, and to two machines.
        with Path(self.file).open("r+b") as file:
            file.seek(self.offset + self.begin * row)
            file.write(array[self.begin : self.end].tobytes())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True)
class Answer:
    """What a task sends back: its arrays, and the bytes that it read of its arguments.

    read, whole : bytes of the pages that were touched, and of all stored arguments; 0 if nobody
        looked
    """

    arrays: tuple[Array, ...]
    read: int = 0
    whole: int = 0


def rows_block(job: Job, low: int, high: int, look: bool) -> Answer:
    """(lengths, indices[, data]) of the rows low to high."""
    kernel, args = job.open()
    arrays = tuple(kernel(low, high, *args))
    return Answer(arrays, *_looked(look, kernel, (low, high, *args)))


def fill_block(job: Job, low: int, high: int, look: bool, parts: tuple[Part, ...]) -> Answer:
    """The rows low to high of the arrays that a kernel fills."""
    kernel, args = job.open()
    # Kernels write at the places of the whole array; pages that nobody touches cost nothing.
    outs = tuple(np.empty(part.shape, part.dtype) for part in parts)
    kernel(low, high, *args, *outs)
    read = _looked(look, kernel, (low, high, *args, *outs), args)
    kept = []
    for part, out in zip(parts, outs, strict=True):
        if part.file is None:
            kept.append(out[part.begin : part.end].copy())
        else:
            part.write(out)
    return Answer(tuple(kept), *read)


def _looked(look: bool, kernel: Any, call: tuple[Any, ...], args: Any = None) -> tuple[int, int]:
    """Run a kernel again, now that its pages are mapped, and count those that it touches."""
    if not look:
        return 0, 0
    arrays = [a for a in arrays_in(call if args is None else args) if a.nbytes > pages.SMALL]
    with pages.touched(arrays) as count:
        kernel(*call)
    return count.bytes, sum(array.nbytes for array in arrays)


def greet() -> dict[str, str]:
    """Who a worker is: what decides over the bits of a result."""
    import llvmlite.binding
    import numba

    return {
        "kinrank": kinrank.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "processor": str(llvmlite.binding.get_host_cpu_name()),
    }


def clear(session: str) -> None:
    """Remove a node's copies of what was stored behind a URL."""
    shutil.rmtree(local_folder(session), ignore_errors=True)
