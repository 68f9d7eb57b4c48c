"""Running the paper's ablations on the user's features, and putting them into its tables."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kinrank.datasets.base import Dataset
from kinrank.errors import InvalidInputError
from kinrank.evaluate.cells import Failed, Measured
from kinrank.evaluate.comparison import CellRunner, OnCell
from kinrank.evaluate.layout import LEVELS
from kinrank.evaluate.spec import MethodSpec, parse_method
from kinrank.evaluate.studies import Study, complexity, make_studies
from kinrank.evaluate.tables import Column, Row, Table, Value

# What the paper's ablations show of each protocol.
SHOWN: dict[str, tuple[str, ...]] = {
    "revisited": ("mAP M", "mAP H"),
    "reid": ("mAP", "mINP"),
    "retrieval": ("mAP",),
    "single_shot": ("R1",),
}


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The cells of one study, one for each variant and data set."""

    study: Study
    sets: Sequence[str]
    metrics: Mapping[str, tuple[str, ...]]
    cells: Sequence[Mapping[str, Measured | Failed]]

    def value(self, variant: int, data: str, metric: str) -> float | None:
        """A mean, or None where the cell failed."""
        cell = self.cells[variant][data]
        return cell.summary[metric] if isinstance(cell, Measured) else None

    def places(self) -> list[tuple[str, str]]:
        """Sets and metrics, one metric after the other as in the paper."""
        names = dict.fromkeys(metric for found in self.metrics.values() for metric in found)
        return [(d, metric) for metric in names for d in self.sets if metric in self.metrics[d]]

    @property
    def failures(self) -> list[Failed]:
        """The cells that could not be computed."""
        return [c for row in self.cells for c in row.values() if isinstance(c, Failed)]

    def curves(self) -> list[str]:
        """The sections of the variants: one curve each."""
        return list(dict.fromkeys(variant.section for variant in self.study.variants))

    def table(self) -> Table:
        """The study as a table in the paper's layout."""
        makers = {"rows": _rows, "bars": _rows, "curve": _curve, "latency": _latency}
        return makers[self.study.form](self)


@dataclass(frozen=True, eq=False)
class Ablation:
    """All studies that were run."""

    method: str
    results: Sequence[StudyResult]

    def tables(self) -> dict[str, Table]:
        """Study key -> table."""
        return {result.study.key: result.table() for result in self.results}


def ablate(
    sets: Sequence[Dataset],
    *,
    method: str | MethodSpec = "cas",
    studies: Sequence[str] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    work: str | Path | None = None,
    threads: int | None = None,
    on_cell: OnCell | None = None,
) -> Ablation:
    """Run the paper's ablations.

    Parameters
    ----------
    sets : data sets with vectors, such as one set with several kinds of features
    method : where the variations start from, such as ``"cas(k1=60,k2=6)"``
    studies : bsd, nss, distance, k1, k2, omega, kappa, sigma, mu, beta, latency; None for all
    values : other values of a parameter, such as ``{"k1": [10, 20]}``
    work : a folder that keeps finished cells
    threads : how many threads the method may use
    on_cell : called with each cell, how many are done, and how many there are
    """
    if not sets:
        raise InvalidInputError("`sets` must have at least one data set, got none.")
    base = parse_method(method) if isinstance(method, str) else method
    chosen = make_studies(studies, base, values)
    total = sum(len(study.variants) for study in chosen) * len(sets)
    done = 0
    results = []
    with tempfile.TemporaryDirectory(prefix="kinrank-") as temporary:
        folders = (Path(work or temporary), Path(temporary))
        # Only the table of times needs a process for each cell.
        runners = {isolate: CellRunner(*folders, isolate, threads) for isolate in (False, True)}
        for study in chosen:
            cells: list[dict[str, Any]] = []
            for variant in study.variants:
                cells.append({})
                for data in sets:
                    cell = runners[study.form == "latency"].run(variant.spec, data)
                    cells[-1][data.name] = cell
                    done += 1
                    if on_cell is not None:
                        on_cell(cell, done, total)
            metrics = {data.name: SHOWN[data.protocol] for data in sets}
            results.append(StudyResult(study, [d.name for d in sets], metrics, cells))
    return Ablation(base.label, results)


def _rows(result: StudyResult) -> Table:
    """Variants as rows; metrics over sets as columns, or sets over metrics if there is one set."""
    columns = [_column(result, data, metric) for data, metric in result.places()]
    rows = [
        Row(variant.label, [result.value(number, *p) for p in result.places()], variant.section)
        for number, variant in enumerate(result.study.variants)
    ]
    table = Table(result.study.title, columns, rows, notes=_notes(result))
    return replace(table, bold="sections") if result.study.key == "bsd" else table


def _curve(result: StudyResult) -> Table:
    """Values as columns, sets and metrics as rows."""
    study = result.study
    labels = list(dict.fromkeys(variant.label for variant in study.variants))
    place_of = {(v.section, v.label): number for number, v in enumerate(study.variants)}
    rows = []
    for curve in result.curves():
        for data, metric in result.places():
            values: list[Value] = []
            for label in labels:
                number = place_of.get((curve, label))
                values.append(None if number is None else result.value(number, data, metric))
            name = f"{data} {LEVELS.get(metric, metric)}"
            rows.append(
                Row(name if len(result.curves()) == 1 else f"{curve}, {name}", values, curve)
            )
    columns = [Column(label) for label in labels]
    return Table(study.title, columns, rows, study.parameter, _notes(result), "rows")


def _latency(result: StudyResult) -> Table:
    """Methods as rows: what the documentation says, and what was measured."""
    columns = [Column("Time complexity", "", "text", None)]
    for data in result.sets:
        columns.append(Column("latency", data, "milliseconds", None))
        columns.append(Column("peak memory", data, "bytes", None))
    rows = []
    for number, variant in enumerate(result.study.variants):
        values: list[Value] = [complexity(variant.spec.name)]
        for data in result.sets:
            cell = result.cells[number][data]
            done = cell if isinstance(cell, Measured) else None
            values += [None, None] if done is None else [done.seconds, done.peak_bytes]
        rows.append(Row(variant.label, values, variant.section))
    return Table(result.study.title, columns, rows, notes=_notes(result))


def _column(result: StudyResult, data: str, metric: str) -> Column:
    name = LEVELS.get(metric, metric)
    return Column(name, data) if len(result.sets) == 1 else Column(data, name)


def _notes(result: StudyResult) -> list[str]:
    return [f"{f.method} on {f.data} failed: {f.reason}" for f in result.failures]
