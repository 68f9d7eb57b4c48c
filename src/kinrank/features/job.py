"""An extraction into a file: which parts there are, which are missing, and their computation."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.features.assemble import Side, StoredParts
from kinrank.features.parts import Parts, RowBlocks
from kinrank.features.sources import Failure, ImageList
from kinrank.features.stream import batches, items, ordered
from kinrank.features.whitening import Whitening
from kinrank.features.worker import Rows, Worker

_FORMAT = 1  # of parts; a change in what is computed needs another
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Task:
    """One part: its key, and the rows of a list that it holds."""

    key: str
    listed: ImageList
    rows: range


@dataclass(frozen=True)
class Job:
    """What is computed, and where its parts lie.

    Attributes
    ----------
    worker : makes the rows
    store : keeps the parts
    out : the file that is to be
    batch, part : pictures in a batch and in a part, a multiple of it
    """

    worker: Worker
    store: Parts
    out: Path
    batch: int
    part: int

    def tasks(self, listed: ImageList) -> list[Task]:
        """The parts of one list."""
        network, descriptor = self.worker.network, self.worker.descriptor
        recipe = {item.name: _plain(getattr(descriptor, item.name)) for item in fields(descriptor)}
        settings = [_FORMAT, network.key, network.preprocessing.describe(), recipe, self.batch]
        found = []
        for low in range(0, len(listed), self.part):
            rows = range(low, min(len(listed), low + self.part))
            key = _digest([settings, [_identity(listed, row) for row in rows]])
            found.append(Task(key, listed, rows))
        return found

    def run(self, tasks: list[Task], threads: int) -> int:
        """Compute what is missing; returns the number of pictures that were there."""
        missing = [task for task in tasks if self.store.find(task.key) is None]
        left = sum(len(task.rows) for task in missing)
        with progress.stage("extract", left) as advance:
            if missing:
                self._check(missing, left)
                self._compute(missing, threads, advance)
        return sum(len(task.rows) for task in tasks) - left

    def gather(
        self, sides: Mapping[str, list[Task]]
    ) -> tuple[dict[str, npt.NDArray[Any] | RowBlocks], list[Failure]]:
        """The arrays of the file, rows not read yet, and all failures."""
        arrays: dict[str, npt.NDArray[Any] | RowBlocks] = {}
        failures: list[Failure] = []
        for name, tasks in sides.items():
            stored = StoredParts(self.store, [task.key for task in tasks])
            side = Side(tasks[0].listed, stored, [len(task.rows) for task in tasks])
            failures += side.failures
            arrays[name or "features"] = RowBlocks((side.n_rows, side.width), side.blocks())
            prefix = f"{name}_" if name else ""
            for column in ("names", "labels", "cams"):
                values = side.column(column)
                if values is not None:
                    arrays[prefix + column] = values
            if self.worker.descriptor.regional:
                arrays[f"{prefix}owners"] = side.owners()
        return arrays, failures

    def _check(self, missing: list[Task], left: int) -> None:
        """Say before hours of work that the network does not run, or that there is no room."""
        first = (item for task in missing for item in items(task.listed, task.rows))
        shape = self.worker.probe(first)
        if shape is None:
            return
        # The parts that are to come, and the file that is made of all of them.
        need = 2 * left * shape[0] * shape[1] * _FLOAT_BYTES
        free = shutil.disk_usage(self.out.resolve().parent).free
        if need > free:
            raise OSError(
                errno.ENOSPC,
                f"No space left on device: about {need / 1e6:,.1f} MB are needed, "
                f"{free / 1e6:,.1f} MB are free",
                str(self.out),
            )

    def _compute(self, missing: list[Task], threads: int, advance: progress.Advance) -> None:
        some = (b for task in missing for b in batches(task.listed, task.rows, self.batch))
        results = ordered(self.worker, some, threads, advance)
        try:
            for task in missing:
                count = -(-len(task.rows) // self.batch)
                pairs = [next(results) for _ in range(count)]
                self._save(task.key, Rows.joined(pairs))
        finally:
            results.close()

    def _save(self, key: str, rows: Rows) -> None:
        try:
            self.store.save(key, rows)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}; finished parts are kept in {self.store.folder}, "
                "and the same command goes on from there",
                str(self.out),
            ) from error


def _identity(listed: ImageList, row: int) -> list[Any]:
    """What tells a picture, and a changed one, from others."""
    facts: list[int] = []
    try:
        state = listed.file(row).stat()
        facts = [state.st_size, state.st_mtime_ns]
    except OSError:
        pass  # a missing file becomes another one when it comes
    box = listed.box(row)
    return [listed.names[row], facts, None if box is None else [float(side) for side in box]]


def _plain(value: Any) -> Any:
    if isinstance(value, Whitening):
        content = (value.mean, value.projection)
        return [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in content]
    return value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
