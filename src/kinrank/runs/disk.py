"""Runs in files: what is finished survives the process, and memory stays below a budget."""

from __future__ import annotations

import errno
import hashlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank._version import __version__
from kinrank.errors import InvalidInputError, UnwritableError
from kinrank.io import READ_ONLY, PathLike, replacing, temporary_folder
from kinrank.parallel import Args, Array, Kernel, Out, Range, Runner
from kinrank.runs.execution import Execution, RankingMethod
from kinrank.runs.journal import BlockEntry, Call, Journal, check_sum, described
from kinrank.runs.mapped import Memory
from kinrank.runs.plan import make_plan, parse_bytes
from kinrank.search.tiles import BLOCK
from kinrank.types import SparseRows
from kinrank.validation import as_matrix, check_path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PIECE = 1 << 24  # bytes of the vectors that are read at a time


@dataclass(frozen=True)
class ArrayFiles:
    """Arrays that are files of a journal's folder."""

    journal: Journal
    memory: Memory

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """See Arrays."""
        file = self.journal.scratch()
        shape = shape if isinstance(shape, tuple) else (shape,)
        array = self.memory.mapped(file, shape, dtype, write=True)
        if sys.platform != "win32":  # where a file that is mapped cannot be removed
            file.unlink()  # it lives as long as the array
        return array

    def kept(self, name: str, make: Callable[[], Array]) -> Array:
        """See Arrays."""
        file = self.journal.kept(name)
        if file.exists():
            check, _, content = file.read_bytes().partition(b"\n")
            if check == b"%d" % zlib.crc32(content):
                loaded: Array = np.load(BytesIO(content), allow_pickle=False)
                return loaded
        array = make()
        stream = BytesIO()
        np.save(stream, array, allow_pickle=False)
        content = stream.getvalue()
        with replacing(file) as whole:
            whole.write(b"%d\n" % zlib.crc32(content) + content)
        return array


