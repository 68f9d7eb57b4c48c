"""The paper's ablations as tables in its layout, curves and bars."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kinrank.report import figures
from kinrank.report.chart import Chart
from kinrank.report.comparison import LEVELS
from kinrank.report.table import Column, Row, Table, Value

if TYPE_CHECKING:
    from kinrank.evaluate.ablation import Study


def study_table(study: Study) -> Table:
    """A study as a table in the paper's layout."""
    layouts = {"rows": _rows, "bars": _rows, "curve": _curve, "latency": _latency}
    table = layouts[study.form](study)
    notes = [f"{f.method} on {f.data} failed: {f.reason}" for f in study.failures]
    return replace(table, notes=notes)


def study_charts(study: Study) -> list[Chart]:
    """The figures of a study, one for each data set; none for tables."""
    charts = []
    for data in study.sets if study.form in ("curve", "bars") else ():
        title = study.title if len(study.sets) == 1 else f"{study.title}: {data}"
        names = {metric: LEVELS.get(metric, metric) for metric in study.metrics[data]}
        if study.form == "bars":
            series = {
                variant.label: [study.value(number, data, metric) for metric in names]
                for number, variant in enumerate(study.variants)
            }
            charts.append(figures.bars(title, list(names.values()), series))
        else:
            panels = {name: _lines(study, data, metric) for metric, name in names.items()}
            labels = list(dict.fromkeys(variant.label for variant in study.variants))
            axis = {"x_title": study.parameter, "base": study.base}
            charts.append(figures.curves(title, labels, panels, **axis))
    return [chart for chart in charts if chart is not None]


def _lines(study: Study, data: str, metric: str) -> dict[str, list[float | None]]:
    """Curve -> value at each label, None where there is none."""
    labels = dict.fromkeys(variant.label for variant in study.variants)
    curves: dict[str, dict[str, float | None]] = {}
    for number, variant in enumerate(study.variants):
        values = curves.setdefault(variant.section, dict.fromkeys(labels))
        values[variant.label] = study.value(number, data, metric)
    return {curve: list(values.values()) for curve, values in curves.items()}


def _rows(study: Study) -> Table:
    """Variants as rows; metrics over sets as columns, or sets over metrics if there is one set."""
    columns = []
    for data, metric in study.places():
        name = LEVELS.get(metric, metric)
        columns.append(Column(name, data) if len(study.sets) == 1 else Column(data, name))
    rows = [
        Row(variant.label, [study.value(number, *p) for p in study.places()], variant.section)
        for number, variant in enumerate(study.variants)
    ]
    bold = "sections" if study.key == "bsd" else "columns"
    return Table(study.title, columns, rows, bold=bold)  # type: ignore[arg-type]


def _curve(study: Study) -> Table:
    """Values as columns, sets and metrics as rows."""
    by_curve: dict[str, dict[str, list[float | None]]] = {}
    for data, metric in study.places():
        for curve, values in _lines(study, data, metric).items():
            by_curve.setdefault(curve, {})[f"{data} {LEVELS.get(metric, metric)}"] = values
    rows = [
        Row(name if len(by_curve) == 1 else f"{curve}, {name}", values, curve)
        for curve, lines in by_curve.items()
        for name, values in lines.items()
    ]
    columns = [Column(label) for label in dict.fromkeys(v.label for v in study.variants)]
    return Table(study.title, columns, rows, study.parameter, bold="rows")


def _latency(study: Study) -> Table:
    """Methods as rows: what the documentation says, and what was measured."""
    columns = [Column("Time complexity", "", "text", None)]
    for data in study.sets:
        columns.append(Column("latency", data, "milliseconds", None))
        columns.append(Column("peak memory", data, "bytes", None))
    rows = []
    for number, variant in enumerate(study.variants):
        values: list[Value] = [variant.spec.complexity]
        for data in study.sets:
            cell = study.measured(number, data)
            values += [None, None] if cell is None else [cell.seconds, cell.peak_bytes]
        rows.append(Row(variant.label, values, variant.section))
    return Table(study.title, columns, rows)
