"""A comparison as tables; the paper's ablations as tables in its layout, curves and bars.

Sets with levels (Revisited) stand below their levels, as in the paper's tables of instance
retrieval; all others have their metrics below them, as in its tables of re-identification.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from kinrank.report import figures
from kinrank.report.figures import Chart
from kinrank.report.formats import Column, Row, Table, Value, published_label

# Results of the rooms above, which are known here by their attributes alone.
Comparison: TypeAlias = Any
Study: TypeAlias = Any

LEVELS = {"mAP E": "Easy", "mAP M": "Medium", "mAP H": "Hard"}
NOT_TOLD_APART = "*"
NO_DIFFERENCE = "°"
TIME = "time"
MEMORY = "memory"
NOTE = (
    "Metrics in per cent. Time is that of the ranking alone; memory is the peak of a process that "
    "did nothing else."
)


class _Place(NamedTuple):
    """What a column shows: a metric, the time or the memory of a set."""

    data: str
    metric: str
    column: Column

    def value(self, comparison: Comparison, method: str) -> float | None:
        cell = comparison.get(method, self.data)
        if cell is None:
            return None
        costs = {TIME: cell.seconds, MEMORY: cell.peak_bytes}
        value: float | None = costs.get(self.metric)
        return cell.summary[self.metric] if self.metric not in costs else value


def comparison_table(comparison: Comparison, title: str = "Comparison of methods") -> Table:
    """Methods as rows, sets and metrics as columns, with time and memory."""
    places = _places(comparison)
    ties = [_ties(comparison, place) for place in places]
    rows = []
    for method in comparison.methods:
        values = [place.value(comparison, method) for place in places]
        rows.append(Row(method, values, "first" if method == comparison.reference else "methods"))
    table = Table(title, [place.column for place in places], rows)
    for row, bold in zip(rows, table.best(), strict=True):
        # A value that looks the same as the best needs no mark.
        marked = (row.label in tied and not best for tied, best in zip(ties, bold, strict=True))
        row.marks[:] = [NOT_TOLD_APART if mark else "" for mark in marked]
    notes = [NOTE]
    if any(NOT_TOLD_APART in row.marks for row in rows):
        notes.append(
            f"{NOT_TOLD_APART} not told apart from the best of its column: the paired 95% "
            "bootstrap interval of the difference holds zero."
        )
    notes += [
        f"{c.method} on {c.data}: the ranking was cut, and {c.missing:,} right answers that it "
        "does not list count as not found."
        for c in comparison.measured
        if c.missing
    ]
    notes += [
        f"{c.method} on {c.data}: {c.chosen['chosen']}, chosen without labels."
        for c in comparison.measured
        if c.chosen
    ]
    notes += [f"{f.method} on {f.data} failed: {f.reason}" for f in comparison.failures]
    return replace(table, notes=notes)


def difference_table(comparison: Comparison) -> Table:
    """What each method gains over the reference, in points, with its interval."""
    places = [place for place in _places(comparison) if place.column.best]
    columns = []
    for place in places:
        columns.append(replace(place.column, kind="points", best=None))
        columns.append(Column("95% interval", place.column.group, "text", None))
    gains = [comparison.differences(place.data, place.metric) for place in places]
    rows = []
    for method in comparison.methods:
        if method == comparison.reference:
            continue
        values: list[Value] = []
        marks = []
        for gain in (intervals.get(method) for intervals in gains):
            if gain is None:
                values += [None, None]
            else:
                values += [gain.mean, f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"]
            marks += [NO_DIFFERENCE if gain is not None and not gain.excludes_zero else "", ""]
        rows.append(Row(method, values, marks=marks))
    notes = [f"Points over {comparison.reference}; paired bootstrap over queries."]
    if any(NO_DIFFERENCE in row.marks for row in rows):
        notes.append(f"{NO_DIFFERENCE} the interval holds zero: not called a difference.")
    return Table(f"Difference to {comparison.reference}", columns, rows, notes=notes)


def comparison_tables(comparison: Comparison) -> list[Table]:
    """The comparison, and the differences where there are several methods."""
    several = len(comparison.methods) > 1
    return [comparison_table(comparison), *([difference_table(comparison)] if several else [])]


def _places(comparison: Comparison) -> list[_Place]:
    """The columns: by level if all of several sets have levels, else by set."""
    metrics = {data: comparison.headlines(data) for data in comparison.sets}
    names = [name for headlines in metrics.values() for name in headlines]
    measured_alone = any(cell.peak_bytes is not None for cell in comparison.measured)
    costs = {TIME: Column(TIME, "", "seconds", None)}
    if measured_alone:
        costs[MEMORY] = Column(MEMORY, "", "bytes", None)
    if len(metrics) > 1 and all(name in LEVELS for name in names):
        order = [*(name for name in LEVELS if name in names), *costs]
        return [
            _Place(data, name, replace(costs.get(name, Column("")), name=data, group=_level(name)))
            for name in order
            for data in metrics
        ]
    return [
        _Place(data, name, replace(costs.get(name, Column("")), name=_level(name), group=data))
        for data in metrics
        for name in (*metrics[data], *costs)
    ]


def _level(metric: str) -> str:
    return LEVELS.get(metric, metric)


def _ties(comparison: Comparison, place: _Place) -> set[str]:
    """Methods that the queries do not tell apart from the best of a column."""
    values = {method: place.value(comparison, method) for method in comparison.methods}
    scores = {method: value for method, value in values.items() if value is not None}
    if not place.column.best or len(scores) < 2:
        return set()
    best = max(scores, key=lambda method: scores[method])
    gains = comparison.differences(place.data, place.metric, best)
    return {method for method, gain in gains.items() if not gain.excludes_zero}


def study_table(study: Study) -> Table:
    """A study as a table in the paper's layout."""
    layouts = {"rows": _rows, "bars": _rows, "curve": _curve, "latency": _latency}
    table = layouts[study.form](study)
    notes = [*study.notes]
    notes += [f"{f.method} on {f.data} failed: {f.reason}" for f in study.failures]
    return replace(table, notes=notes)


def study_charts(study: Study) -> list[Chart]:
    """The figures of a study, one for each data set; none for tables."""
    charts = []
    for data in study.sets if study.form in ("curve", "bars") else ():
        title = study.title if len(study.sets) == 1 else f"{study.title}: {data}"
        names = {metric: _level(metric) for metric in study.metrics[data]}
        if study.form == "bars":
            series = {
                variant.label: [study.value(number, data, metric) for metric in names]
                for number, variant in enumerate(study.variants)
            }
            charts.append(figures.bars(title, list(names.values()), series))
        else:
            panels = {
                name: {published_label(c): v for c, v in _lines(study, data, metric).items()}
                for metric, name in names.items()
            }
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
        name = _level(metric)
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
            by_curve.setdefault(curve, {})[f"{data} {_level(metric)}"] = values
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
