"""Tables as the paper has them: methods as rows, sets and metrics as columns, the best in bold.

They are written as CSV, Markdown, LaTeX and HTML.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import Literal, NamedTuple

from kinrank.errors import UnknownNameError
from kinrank.latex import escaped
from kinrank.registry import method_class, methods

Kind = Literal["percent", "points", "seconds", "milliseconds", "bytes", "text"]
Value = float | str | None

_UNITS = {"seconds": "s", "milliseconds": "ms", "bytes": "MB"}
_SCALES = {"percent": 100, "points": 100, "milliseconds": 1000, "bytes": 1e-6}
# Names in papers, where they are not those of the classes.
PUBLISHED = {"none": "Baseline", "alphaqe": "αQE", "kreciprocal": "k-reciprocal"}  # noqa: RUF001
_GREEK = dict(zip(("alpha", "beta", "kappa", "mu", "omega", "sigma"), "αβκμωσ", strict=True))
_WIDE = 6  # columns of values, from which on a table is wider than a column of a two-column page
_PACKAGES = r"% needs \usepackage{booktabs} and \usepackage{multirow}"


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


def render(table: Table, form: str, *, two_columns: bool = False) -> str:
    """``table`` as csv, md, tex or html; two_columns : of the page that LaTeX makes."""
    if form == "tex":
        return to_latex(table, two_columns=two_columns)
    try:
        return RENDERERS[form](table)
    except KeyError:
        raise UnknownNameError("form", form, RENDERERS) from None


def to_csv(table: Table) -> str:
    """Plain numbers under one heading line: fractions as per cent, times and sizes as they are."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([table.corner, *map(_joined, table.columns)])
    for row in table.rows:
        writer.writerow([row.label, *map(_plain, table.columns, row.values)])
    return stream.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table with the best in bold."""
    lines = [
        f"| {' | '.join([table.corner, *(_md(_joined(column)) for column in table.columns)])} |",
        f"| --- {'| ---: ' * len(table.columns)}|",
    ]
    for row, cells in zip(table.rows, table.cells(), strict=True):
        texts = [(f"**{_md(text)}**" if bold else _md(text)) + _md(m) for text, bold, m in cells]
        lines.append(f"| {' | '.join([_md(row.label), *texts])} |")
    notes = [f"\n{note}" for note in table.notes]
    return "\n".join([f"**{table.title}**\n", *lines, *notes]) + "\n"


def to_latex(table: Table, *, two_columns: bool = False) -> str:
    """A booktabs table in the layout of the paper, with methods by their published names.

    two_columns : for a page of two columns: a wide table goes over both of them (``table*``), and
        one that fits has smaller letters
    """
    spans_both = two_columns and len(table.columns) >= _WIDE
    environment = "table*" if spans_both else "table"
    lines = [
        _PACKAGES,
        rf"\begin{{{environment}}}[t]",
        rf"  \caption{{{escaped(table.title)}}}",
        r"  \centering",
        *([r"  \small"] if two_columns and not spans_both else []),
        rf"  \begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"  \toprule",
        *_latex_head(table),
    ]
    shown = table.cells()
    for section in table.sections():
        lines.append(r"  \midrule")
        for number in section:
            cells = [_tex_label(table.rows[number].label), *map(_tex_cell, shown[number])]
            lines.append(f"  {' & '.join(cells)} \\\\")
    lines += [r"  \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \\[2pt] {{\footnotesize {escaped(note)}}}" for note in table.notes]
    return "\n".join([*lines, rf"\end{{{environment}}}"]) + "\n"


def to_html(table: Table) -> str:
    """A table element that a page styles; wide ones scroll on their own."""
    from kinrank.report.pages import fill  # which knows tables

    return fill("table.html", table=table)


RENDERERS: dict[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
}


def _plain(column: Column, value: Value) -> Value:
    number = column.scaled(value)
    if number is None:
        return value if isinstance(value, str) else ""
    return round(number, 4) if column.kind in ("percent", "points") else value


def _joined(column: Column) -> str:
    return f"{column.group} {column.heading}".strip()


def _md(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def _tex_cell(cell: Cell) -> str:
    text = re.sub(r"-(?=\d)", "$-$", escaped(cell.text)) or "--"
    mark = {"": "", "°": r"$^\circ$"}.get(cell.mark, f"$^{{{escaped(cell.mark)}}}$")
    return (rf"\textbf{{{text}}}" if cell.bold else text) + mark


def published_label(label: str) -> str:
    """``cas(k1=60, mu=0.1)`` as "CAS (k₁=60, μ=0.1)"; other labels as they are."""
    name, params = _published(label)
    words = [_published_parameter(word) for word in params]
    return f"{name} ({', '.join(words)})" if words else name


def _published(label: str) -> tuple[str, list[str]]:
    """The name of a method in papers and its parameters as they were typed; or all of the label."""
    name, bracket, params = label.partition("(")
    if name not in PUBLISHED and name not in methods():
        return label, []
    published = PUBLISHED[name] if name in PUBLISHED else method_class(name).__name__
    return published, params.removesuffix(")").split(", ") if bracket else []


def _published_parameter(word: str) -> str:
    name, sign, value = word.partition("=")
    subscripts = {"k1": "k₁", "k2": "k₂"}
    return {**_GREEK, **subscripts}.get(name, name) + sign + value


def _tex_label(label: str) -> str:
    r"""``cas(k1=60, mu=0.1)`` as CAS ($k_1=60$, $\mu=0.1$); other labels as they are."""
    name, params = _published(label)
    words = [_tex_parameter(word) for word in params]
    return escaped(name) + (f" ({', '.join(words)})" if words else "")


def _tex_parameter(word: str) -> str:
    name, _, value = word.partition("=")
    sign = rf"\{name}" if name in _GREEK else re.sub(r"^k(\d)$", r"k_\1", name)
    if sign == name or not re.fullmatch(r"[-+.\de]+", value):
        return escaped(word)
    return f"${sign}={value}$"


def _latex_head(table: Table) -> list[str]:
    names = " & ".join(escaped(column.heading) for column in table.columns)
    groups = table.groups()
    if not any(name for name, _ in groups):
        return [f"  {escaped(table.corner)} & {names} \\\\"]
    spans = []
    rules = []
    begin = 2
    for name, width in groups:
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{escaped(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{begin}-{begin + width - 1}}}")
        begin += width
    corner = rf"\multirow{{2.4}}{{*}}{{{escaped(table.corner)}}}"
    return [f"  {corner} & {' & '.join(spans)} \\\\", f"  {' '.join(rules)}", f"  & {names} \\\\"]
