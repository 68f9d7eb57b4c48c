"""What runs on the workers."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinrank._version import __version__
from kinrank.runs.ray import pages
from kinrank.runs.ray.handles import Array, local_folder
from kinrank.runs.ray.job import Job, arrays_in


@dataclass(frozen=True)
class BlockPart:
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

    def write(self, own: Array) -> None:
        """Put the block's part into its place in the file."""
        assert self.file is not None
        row = own.itemsize * int(np.prod(own.shape[1:], dtype=np.int64))
        # Not through a mapping: its pages may belong to two blocks, and to two machines. Others
        # see what was written once the file is closed, on network file systems too.
        with Path(self.file).open("r+b") as file:
            file.seek(self.offset + self.begin * row)
            file.write(own.tobytes())


@dataclass(frozen=True)
class Answer:
    """What a task sends back: its arrays, and the bytes that it read of its arguments.

    read, whole : bytes of the pages that were touched, and of all stored arguments; 0 if nobody
        looked
    written : bytes that the task put into files instead
    """

    arrays: tuple[Array, ...]
    read: int = 0
    whole: int = 0
    written: int = 0


def rows_block(job: Job, low: int, high: int, look: bool, stage: str | None) -> Answer:
    """(lengths, indices[, data]) of the rows low to high; with ``stage`` only the lengths.

    stage : what the names of files begin with that the rest is left in
    """
    kernel, args = job.open()
    arrays = tuple(kernel(low, high, *args))
    read = _looked(look, kernel, (low, high, *args))
    if stage is None:
        return Answer(arrays, *read)
    for at, array in enumerate(arrays[1:]):
        array.tofile(part_file(stage, low, at))
    dtypes = tuple(np.empty(0, array.dtype) for array in arrays[1:])
    return Answer((arrays[0], *dtypes), *read, sum(array.nbytes for array in arrays[1:]))


def part_file(stage: str, low: int, at: int) -> Path:
    """Where the block from row ``low`` on leaves its indices (0) or data (1)."""
    return Path(f"{stage}.{low}.{at}.part")


def fill_block(job: Job, low: int, high: int, look: bool, parts: tuple[BlockPart, ...]) -> Answer:
    """The rows low to high of the arrays that a kernel fills."""
    kernel, args = job.open()
    # Kernels write at the places of the whole array; pages that nobody touches cost nothing.
    outs = tuple(np.empty(part.shape, part.dtype) for part in parts)
    kernel(low, high, *args, *outs)
    read = _looked(look, kernel, (low, high, *args, *outs), args)
    kept, written = [], 0
    for part, out in zip(parts, outs, strict=True):
        own = out[part.begin : part.end]
        if part.file is None:
            kept.append(own.copy())
        else:
            part.write(own)
            written += own.nbytes
    return Answer(tuple(kept), *read, written)


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
        "kinrank": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "processor": str(llvmlite.binding.get_host_cpu_name()),
    }


def clear(session: str) -> None:
    """Remove a node's copies of what was stored behind a URL."""
    shutil.rmtree(local_folder(session), ignore_errors=True)
