"""The beginning and the end of a run in files."""

from __future__ import annotations

import errno
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank import progress
from kinrank._version import __version__
from kinrank.errors import InvalidInputError
from kinrank.io import PathLike
from kinrank.parallel import Runner
from kinrank.runs.disk import DiskRunner
from kinrank.runs.journal import Journal
from kinrank.runs.mapped import Memory
from kinrank.runs.plan import make_plan, parse_bytes
from kinrank.validation import as_matrix

if TYPE_CHECKING:
    from kinrank.methods.base import Method

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PIECE = 1 << 24  # bytes of the vectors that are read at a time


@contextmanager
def disk_run(
    method: Method, queries: Any, gallery: Any, k: int | None, run: Runner,
    budget: int | str | None, work: PathLike | None,
) -> Iterator[DiskRunner]:  # fmt: skip
    """A runner with files in ``work``; they are removed when the block ends without an error."""
    matrices = (as_matrix("queries", queries), as_matrix("gallery", gallery))
    limit = None if budget is None else parse_bytes("memory_budget", budget)
    if limit is not None:
        plan = make_plan(method, *matrices, k, run, limit)
        progress.tell("plan", plan)
        plan.check(_existing(Path(tempfile.gettempdir() if work is None else work)))
    key = run_key(method, matrices, k, run)
    folder = Path(tempfile.mkdtemp(prefix="kinrank-")) if work is None else Path(work)
    try:
        journal = Journal(folder, key)
        with Memory(limit) as memory:
            yield DiskRunner(**vars(run), journal=journal, memory=memory)
        journal.clear()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        then = "" if work is None else " What is finished is kept: make room and call again."
        raise InvalidInputError(
            f"`work` must be on a disk with room for all stages, got {folder}: "
            f"{error.strerror}.{then}"
        ) from error
    finally:
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)


def _existing(folder: Path) -> Path:
    """The folder, or the one above it that is there already."""
    whole = folder.absolute()
    return next(path for path in (whole, *whole.parents) if path.exists())


def run_key(method: Method, matrices: tuple[Any, ...], k: int | None, run: Runner) -> str:
    """What all results of a run follow from."""
    digest = hashlib.blake2b(digest_size=16)
    known: list[Any] = [type(method).__qualname__, __version__, k, run.search, run.vectors]
    known += [(field.name, _value(getattr(method, field.name))) for field in fields(method)]
    digest.update(repr(known).encode())
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
        return [rows.shape, *(part.tobytes() for part in (rows.indptr, rows.indices, rows.data))]
    return value