@dataclass(frozen=True)
class DiskRunner(Runner):
    """A runner whose arrays are files of a journal's folder.

    A call is known by its number: methods call their stages in one order. Results are the same, bit
    for bit, as those of a Runner, whatever was finished before.
    """

    journal: Journal = field(kw_only=True)
    memory: Memory = field(kw_only=True)

    def fill(self, name: str, kernel: Kernel, args: Args, n: int, *outs: Out) -> Any:
        shapes = [(out.shape(n), np.dtype(out.dtype)) for out in outs]
        call = self._call(name, kernel, args, n, shapes)
        files = [(call.file(at), *shape) for at, shape in enumerate(shapes)]
        arrays = [self.memory.mapped(*file, write=True) for file in files]
        call.checked(lambda block, _: _sum_of_rows(arrays, outs, block.low, block.high))
        work = (kernel, args, arrays, outs)
        with self._missing_blocks(call, name, n, _fill_block, work) as blocks:
            for (low, high), check in blocks:
                call.finished(BlockEntry(low, high, 0, check))
        filled = tuple(self.memory.mapped(*file) for file in files)
        return filled if len(filled) > 1 else filled[0]

    def rows(self, name: str, kernel: Kernel, args: Args, n: int, n_columns: int) -> SparseRows:
        call = self._call(name, kernel, args, n, [])
        lengths = self.memory.mapped(call.file(0), (n,), np.int64, write=True)
        entry_files = (call.file(1), call.file(2))
        self._check_rows(call, lengths, entry_files)
        with ExitStack() as stack:
            streams = [stack.enter_context(_cut_off(file, 4 * call.end)) for file in entry_files]
            blocks = stack.enter_context(self._missing_blocks(call, name, n, kernel, args))
            for (low, high), block in blocks:
                lengths[low:high] = block[0]
                for stream, entries in zip(streams, block[1:], strict=False):
                    stream.write(np.ascontiguousarray(entries).data)
                    stream.flush()
                end = call.end + len(block[1])
                call.finished(BlockEntry(low, high, end, check_sum(block)))
        indptr = ArrayFiles(self.journal, self.memory).empty(n + 1, np.int64)
        indptr[0] = 0
        np.cumsum(lengths, out=indptr[1:])
        nnz = (int(indptr[-1]),)
        indices = self.memory.mapped(entry_files[0], nnz, np.int32)
        data = None
        if entry_files[1].stat().st_size:
            data = self.memory.mapped(entry_files[1], nnz, np.float32)
        return SparseRows(indptr, indices, data, n_columns)

    def _check_rows(self, call: Call, lengths: Array, entry_files: tuple[Path, Path]) -> None:
        """Forget blocks whose entries are not what they were.

        The entries are mapped here alone: Windows cuts off no file that is mapped.
        """
        counts = [(file.stat().st_size // 4,) for file in entry_files]
        indices = self.memory.mapped(entry_files[0], counts[0], np.int32)
        data = self.memory.mapped(entry_files[1], counts[1], np.float32)

        def check(block: BlockEntry, begin: int) -> int:
            arrays = [lengths[block.low : block.high], indices[begin : block.end]]
            if len(data):
                arrays.append(data[begin : block.end])
            return check_sum(arrays)

        call.checked(check, in_order=True)

    def _call(self, name: str, kernel: Kernel, args: Args, n: int, shapes: Any) -> Call:
        facts = {
            "kernel": f"{kernel.__module__}.{kernel.__qualname__}",
            "rows": n,
            "args": described(args),
            "outs": [[*map(int, shape), str(dtype)] for shape, dtype in shapes],
        }
        return self.journal.call(name, facts)

    @contextmanager
    def _missing_blocks(
        self, call: Call, name: str, n: int, kernel: Kernel, args: Args
    ) -> Iterator[Iterator[tuple[Range, Any]]]:
        """The blocks that are not finished yet, each with what the kernel returns for it.

        To take the next is to say that one was listed.
        """
        ranges = call.missing(n, self.blocks)
        with (
            progress.stage(name, n) as advance,
            self.running(kernel, args, ranges) as results,
        ):
            advance(n - sum(high - low for low, high in ranges))
            yield _reported(results, advance)


def _reported(
    results: Iterator[tuple[Range, Any]], advance: progress.Advance
) -> Iterator[tuple[Range, Any]]:
    for ends, result in results:
        yield ends, result
        advance(ends[1] - ends[0])


def _fill_block(
    low: int, high: int, kernel: Kernel, args: Args, arrays: list[Array], outs: tuple[Out, ...]
) -> int:
    """Fill the rows low to high of arrays; the sum over what they own."""
    kernel(low, high, *args, *arrays)
    return _sum_of_rows(arrays, outs, low, high)


def _sum_of_rows(arrays: list[Array], outs: tuple[Out, ...], low: int, high: int) -> int:
    return check_sum([a[out.part(low, high)] for a, out in zip(arrays, outs, strict=True)])


def _cut_off(path: Path, size: int) -> IO[bytes]:
    """A file to write behind its first ``size`` bytes."""
    file = path.open("r+b")
    file.truncate(min(size, file.seek(0, 2)))
    file.seek(0, 2)
    return file


@contextmanager
def disk_run(
    method: RankingMethod,
    queries: Any,
    gallery: Any,
    k: int | None,
    execution: Execution,
    budget: int | str | None,
    work: PathLike | None,
) -> Iterator[Execution]:
    """The execution in files of ``work``, which are removed when the block ends without an error.

    budget : bytes of memory, or a size such as "4GB"
    """
    if work is not None:
        check_path("work", work)
    matrices = (as_matrix("queries", queries), as_matrix("gallery", gallery))
    limit = None if budget is None else parse_bytes("memory_budget", budget)
    if limit is not None:
        plan = make_plan(method, *matrices, k, execution, limit)
        progress.tell("plan", plan)
        folder = Path(temporary_folder() if work is None else work).absolute()
        plan.check(next(path for path in (folder, *folder.parents) if path.exists()))
    key = run_key(method, matrices, k, execution)
    temporary = {"prefix": "kinrank-", "dir": temporary_folder()}
    folder = Path(tempfile.mkdtemp(**temporary) if work is None else work)
    try:
        journal = Journal(folder, key)
        with Memory(limit) as memory:
            runner = execution.runner
            yield replace(
                execution,
                runner=DiskRunner(
                    runner.threads, runner.block_size, journal=journal, memory=memory
                ),
                arrays=ArrayFiles(journal, memory),
                search_block=BLOCK,  # a finished one is kept
            )
        journal.clear()
    except OSError as error:
        if error.errno in READ_ONLY:
            raise UnwritableError(
                f"`work` must be a folder that can be written to, got {folder}: {error.strerror}.",
                error,
            ) from error
        if error.errno not in _FULL:
            raise
        advice = "" if work is None else " What is finished is kept: make room and call again."
        raise InvalidInputError(
            f"`work` must be on a disk with room for all stages, got {folder}: "
            f"{error.strerror}.{advice}"
        ) from error
    finally:
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)


def run_key(
    method: RankingMethod, matrices: tuple[Any, ...], k: int | None, execution: Execution
) -> str:
    """What all results of a run follow from."""
    digest = hashlib.blake2b(digest_size=16)
    facts: list[Any] = [
        type(method).__qualname__,
        __version__,
        k,
        execution.search,
        execution.vectors,
    ]
    parameters: Any = method
    facts += [(item.name, _value(getattr(method, item.name))) for item in fields(parameters)]
    digest.update(repr(facts).encode())
    for matrix in matrices:
        digest.update(f"{matrix.shape} {matrix.dtype}".encode())
        step = max(1, _PIECE // (matrix.shape[1] * matrix.itemsize))
        for low in range(0, len(matrix), step):
            digest.update(np.ascontiguousarray(matrix[low : low + step]).view(np.uint8).data)
    return digest.hexdigest()


def _value(value: Any) -> Any:
    """A parameter as something whose text tells it from others."""
    if hasattr(value, "tocsr"):
        rows = value.tocsr()
        return [rows.shape, *(array.tobytes() for array in (rows.indptr, rows.indices, rows.data))]
    return value
