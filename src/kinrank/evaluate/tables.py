"""Tables as the paper has them: methods as rows, sets and metrics as columns, the best in bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import numpy as np

Kind = Literal["percent", "points", "seconds", "milliseconds", "bytes", "number", "text"]
Value = float | str | None


@dataclass(frozen=True)
class Column:
    """A column under a heading that it may share with its neighbours.

    Attributes
    ----------
    name, group : the heading, and the one above it ("" for none)
    kind : how values are shown; percent and points take fractions
    best : which value is the best one, None for columns without one
    """

    name: str
    group: str = ""
    kind: Kind = "percent"
    best: Literal["max", "min"] | None = "max"


@dataclass(frozen=True)
class Row:
    """A row; rows of one section stand between two rules."""

    label: str
    values: Sequence[Value]
    section: str = ""
    marks: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    Attributes
    ----------
    corner : the heading of the row labels
    notes : lines below the table
    bold : where the best is looked for: in each column, in each section of it, or in each row
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    corner: str = "Method"
    notes: Sequence[str] = field(default=())
    bold: Literal["columns", "sections", "rows"] = "columns"

    def best(self) -> list[list[bool]]:
        """For each row and column, whether the value is a best one, as shown."""
        bold = [[False] * len(self.columns) for _ in self.rows]
        for scope in self._scopes():
            shown = {at: self._shown(*at) for at in scope}
            known = [value for value in shown.values() if value is not None]
            goal_of = self.columns[scope[0][1]].best if scope else None
            if goal_of is None or len(known) < 2:
                continue
            goal = max(known) if goal_of == "max" else min(known)
            for (row, place), value in shown.items():
                bold[row][place] = value == goal
        return bold

    def _scopes(self) -> list[list[tuple[int, int]]]:
        """The groups of (row, column) that are compared with each other."""
        rows, columns = range(len(self.rows)), range(len(self.columns))
        if self.bold == "rows":
            return [[(row, place) for place in columns] for row in rows]
        parts = self.sections() if self.bold == "sections" else [list(rows)]
        return [[(row, place) for row in part] for place in columns for part in parts]

    def _shown(self, row: int, place: int) -> float | None:
        return _rounded(self.columns[place], self.rows[row].values[place])

    def sections(self) -> list[list[int]]:
        """Row numbers, one list per section."""
        numbered = groupby(range(len(self.rows)), key=lambda row: self.rows[row].section)
        return [list(rows) for _, rows in numbered]

    def groups(self) -> list[tuple[str, int]]:
        """Upper headings and how many columns each spans."""
        return [(name, len(list(part))) for name, part in groupby(c.group for c in self.columns)]


def show(column: Column, value: Value) -> str:
    """A value as text, "" for none."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    number = float(value)
    if column.kind == "seconds":
        return f"{number:.0f}" if number >= 99.5 else f"{number:.3g}"
    formats = {
        "percent": f"{100 * number:.1f}",
        "points": f"{100 * number:+.1f}",
        "milliseconds": f"{1000 * number:,.0f}",
        "bytes": f"{number / 1e6:,.0f}",
        "number": f"{number:g}",
        "text": str(value),
    }
    return formats[column.kind]


def unit(column: Column) -> str:
    """What a heading adds so that its numbers can be read."""
    return {"seconds": "s", "milliseconds": "ms", "bytes": "MB"}.get(column.kind, "")


def heading(column: Column) -> str:
    """The name of a column with its unit."""
    return f"{column.name} ({unit(column)})" if unit(column) else column.name


def _rounded(column: Column, value: Value) -> float | None:
    """As shown, so that two values that look the same are both the best."""
    if value is None or isinstance(value, str) or np.isnan(value):
        return None
    if column.kind in ("percent", "points"):
        return round(100 * value, 1)
    return float(value)
