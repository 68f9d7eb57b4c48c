"""A comparison as tables, in the layouts of the paper.

Sets with levels (Revisited) stand below their levels, as in its tables of instance retrieval; all
others have their metrics below them, as in its tables of re-identification.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kinrank.evaluate.cells import Measured
from kinrank.evaluate.comparison import Comparison
from kinrank.evaluate.tables import Column, Row, Table, Value

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
        if self.metric == TIME:
            return Column(name, group, "seconds", None)
        if self.metric == MEMORY:
            return Column(name, group, "bytes", None)
        return Column(name, group)

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
        for c in comparison.cells.values()
        if isinstance(c, Measured) and c.missing
    ]
    notes += [f"{f.method} on {f.data} failed: {f.reason}" for f in comparison.failures]
    return replace(table, notes=notes)


def difference_table(comparison: Comparison) -> Table:
    """What each method gains over the reference, in points, with its interval."""
    columns, cells = [], []
    for place in _places(comparison):
        if place.is_metric:
            column = place.column()
            columns += [
                Column(column.name, column.group, "points", None),
                Column("95% interval", column.group, "text", None),
            ]
            cells.append(comparison.differences(place.data, place.metric))
    rows = []
    for method in comparison.methods:
        if method == comparison.reference:
            continue
        values: list[Value] = []
        marks = []
        for intervals in cells:
            found = intervals.get(method)
            if found is None:
                values += [None, None]
            else:
                values += [found.mean, f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}]"]
            marks += [NO_DIFFERENCE if found is not None and not found.excludes_zero else "", ""]
        rows.append(Row(method, values, marks=marks))
    notes = [f"Points over {comparison.reference}; paired bootstrap over queries."]
    if any(NO_DIFFERENCE in row.marks for row in rows):
        notes.append(f"{NO_DIFFERENCE} the interval holds zero: not called a difference.")
    return Table(f"Difference to {comparison.reference}", columns, rows, notes=notes)


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
    names = [name for found in metrics.values() for name in found]
    by_level = len(metrics) > 1 and all(name in LEVELS for name in names)
    extra = [TIME] + ([MEMORY] if _has_memory(comparison) else [])
    if by_level:
        order = [name for name in LEVELS if name in names] + extra
        return [_Place(data, name, True) for name in order for data in metrics]
    return [_Place(data, name, False) for data in metrics for name in (*metrics[data], *extra)]


def _has_memory(comparison: Comparison) -> bool:
    cells = (comparison.get(m, d) for m in comparison.methods for d in comparison.sets)
    return any(cell is not None and cell.peak_bytes is not None for cell in cells)


def _ties(comparison: Comparison, places: list[_Place]) -> set[tuple[str, _Place]]:
    """Cells that the queries do not tell apart from the best of their column."""
    ties = set()
    for place in places:
        if not place.is_metric:
            continue
        known = {method: place.value(comparison, method) for method in comparison.methods}
        scores = {method: value for method, value in known.items() if value is not None}
        if len(scores) < 2:
            continue
        best = max(scores, key=lambda method: scores[method])
        intervals = comparison.differences(place.data, place.metric, best)
        ties |= {(m, place) for m, found in intervals.items() if not found.excludes_zero}
    return ties
