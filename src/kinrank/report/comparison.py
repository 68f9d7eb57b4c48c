"""A comparison as tables.

Sets with levels (Revisited) stand below their levels, as in the paper's tables of instance
retrieval; all others have their metrics below them, as in its tables of re-identification.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinrank.report.table import Column, Row, Table, Value

if TYPE_CHECKING:
    from kinrank.evaluate.comparison import Comparison

LEVELS = {"mAP E": "Easy", "mAP M": "Medium", "mAP H": "Hard"}
NOT_TOLD_APART = "*"
NO_DIFFERENCE = "°"
TIME, MEMORY = "time", "memory"
NOTE = (
    "Metrics in per cent. Time is that of the ranking alone; memory is the peak of a process that "
    "did nothing else."
)


@dataclass(frozen=True)
class _Place:
    """A column: a metric, the time or the memory of a set."""

    data: str
    metric: str
    by_level: bool

    @property
    def is_metric(self) -> bool:
        return self.metric not in (TIME, MEMORY)

    def column(self) -> Column:
        group, name = self.data, LEVELS.get(self.metric, self.metric)
        if self.by_level:
            group, name = name, self.data
        if self.is_metric:
            return Column(name, group)
        return Column(name, group, "seconds" if self.metric == TIME else "bytes", None)

    def value(self, comparison: Comparison, method: str) -> float | None:
        cell = comparison.get(method, self.data)
        if cell is None:
            return None
        if self.is_metric:
            return cell.summary[self.metric]
        return cell.seconds if self.metric == TIME else cell.peak_bytes


def comparison_table(comparison: Comparison, title: str = "Comparison of methods") -> Table:
    """Methods as rows, sets and metrics as columns, with time and memory."""
    places = _places(comparison)
    ties = _ties(comparison, places)
    rows = []
    for method in comparison.methods:
        values: list[Value] = [place.value(comparison, method) for place in places]
        marks = [NOT_TOLD_APART if (method, place) in ties else "" for place in places]
        section = "first" if method == comparison.reference else "methods"
        rows.append(Row(method, values, section, marks))
    table = _unmarked_best(Table(title, [place.column() for place in places], rows))
    notes = [NOTE]
    if any(NOT_TOLD_APART in row.marks for row in table.rows):
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
    notes += [f"{f.method} on {f.data} failed: {f.reason}" for f in comparison.failures]
    return replace(table, notes=notes)


def difference_table(comparison: Comparison) -> Table:
    """What each method gains over the reference, in points, with its interval."""
    columns, gains = [], []
    for place in _places(comparison):
        if place.is_metric:
            column = place.column()
            columns += [
                Column(column.name, column.group, "points", None),
                Column("95% interval", column.group, "text", None),
            ]
            gains.append(comparison.differences(place.data, place.metric))
    rows = []
    for method in comparison.methods:
        if method == comparison.reference:
            continue
        values: list[Value] = []
        marks = []
        for intervals in gains:
            gain = intervals.get(method)
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


def _unmarked_best(table: Table) -> Table:
    """A value that looks the same as the best needs no mark."""
    rows = [
        replace(row, marks=["" if best else m for m, best in zip(row.marks, bold, strict=True)])
        for row, bold in zip(table.rows, table.best(), strict=True)
    ]
    return replace(table, rows=rows)


def _places(comparison: Comparison) -> list[_Place]:
    """The columns: by level if all of several sets have levels, else by set."""
    metrics = {data: comparison.headlines(data) for data in comparison.sets}
    names = [name for headlines in metrics.values() for name in headlines]
    by_level = len(metrics) > 1 and all(name in LEVELS for name in names)
    measured_alone = any(cell.peak_bytes is not None for cell in comparison.measured)
    extra = [TIME] + ([MEMORY] if measured_alone else [])
    if by_level:
        order = [name for name in LEVELS if name in names] + extra
        return [_Place(data, name, True) for name in order for data in metrics]
    return [_Place(data, name, False) for data in metrics for name in (*metrics[data], *extra)]


def _ties(comparison: Comparison, places: list[_Place]) -> set[tuple[str, _Place]]:
    """Cells that the queries do not tell apart from the best of their column."""
    ties = set()
    for place in places:
        values = {method: place.value(comparison, method) for method in comparison.methods}
        scores = {method: value for method, value in values.items() if value is not None}
        if place.is_metric and len(scores) > 1:
            best = max(scores, key=lambda method: scores[method])
            gains = comparison.differences(place.data, place.metric, best)
            ties |= {(method, place) for method, g in gains.items() if not g.excludes_zero}
    return ties
