"""Many methods on many data sets: one table, resumable, with intervals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.datasets.base import Dataset
from kinrank.datasets.features import save_features
from kinrank.errors import FileFormatError, InvalidInputError, KinrankError
from kinrank.evaluate.cells import Failed, Measured, cell_key, fingerprint, measure
from kinrank.evaluate.spec import MethodSpec, parse_methods
from kinrank.evaluate.worker import WorkerError, run_worker
from kinrank.io import make_folder, temporary_folder
from kinrank.metrics.bootstrap import DRAWS, Interval, confidence_intervals

OnCell = Callable[[Measured | Failed, int, int], None]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Cells by method and data set.

    Attributes
    ----------
    methods, sets : labels, in the order in which they were asked for
    cells : (method, set) -> what was measured, or why it failed
    """

    methods: Sequence[str]
    sets: Sequence[str]
    cells: Mapping[tuple[str, str], Measured | Failed]

    @property
    def reference(self) -> str:
        """The method that others are compared with: ``none``, or the first."""
        plain = [m for m in self.methods if m == "none" or m.startswith("none(")]
        return plain[0] if plain else self.methods[0]

    @property
    def failures(self) -> list[Failed]:
        """The cells that could not be computed."""
        return [cell for cell in self.cells.values() if isinstance(cell, Failed)]

    @property
    def measured(self) -> list[Measured]:
        """The cells that could be computed."""
        return [cell for cell in self.cells.values() if isinstance(cell, Measured)]

    @property
    def best(self) -> str:
        """The best method by the first metric of the first set, the reference not counted."""
        others = [m for m in self.methods if m != self.reference]
        done = [c for c in self.measured if c.data == self.sets[0] and c.method in others]
        if not done:
            return others[0] if others else self.reference
        return max(done, key=lambda cell: cell.summary[cell.headlines[0]]).method

    def get(self, method: str, data: str) -> Measured | None:
        """A cell, or None if it failed."""
        cell = self.cells[method, data]
        return cell if isinstance(cell, Measured) else None

    def headlines(self, data: str) -> tuple[str, ...]:
        """The metrics of a set; none if every cell of it failed."""
        return next((cell.headlines for cell in self.measured if cell.data == data), ())

    def differences(
        self, data: str, metric: str, reference: str | None = None, *, draws: int = DRAWS
    ) -> dict[str, Interval]:
        """How much better each method is than ``reference``, with paired intervals."""
        base = self.get(reference or self.reference, data)
        if base is None:
            return {}
        changes = {
            cell.method: cell.per_query[metric] - base.per_query[metric]
            for cell in self.measured
            if cell.data == data and cell.method != base.method
        }
        if not changes:
            return {}
        intervals = confidence_intervals(np.stack(list(changes.values()), axis=1), draws=draws)
        return dict(zip(changes, intervals, strict=True))


def compare(
    methods: str | Sequence[MethodSpec],
    sets: Sequence[Dataset],
    *,
    work: str | Path | None = None,
    isolate: bool = True,
    threads: int | None = None,
    on_cell: OnCell | None = None,
) -> Comparison:
    """Run every method on every data set.

    Parameters
    ----------
    methods : such as ``"none,cas,cas(k1=60)"`` or ``"all"``, or parsed ones
    sets : data sets with vectors
    work : a folder that keeps finished cells; the same call again computes only what is missing
    isolate : run each cell in a process of its own, which measures its peak of memory
    threads : how many threads a method may use
    on_cell : called with each cell, how many are done, and how many there are

    Returns
    -------
    Comparison
        A cell that fails does not stop the others; ``failures`` has the reasons.

    Examples
    --------
    >>> import kinrank
    >>> sets = [kinrank.datasets.load("toy")]
    >>> table = kinrank.evaluate.compare("none,cas", sets, isolate=False)
    >>> round(table.cells["cas", "toy"].summary["mAP"], 2)
    0.48
    """
    specs = parse_methods(methods) if isinstance(methods, str) else list(methods)
    _check_names(specs, sets)
    with tempfile.TemporaryDirectory(prefix="kinrank-", dir=temporary_folder()) as temporary:
        runner = CellRunner(Path(work or temporary), Path(temporary), isolate, threads)
        cells: dict[tuple[str, str], Measured | Failed] = {}
        total = len(specs) * len(sets)
        for data in sets:
            for spec in specs:
                cell = runner.run(spec, data)
                cells[spec.label, data.name] = cell
                if on_cell is not None:
                    on_cell(cell, len(cells), total)
    return Comparison([s.label for s in specs], [d.name for d in sets], cells)


class CellRunner:
    """Computes cells that are not in ``work`` yet, and keeps those that it computed."""

    def __init__(self, work: Path, temporary: Path, isolate: bool, threads: int | None) -> None:
        self.folder = work / "cells"
        make_folder(self.folder)
        self.temporary, self.isolate, self.threads = temporary, isolate, threads
        self._prints: dict[int, str] = {}
        self._sources: dict[int, dict[str, Any]] = {}

    def run(self, spec: MethodSpec, data: Dataset) -> Measured | Failed:
        """A cell, from its file if it is there."""
        try:
            return self._run(spec, data)
        except (KinrankError, WorkerError, MemoryError) as error:
            return Failed(spec.label, data.name, str(error) or type(error).__name__)

    def _run(self, spec: MethodSpec, data: Dataset) -> Measured:
        if id(data) not in self._prints:
            self._prints[id(data)] = fingerprint(data)
        key = cell_key(spec, self._prints[id(data)], isolated=self.isolate)
        file = self.folder / f"{key}.npz"
        # A broken file is no reason to stop.
        with suppress(OSError, FileFormatError):
            return replace(Measured.load(file), method=spec.label, data=data.name)
        if self.isolate:
            cell = run_worker(spec, self._source(data), file, threads=self.threads)
            return replace(cell, method=spec.label, data=data.name)
        cell = measure(spec, data, threads=self.threads)
        cell.save(file)
        return cell

    def _source(self, data: Dataset) -> dict[str, Any]:
        """What a worker loads: where the set came from, or a copy of what is in memory."""
        if data.source is not None:
            return dict(data.source)
        if id(data) not in self._sources:
            folder = self.temporary / f"set-{len(self._sources)}"
            with progress.stage("save vectors", 1) as advance:
                save_features(data, folder)
                advance(1)
            self._sources[id(data)] = {"path": str(folder), "name": data.name}
        return self._sources[id(data)]


def _check_names(specs: Sequence[MethodSpec], sets: Sequence[Dataset]) -> None:
    for kind, names in (("methods", [s.label for s in specs]), ("sets", [d.name for d in sets])):
        if not names:
            raise InvalidInputError(f"`{kind}` must have at least one entry, got none.")
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InvalidInputError(f"`{kind}` must have different names, got {doubled[0]} twice.")
