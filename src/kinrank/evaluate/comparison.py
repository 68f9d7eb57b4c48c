"""Many methods on many data sets: one table, resumable, with intervals."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.datasets.base import Dataset
from kinrank.datasets.features import save_features
from kinrank.errors import (
    FileFormatError,
    InvalidInputError,
    KinrankError,
    UnknownNameError,
    shown,
)
from kinrank.evaluate.cells import Failed, Measured, cell_key, fingerprint, measure
from kinrank.evaluate.spec import MethodSpec, parse_methods
from kinrank.evaluate.worker import WorkerError, run_worker
from kinrank.io import make_folder, temporary_folder
from kinrank.metrics.results import DRAWS, Interval, confidence_intervals
from kinrank.optional import require
from kinrank.report.formats import to_latex
from kinrank.validation import as_list, check_path

OnCell = Callable[[Measured | Failed, int, int], None]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Cells by method and data set.

    Attributes
    ----------
    methods, sets : labels, in the order in which they were asked for
    cells : (method, set) -> what was measured, or why it failed
    metrics : set -> the metrics that tables and figures show; {} for those of its protocol
    """

    methods: Sequence[str]
    sets: Sequence[str]
    cells: Mapping[tuple[str, str], Measured | Failed]
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} cells failed" if self.failures else ""
        methods = ", ".join(self.methods)
        return f"<Comparison of {methods} on {', '.join(self.sets)}{failed}>"

    def to_pandas(self) -> Any:
        """A row for each method and set: all metrics as fractions, seconds, peak of memory.

        A pandas DataFrame (extra ``pandas``). Cells that failed have the reason instead.
        """
        pandas = require("pandas", extra="pandas", purpose="A table of pandas")
        rows = []
        for (method, data), cell in self.cells.items():
            row: dict[str, Any] = {"method": method, "set": data}
            if isinstance(cell, Measured):
                row |= dict(cell.summary)
                row |= {"seconds": cell.seconds, "peak_bytes": cell.peak_bytes}
            else:
                row["failed"] = cell.reason
            rows.append(row)
        return pandas.DataFrame(rows)

    def to_latex(self, *, two_columns: bool = False) -> str:
        """The table for a paper; see ``kinrank compare --out table.tex``.

        two_columns : for a page of two columns, which a wide table then spans
        """
        from kinrank.report.comparison import comparison_table

        return to_latex(comparison_table(self), two_columns=two_columns)

    @property
    def reference(self) -> str:
        """The method that others are compared with: ``none``, or the first."""
        plain = [m for m in self.methods if m == "none" or m.startswith("none(")]
        return plain[0] if plain else self.methods[0]

    @property
    def failures(self) -> list[Failed]:
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
        first = self.headlines(self.sets[0])[0]
        return max(done, key=lambda cell: cell.summary[first]).method

    def get(self, method: str, data: str) -> Measured | None:
        """A cell, or None if it failed."""
        cell = self.cells[method, data]
        return cell if isinstance(cell, Measured) else None

    def headlines(self, data: str) -> tuple[str, ...]:
        """The metrics of a set that are shown; none if every cell of it failed."""
        if data in self.metrics:
            return self.metrics[data] if any(c.data == data for c in self.measured) else ()
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
    methods: str | Sequence[str | MethodSpec],
    sets: Sequence[Dataset],
    *,
    metrics: str | Sequence[str] | None = None,
    work: str | Path | None = None,
    isolate: bool = True,
    threads: int | None = None,
    on_cell: OnCell | None = None,
) -> Comparison:
    """Run every method on every data set.

    Parameters
    ----------
    methods : such as ``"none,cas,cas(k1=60)"``, ``["none", "cas", "cas(k1=60)"]`` or ``"all"``
    sets : data sets with vectors
    metrics : what tables and figures show, such as ``"mAP,R1"`` or ``["mAP", "R1"]``; None is what
        the field prints first. R1 is hit@1 where classes are searched for, and mAP is that of each
        level of Revisited sets.
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
    specs = parse_methods(methods)
    sets = check_sets(sets)
    check_on_cell(on_cell)
    shown_metrics = choose_metrics(metrics, sets)
    names = [data.name for data in sets]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidInputError(f"`sets` must have different names, got {doubled[0]} twice.")
    jobs = [(spec, data, isolate) for data in sets for spec in specs]
    cells = run_cells(jobs, work, threads, on_cell)
    places = ((spec.label, data.name) for spec, data, _ in jobs)
    labels = [spec.label for spec in specs]
    return Comparison(labels, names, dict(zip(places, cells, strict=True)), shown_metrics)


def check_sets(sets: Any) -> list[Dataset]:
    """Data sets in a list, at least one."""
    what = "a list of data sets, such as [kinrank.datasets.load('digits')]"
    listed = as_list("sets", sets, what)
    for data in listed:
        if not isinstance(data, Dataset):
            raise InvalidInputError(f"`sets` must be {what}, got {shown(data)}.")
    if not listed:
        raise InvalidInputError("`sets` must have at least one data set, got none.")
    return listed


def choose_metrics(
    metrics: str | Sequence[str] | None, sets: Sequence[Dataset]
) -> dict[str, tuple[str, ...]]:
    """Set -> the metrics that were asked for, as that set calls them; {} if none were."""
    if metrics is None:
        return {}
    words = metrics.split(",") if isinstance(metrics, str) else metrics
    asked = as_list("metrics", words, "a list of names, such as ['mAP', 'R1']")
    if not asked:
        raise InvalidInputError("`metrics` must name at least one metric, got none.")
    chosen: dict[str, dict[str, None]] = {data.name: {} for data in sets}
    for metric in asked:
        if not isinstance(metric, str):
            raise InvalidInputError(f"`metrics` must be names, got {shown(metric)}.")
        known = {data.name: _called(metric.strip(), data) for data in sets}
        if not any(known.values()):
            names = dict.fromkeys(name for data in sets for name in data.metrics)
            raise UnknownNameError("metrics", metric.strip(), names)
        for data, names_there in known.items():
            chosen[data] |= dict.fromkeys(names_there)
    return {data: tuple(names) for data, names in chosen.items()}


def _called(metric: str, data: Dataset) -> list[str]:
    """What a set calls a metric: R1 may be hit@1, and mAP that of each level; [] if it has none."""
    known = data.metrics
    rank = re.fullmatch(r"R(\d+)", metric)
    if metric in known:
        return [metric]
    if rank is not None and f"hit@{rank[1]}" in known:
        return [f"hit@{rank[1]}"]
    return [name for name in known if name.rpartition(" ")[0] == metric]


def check_on_cell(on_cell: object) -> None:
    """Refuse what cannot be called."""
    if on_cell is not None and not callable(on_cell):
        raise InvalidInputError(f"`on_cell` must be a function or None, got {shown(on_cell)}.")


def run_cells(
    jobs: Sequence[tuple[MethodSpec, Dataset, bool]],
    work: str | Path | None,
    threads: int | None,
    on_cell: OnCell | None,
) -> list[Measured | Failed]:
    """Compute the cells that are not in ``work`` yet, and keep them there.

    jobs : a method, a set, and whether in a process of its own
    """
    cells: list[Measured | Failed] = []
    with tempfile.TemporaryDirectory(prefix="kinrank-", dir=temporary_folder()) as temporary:
        folder = Path(temporary if work is None else check_path("work", work)) / "cells"
        make_folder(folder)
        print_of = cache(fingerprint)
        source_of = cache(partial(_source, Path(temporary)))
        for spec, data, isolate in jobs:
            try:
                file = folder / f"{cell_key(spec, print_of(data), isolated=isolate)}.npz"
                cells.append(_cell(spec, data, file, source_of if isolate else None, threads))
            except (KinrankError, WorkerError, MemoryError) as error:
                reason = str(error) or type(error).__name__
                cells.append(Failed(spec.label, data.name, reason))
            if on_cell is not None:
                on_cell(cells[-1], len(cells), len(jobs))
    return cells


def _cell(
    spec: MethodSpec,
    data: Dataset,
    file: Path,
    source_of: Callable[[Dataset], dict[str, Any]] | None,
    threads: int | None,
) -> Measured:
    """A cell, from its file if it is there; source_of : what a worker is told of a set."""
    named: dict[str, Any] = {"method": spec.label, "data": data.name}
    with suppress(OSError, FileFormatError):  # a broken file is no reason to stop
        return replace(Measured.load(file), **named)
    if source_of is not None:
        return replace(run_worker(spec, source_of(data), file, threads=threads), **named)
    cell = measure(spec, data, threads=threads)
    cell.save(file)
    return cell


def _source(temporary: Path, data: Dataset) -> dict[str, Any]:
    """What a worker loads: where the set came from, or a copy of what is in memory."""
    if data.source is not None:
        return dict(data.source)
    folder = temporary / f"set-{id(data)}"
    with progress.stage("save vectors", 1) as advance:
        save_features(data, folder)
        advance(1)
    return {"path": str(folder), "name": data.name}
