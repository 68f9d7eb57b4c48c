"""What runs on the workers: blocks of a stage, by the name of its kernel and handles of arrays."""

from __future__ import annotations

import importlib
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank._version import __version__
from kinrank.errors import InvalidInputError
from kinrank.parallel import Array
from kinrank.runs.journal import check_sum
from kinrank.runs.ray.handles import Handle, Target, local_folder
from kinrank.runs.records import replaced

if TYPE_CHECKING:
    from kinrank.runs.ray.storage import Storage

INLINE = 1 << 16  # bytes up to which an array travels with the job
LOOKED_SECONDS = 1.0  # up to which a block is run again to see what it reads


@dataclass(frozen=True)
class BlockJob:
    """A kernel by name, and the arguments of every block with handles in the place of arrays."""

    module: str
    name: str
    args: Any

    @classmethod
    def of(cls, kernel: Callable[..., Any], args: tuple[Any, ...], storage: Storage) -> BlockJob:
        """Store the arrays of ``args``, and those of dataclasses in it."""
        name = getattr(kernel, "__qualname__", f"<{type(kernel).__name__}>")
        if "<" in name:
            raise InvalidInputError(f"`kernel` must be importable, got {kernel.__module__}.{name}.")

        def packed(value: Any) -> Any:
            if _is_large(value):
                return storage.keep(value)
            return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value

        return cls(kernel.__module__, name, replaced(args, packed, Handle))

    def open(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The kernel and its arguments, where a task runs."""
        kernel: Any = importlib.import_module(self.module)
        for name in self.name.split("."):
            kernel = getattr(kernel, name)
        return kernel, replaced(self.args, _opened, Handle)


def _opened(value: Any) -> Any:
    if isinstance(value, Handle):
        return value.open()
    read_only = isinstance(value, np.ndarray) and not value.flags.writeable
    return value.copy() if read_only else value


def _is_large(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.nbytes > INLINE


@dataclass(frozen=True)
class Answer:
    """What a task sends back.

    arrays : of ``rows``, lengths and entries; of ``fill``, the rows that it did not write to files
    check : of ``fill``, the sum over all its rows
    read, whole : bytes of its arguments in pages that it touched, and of all; 0 if nobody looked
    written : bytes that the task put into files instead
    seconds : processor time of the block
    """

    arrays: tuple[Array, ...]
    check: int = 0
    read: int = 0
    whole: int = 0
    written: int = 0
    seconds: float = 0.0


def rows_block(job: BlockJob, low: int, high: int, look: bool) -> Answer:
    """(lengths, indices[, data]) of the rows low to high."""
    begun = time.process_time()
    kernel, args = job.open()
    arrays = tuple(kernel(low, high, *args))
    seconds = time.process_time() - begun
    look = look and seconds < LOOKED_SECONDS
    read, whole = _looked(look, kernel, (low, high, *args), args)
    return Answer(arrays, read=read, whole=whole, seconds=seconds)


def fill_block(
    job: BlockJob, low: int, high: int, look: bool, targets: tuple[tuple[Target, slice], ...]
) -> Answer:
    """The rows low to high of the arrays that a kernel fills, and what they own of each."""
    begun = time.process_time()
    kernel, args = job.open()
    # Kernels write at the places of the whole array; pages that nobody touches cost nothing.
    outs = tuple(np.empty(target.shape, target.dtype) for target, _ in targets)
    kernel(low, high, *args, *outs)
    blocks = [out[owned] for (_, owned), out in zip(targets, outs, strict=True)]
    check = check_sum(blocks)
    sent = []
    written = 0
    for (target, owned), block in zip(targets, blocks, strict=True):
        if target.file is None:
            sent.append(block.copy())
            continue
        # Not through a mapping: its pages may belong to two blocks, and to two machines. Others
        # see what was written once the file is closed, on network file systems too.
        with Path(target.file).open("r+b") as file:
            file.seek(target.offset + owned.start * block.strides[0])
            file.write(block.tobytes())
        written += block.nbytes
    seconds = time.process_time() - begun
    look = look and seconds < LOOKED_SECONDS
    read, whole = _looked(look, kernel, (low, high, *args, *outs), args)
    return Answer(tuple(sent), check, read, whole, written, seconds)


def _looked(look: bool, kernel: Any, call: tuple[Any, ...], args: Any) -> tuple[int, int]:
    """Run a kernel again, now that its pages are mapped: bytes that it touches, and of all.

    The processor marks pages as they are used (Linux); the marks are taken back first. Memory that
    is mapped together with the arrays is counted with them; those in the store lie apart.
    """
    if not look:
        return 0, 0
    arrays: list[Array] = []
    replaced(args, lambda value: arrays.append(value) if _is_large(value) else None)
    try:
        Path("/proc/self/clear_refs").write_text("1", encoding="ascii")
    except OSError:  # the system does not tell
        return 0, 0
    kernel(*call)
    return _referenced([array.ctypes.data for array in arrays]), sum(a.nbytes for a in arrays)


def _referenced(addresses: list[int]) -> int:
    """Bytes in marked pages of the mappings at some addresses."""
    total = 0
    wanted = False
    with Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            head = line.split(" ", 1)[0]
            if head == "Referenced:":
                total += int(line.split()[1]) * 1024 if wanted else 0
            elif not head.endswith(":"):
                begin, _, end = head.partition("-")
                wanted = any(int(begin, 16) <= at < int(end, 16) for at in addresses)
    return total


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
