"""Runs in files: what is finished survives the process, and memory stays below a budget."""

from __future__ import annotations

import errno
import hashlib
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank._version import __version__
from kinrank.errors import InvalidInputError, UnwritableError
from kinrank.io import READ_ONLY, PathLike, replacing, temporary_folder
from kinrank.parallel import Args, Array, Kernel, Out, Range, Runner, reported
from kinrank.runs.execution import Execution, RankingInputs
from kinrank.runs.journal import BlockEntry, Call, Journal, check_sum, described, feed
from kinrank.runs.mapped import Memory, mapping_of
from kinrank.runs.plan import make_plan, parse_bytes
from kinrank.types import SparseRows
from kinrank.validation import as_matrix

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class ArrayFiles:
    """Arrays that are files of a journal's folder.

    seen_by_others : whether other processes open these files
    """

    journal: Journal
    memory: Memory
    seen_by_others: bool = False

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """See Arrays."""
        file = self.journal.scratch()
        shape = shape if isinstance(shape, tuple) else (shape,)
        array = self.memory.mapped(file, shape, dtype, write=True)
        # The file lives as long as the array. Windows removes none that is mapped.
        mapping = mapping_of(array)
        if self.seen_by_others and mapping is not None:
            weakref.finalize(mapping, file.unlink, missing_ok=True)
        elif sys.platform != "win32":
            file.unlink()
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
    for bit, as those of a Runner, whatever was finished before and whoever finished it.
    """

    files: ArrayFiles = field(kw_only=True)

    def fill(self, name: str, kernel: Kernel, args: Args, n: int, *outs: Out) -> Any:
        shapes = [(out.shape(n), np.dtype(out.dtype)) for out in outs]
        call = self._call(name, kernel, args, n, shapes)
        memory = self.files.memory
        files = [(call.file(at), *shape) for at, shape in enumerate(shapes)]
        arrays = [memory.mapped(*file, write=True) for file in files]
        call.checked(lambda block, _: sum_of_rows(arrays, outs, block.low, block.high))
        ranges = call.missing(n, self.blocks)
        with (
            self._stage(name, n, ranges) as advance,
            self._filled_blocks(name, kernel, args, ranges, arrays, outs) as blocks,
        ):
            for (low, high), check in reported(blocks, advance):
                call.finished(BlockEntry(low, high, 0, check))
        filled = tuple(memory.mapped(*file) for file in files)
        return filled if len(filled) > 1 else filled[0]

    def rows(self, name: str, kernel: Kernel, args: Args, n: int, n_columns: int) -> SparseRows:
        call = self._call(name, kernel, args, n, [])
        memory = self.files.memory
        lengths = memory.mapped(call.file(0), (n,), np.int64, write=True)
        entry_files = (call.file(1), call.file(2))
        self._check_rows(call, lengths, entry_files)
        ranges = call.missing(n, self.blocks)
        with ExitStack() as stack:
            streams = [stack.enter_context(_cut_off(file, 4 * call.end)) for file in entry_files]
            advance = stack.enter_context(self._stage(name, n, ranges))
            blocks = stack.enter_context(self._row_blocks(name, kernel, args, ranges))
            for (low, high), block in reported(blocks, advance):
                lengths[low:high] = block[0]
                for stream, entries in zip(streams, block[1:], strict=False):
                    stream.write(np.ascontiguousarray(entries).data)
                    stream.flush()
                end = call.end + len(block[1])
                call.finished(BlockEntry(low, high, end, check_sum(block)))
        indptr = self.files.empty(n + 1, np.int64)
        indptr[0] = 0
        np.cumsum(lengths, out=indptr[1:])
        nnz = (int(indptr[-1]),)
        indices = memory.mapped(entry_files[0], nnz, np.int32)
        data = None
        if entry_files[1].stat().st_size:
            data = memory.mapped(entry_files[1], nnz, np.float32)
        return SparseRows(indptr, indices, data, n_columns)

    def _check_rows(self, call: Call, lengths: Array, entry_files: tuple[Path, Path]) -> None:
        """Forget blocks whose entries are not what they were.

        The entries are mapped here alone: Windows cuts off no file that is mapped.
        """
        counts = [(file.stat().st_size // 4,) for file in entry_files]
        indices = self.files.memory.mapped(entry_files[0], counts[0], np.int32)
        data = self.files.memory.mapped(entry_files[1], counts[1], np.float32)

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
        return self.files.journal.call(name, facts)

    def _row_blocks(
        self, name: str, kernel: Kernel, args: Args, ranges: list[Range]
    ) -> AbstractContextManager[Iterator[tuple[Range, Any]]]:
        """See ``Workers.row_blocks``."""
        if self.workers is None:
            return self.running(kernel, args, ranges)
        return self.workers.row_blocks(name, kernel, args, ranges)

    def _filled_blocks(
        self,
        name: str,
        kernel: Kernel,
        args: Args,
        ranges: list[Range],
        arrays: list[Array],
        outs: tuple[Out, ...],
    ) -> AbstractContextManager[Iterator[tuple[Range, int]]]:
        """See ``Workers.filled_blocks``."""
        if self.workers is None:
            return self.running(_fill_block, (kernel, args, arrays, outs), ranges)
        return self.workers.filled_blocks(name, kernel, args, ranges, arrays, outs)

    @contextmanager
    def _stage(self, name: str, n: int, ranges: list[Range]) -> Iterator[progress.Advance]:
        """Announce a stage of which all is finished but some ranges."""
        with progress.stage(name, n) as advance:
            advance(n - sum(high - low for low, high in ranges))
            yield advance


def _fill_block(
    low: int, high: int, kernel: Kernel, args: Args, arrays: list[Array], outs: tuple[Out, ...]
) -> int:
    """Fill the rows low to high of arrays; the sum over what they own."""
    kernel(low, high, *args, *arrays)
    return sum_of_rows(arrays, outs, low, high)


def sum_of_rows(arrays: list[Array], outs: tuple[Out, ...], low: int, high: int) -> int:
    """The check sum of what rows low to high own of the arrays that ``fill`` makes."""
    return check_sum([a[out.part(low, high)] for a, out in zip(arrays, outs, strict=True)])


def _cut_off(path: Path, size: int) -> IO[bytes]:
    """A file to write behind its first ``size`` bytes."""
    file = path.open("r+b")
    file.truncate(min(size, file.seek(0, 2)))
    file.seek(0, 2)
    return file


@contextmanager
def run_files(
    folder: Path | None,
    key: str,
    limit: int | None,
    parameter: str = "work",
    *,
    seen_by_others: bool = False,
) -> Iterator[ArrayFiles]:
    """The files of a run in ``folder``; they are removed when the block ends without an error.

    folder : None is a temporary one, which is always removed
    key : what all results follow from, see ``run_key``
    limit : bytes of memory to keep below; None for any
    parameter : where users said the folder, for messages; seen_by_others : see ``ArrayFiles``
    """
    is_temporary = folder is None
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="kinrank-", dir=temporary_folder()))
    journal = None
    try:
        journal = Journal(folder, key, parameter)
        with Memory(limit) as memory:
            yield ArrayFiles(journal, memory, seen_by_others)
        journal.clear()
    except OSError as error:
        if error.errno in READ_ONLY:
            raise UnwritableError(
                f"`{parameter}` must be a folder that can be written to, got {folder}: "
                f"{error.strerror}.",
                error,
            ) from error
        if error.errno not in _FULL:
            raise
        advice = "" if is_temporary else " What is finished is kept: make room and call again."
        raise InvalidInputError(
            f"`{parameter}` must be on a disk with room for all stages, got {folder}: "
            f"{error.strerror}.{advice}"
        ) from error
    finally:
        if journal is not None:
            journal.leave()
        if is_temporary:
            shutil.rmtree(folder, ignore_errors=True)


def planned_limit(
    inputs: RankingInputs, execution: Execution, budget: int | str, work: PathLike | None
) -> int:
    """The bytes of a budget, when a plan of the ranking says that it can be kept.

    work : the folder of the run; None is a temporary one
    """
    limit = parse_bytes("memory_budget", budget)
    matrices: tuple[Array, ...] = (as_matrix("queries", inputs.queries),)
    if inputs.gallery is not None:
        matrices = (*matrices, as_matrix("gallery", inputs.gallery))
    plan = make_plan(inputs.method, matrices, inputs.k, execution, limit, inputs.row_bytes)
    progress.tell("plan", plan)
    folder = Path(temporary_folder() if work is None else work).absolute()
    plan.check(next(path for path in (folder, *folder.parents) if path.exists()))
    return limit


def run_key(call: str, inputs: Any, execution: Execution) -> str:
    """What all results of a run follow from.

    call : its name; inputs : arrays, numbers and text, or records of such
    """
    if isinstance(inputs, RankingInputs):
        gallery = None if inputs.gallery is None else as_matrix("gallery", inputs.gallery)
        inputs = replace(inputs, queries=as_matrix("queries", inputs.queries), gallery=gallery)
    digest = hashlib.blake2b(digest_size=16)
    feed(digest, (call, __version__, execution.search, execution.vectors, inputs))
    return digest.hexdigest()
