"""Tables as the paper has them: methods as rows, sets and metrics as columns, the best in bold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import Literal, NamedTuple

Kind = Literal["percent", "points", "seconds", "milliseconds", "bytes", "text"]
Value = float | str | None

_UNITS = {"seconds": "s", "milliseconds": "ms", "bytes": "MB"}
_SCALES = {"percent": 100, "points": 100, "milliseconds": 1000, "bytes": 1e-6}


class Cell(NamedTuple):
    """A value as it is shown; "" for none."""

    text: str
    bold: bool
    mark: str


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

    @property
    def heading(self) -> str:
        return f"{self.name} ({_UNITS[self.kind]})" if self.kind in _UNITS else self.name

    def scaled(self, value: Value) -> float | None:
        """The number that is shown, None where there is none."""
        if value is None or isinstance(value, str) or math.isnan(value):
            return None
        return float(value) * _SCALES.get(self.kind, 1)

    def texts(self, values: Sequence[Value]) -> list[str]:
        """Values as they are shown, all with as many digits behind the point."""
        numbers = [self.scaled(value) for value in values]
        digits = {"percent": 1, "points": 1}.get(self.kind, 0)
        if self.kind == "seconds":
            least = min((number for number in numbers if number), default=1.0)
            digits = min(max(1 - math.floor(math.log10(least)), 0), 3)
        form = f"+.{digits}f" if self.kind == "points" else f",.{digits}f"
        return [
            value if isinstance(value, str) else "" if number is None else format(number, form)
            for value, number in zip(values, numbers, strict=True)
        ]


@dataclass(frozen=True)
class Row:
    """A row; rows of one section stand between two rules."""

    label: str
    values: Sequence[Value]
    section: str = ""
    marks: list[str] = field(default_factory=list)


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

    def cells(self) -> list[list[Cell]]:
        """Every value as it is shown, row by row."""
        columns = [
            column.texts([row.values[place] for row in self.rows])
            for place, column in enumerate(self.columns)
        ]
        return [
            [*map(Cell, texts, bold, row.marks or [""] * len(bold))]
            for row, bold, *texts in zip(self.rows, self.best(), *columns, strict=True)
        ]

    def best(self) -> list[list[bool]]:
        """For each row and column, whether the value is a best one, as shown."""
        scopes: dict[object, list[tuple[int, int, float]]] = {}
        for (r, row), (c, column) in product(enumerate(self.rows), enumerate(self.columns)):
            value = column.scaled(row.values[c])
            if value is not None and column.best:
                # Two values that look the same are both the best.
                value = round(value, 1) if column.kind in ("percent", "points") else value
                scope = {"rows": r, "sections": (c, row.section), "columns": c}[self.bold]
                scopes.setdefault(scope, []).append((r, c, value))
        bold = [[False] * len(self.columns) for _ in self.rows]
        for cells in scopes.values():
            pick = max if self.columns[cells[0][1]].best == "max" else min
            goal = pick(value for _, _, value in cells)
            for r, c, value in cells:
                bold[r][c] = value == goal and len(cells) > 1
        return bold

    def sections(self) -> list[list[int]]:
        """Row numbers, one list per section."""
        numbered = groupby(range(len(self.rows)), key=lambda row: self.rows[row].section)
        return [list(rows) for _, rows in numbered]

    def groups(self) -> list[tuple[str, int]]:
        """Upper headings and how many columns each spans."""
        return [(name, len(list(same))) for name, same in groupby(c.group for c in self.columns)]
