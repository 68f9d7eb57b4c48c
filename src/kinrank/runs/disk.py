"""Blocks of rows in files: what is finished survives the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.io import replacing, write_text_atomic
from kinrank.parallel import Array, Out, Range, Runner
from kinrank.runs.journal import BlockEntry, Call, Journal, check_sum, described, file_sum
from kinrank.runs.mapped import Memory
from kinrank.types import SparseRows

T = TypeVar("T")


@dataclass(frozen=True)
class DiskRunner(Runner):
    """A runner whose arrays are files of a journal's folder.

    A call is known by its number: methods call their stages in one order. Results are the same, bit
    for bit, as those of a Runner, whatever was finished before.
    """

    journal: Journal = field(kw_only=True)
    memory: Memory = field(kw_only=True)

    def fill(
        self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], n: int, *outs: Out
    ) -> Any:
        shapes = [(out.shape(n), np.dtype(out.dtype)) for out in outs]
        call = self._call(name, kernel, args, n, shapes)
        files = [(call.file(at), *shape) for at, shape in enumerate(shapes)]
        arrays = [self.memory.writable(*file) for file in files]

        def check(low: int, high: int) -> int:
            owned = (out.part(low, high) for out in outs)
            return check_sum([array[part] for array, part in zip(arrays, owned, strict=True)])

        def block(low: int, high: int) -> int:
            kernel(low, high, *args, *arrays)
            return check(low, high)

        call.checked(lambda done: check(done.low, done.high))
        self._work(call, name, n, block, lambda part, value: BlockEntry(*part, 0, value))
        read = tuple(self.memory.readable(*file) for file in files)
        return read if len(read) > 1 else read[0]

    def rows(
        self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], n: int, n_columns: int
    ) -> SparseRows:
        call = self._call(name, kernel, args, n, [])
        lengths = self.memory.writable(call.file(0), (n,), np.int64)
        call.begun()
        self._check_rows(call, lengths)
        call.begun()
        end = call.blocks[-1].end if call.blocks else 0
        with _Appended(call, end) as entries:

            def listed(part: Range, found: tuple[Array, ...]) -> BlockEntry:
                lengths[slice(*part)] = found[0]
                return BlockEntry(*part, *entries.append(found))

            self._work(call, name, n, lambda low, high: kernel(low, high, *args), listed)
        return self._sparse(call, lengths, n_columns)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        file = self.journal.scratch()
        array = self.memory.writable(file, shape if isinstance(shape, tuple) else (shape,), dtype)
        file.unlink()  # it lives as long as the array
        return array

    def kept(
        self, name: str, make: Callable[[], T], save: Callable[[T, Path], None],
        load: Callable[[Path], T],
    ) -> T:  # fmt: skip
        file = self.journal.kept(name)
        listed = file.with_name(f"{file.name}.sum")
        if file.exists() and listed.exists() and listed.read_bytes() == b"%d\n" % file_sum(file):
            return load(file)
        made = make()
        with replacing(file) as stream:
            save(made, Path(stream.name))
            write_text_atomic(listed, f"{file_sum(Path(stream.name))}\n")
        return made

    def _call(
        self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], n: int, shapes: Any
    ) -> Call:
        facts = {
            "kernel": f"{kernel.__module__}.{kernel.__qualname__}",
            "rows": n,
            "args": described(args),
            "outs": [[*map(int, shape), str(dtype)] for shape, dtype in shapes],
        }
        return self.journal.call(name, facts)

    def _work(
        self, call: Call, name: str, n: int, block: Callable[[int, int], Any],
        listed: Callable[[Range, Any], BlockEntry],
    ) -> None:  # fmt: skip
        """Do the blocks that are missing, and list each that is finished."""
        ranges = call.missing(n, self.blocks)
        stage = progress.stage(name, n)
        with closing(call), stage as advance, self._each(block, ranges) as results:
            advance(n - sum(high - low for low, high in ranges))
            for part, found in results:
                call.finished(listed(part, found))
                advance(part[1] - part[0])

    def _check_rows(self, call: Call, lengths: Array) -> None:
        """Forget blocks of rows that are no longer what was written."""
        begins = {block.low: end for block, end in zip(call.blocks, _ends(call), strict=True)}
        kinds = ((call.file(1), np.int32), (call.file(2), np.float32))
        indices, data = (self.memory.readable(f, (f.stat().st_size // 4,), d) for f, d in kinds)

        def check(block: BlockEntry) -> int:
            part = slice(begins[block.low], block.end)
            found = [lengths[block.low : block.high], indices[part]]
            return check_sum([*found, data[part]] if len(data) else found)

        call.checked(check)

    def _sparse(self, call: Call, lengths: Array, n_columns: int) -> SparseRows:
        indptr = self.empty(len(lengths) + 1, np.int64)
        indptr[0] = 0
        np.cumsum(lengths, out=indptr[1:])
        size = (int(indptr[-1]),)
        indices = self.memory.readable(call.file(1), size, np.int32)
        weighted = call.file(2).stat().st_size > 0
        data = self.memory.readable(call.file(2), size, np.float32) if weighted else None
        return SparseRows(indptr, indices, data, n_columns)


class _Appended:
    """The files of indices and data, which grow block by block."""

    def __init__(self, call: Call, end: int) -> None:
        self._end = end
        self._files: list[IO[bytes]] = [call.file(at).open("r+b", buffering=0) for at in (1, 2)]
        for file in self._files:
            file.truncate(min(4 * end, file.seek(0, 2)))
            file.seek(0, 2)

    def __enter__(self) -> _Appended:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files:
            file.close()

    def append(self, found: tuple[Array, ...]) -> tuple[int, int]:
        """Write a block's (lengths, indices[, data]); returns where it ends and its check sum."""
        for file, values in zip(self._files, found[1:], strict=False):
            _write(file, values)
        self._end += len(found[1])
        return self._end, check_sum(list(found))


def _write(file: IO[bytes], values: Array) -> None:
    left = np.ascontiguousarray(values).data.cast("B")
    while left:
        left = left[file.write(left) :]


def _ends(call: Call) -> list[int]:
    return [0, *(block.end for block in call.blocks)][: len(call.blocks)]
