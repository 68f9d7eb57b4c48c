"""Tables as CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from html import escape

from kinrank.errors import UnknownNameError
from kinrank.evaluate.tables import Column, Table, Value, heading, show

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def render(table: Table, form: str) -> str:
    """``table`` as csv, md, tex or html."""
    try:
        return RENDERERS[form](table)
    except KeyError:
        raise UnknownNameError("form", form, RENDERERS) from None


def to_csv(table: Table) -> str:
    """Plain numbers under one heading line: fractions as per cent, times in seconds."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([table.corner, *(_joined(column) for column in table.columns)])
    for row in table.rows:
        writer.writerow([row.label, *map(_raw, table.columns, row.values)])
    return stream.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table with the best in bold."""
    bold = table.best()
    lines = [
        f"| {' | '.join([table.corner, *(_md(_joined(column)) for column in table.columns)])} |",
        f"| --- {'| ---: ' * len(table.columns)}|",
    ]
    for number, row in enumerate(table.rows):
        cells = [
            (f"**{text}**" if strong and text else text) + _md(mark)
            for text, strong, mark in zip(
                [_md(show(c, v)) for c, v in zip(table.columns, row.values, strict=True)],
                bold[number],
                row.marks or [""] * len(row.values),
                strict=True,
            )
        ]
        lines.append(f"| {' | '.join([_md(row.label), *cells])} |")
    notes = [f"\n{note}" for note in table.notes]
    return "\n".join([f"**{table.title}**\n", *lines, *notes]) + "\n"


def to_latex(table: Table) -> str:
    """A booktabs table in the layout of the paper."""
    bold = table.best()
    lines = [
        r"\begin{table}[t]",
        rf"  \caption{{{_tex(table.title)}}}",
        r"  \centering",
        rf"  \begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"  \toprule",
        *_latex_head(table),
    ]
    for section in table.sections():
        lines.append(r"  \midrule")
        for number in section:
            row = table.rows[number]
            marks = row.marks or [""] * len(row.values)
            cells = [_tex(row.label)]
            for place, column in enumerate(table.columns):
                text = _tex(show(column, row.values[place])) or "--"
                strong = bold[number][place] and text != "--"
                raised = f"$^{{{_tex(marks[place])}}}$" if marks[place] else ""
                cells.append((rf"\textbf{{{text}}}" if strong else text) + raised)
            lines.append(f"  {' & '.join(cells)} \\\\")
    lines += [r"  \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \\[2pt] {{\footnotesize {_tex(note)}}}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def to_html(table: Table) -> str:
    """A table element that a page styles; wide ones scroll on their own."""
    bold = table.best()
    body = []
    for section in table.sections():
        body.append("<tbody>")
        for number in section:
            row = table.rows[number]
            marks = row.marks or [""] * len(row.values)
            cells = []
            for place, column in enumerate(table.columns):
                text = (
                    escape(show(column, row.values[place])) or '<span class="none">&ndash;</span>'
                )
                text = f"<b>{text}</b>" if bold[number][place] else text
                mark = f"<sup>{escape(marks[place])}</sup>" if marks[place] else ""
                kind = ' class="text"' if column.kind == "text" else ""
                cells.append(f"<td{kind}>{text}{mark}</td>")
            body.append(f'<tr><th scope="row">{escape(row.label)}</th>{"".join(cells)}</tr>')
        body.append("</tbody>")
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return (
        f'<figure class="table"><figcaption>{escape(table.title)}</figcaption>'
        f'<div class="scroll"><table><thead>{_html_head(table)}</thead>{"".join(body)}</table>'
        f"</div>{notes}</figure>"
    )


RENDERERS: dict[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
}


def _joined(column: Column) -> str:
    return f"{column.group} {heading(column)}".strip()


def _raw(column: Column, value: Value) -> Value:
    if value is None or isinstance(value, str):
        return value or ""
    if math.isnan(value):
        return ""
    return round(100 * value, 4) if column.kind in ("percent", "points") else value


def _md(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def _tex(text: str) -> str:
    return "".join(LATEX_SPECIAL.get(letter, letter) for letter in text)


def _latex_head(table: Table) -> list[str]:
    names = " & ".join(_tex(heading(column)) for column in table.columns)
    groups = table.groups()
    if not any(name for name, _ in groups):
        return [f"  {_tex(table.corner)} & {names} \\\\"]
    spans, rules, begin = [], [], 2
    for name, width in groups:
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{_tex(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{begin}-{begin + width - 1}}}")
        begin += width
    corner = rf"\multirow{{2.4}}{{*}}{{{_tex(table.corner)}}}"
    return [f"  {corner} & {' & '.join(spans)} \\\\", f"  {' '.join(rules)}", f"  & {names} \\\\"]


def _html_head(table: Table) -> str:
    names = "".join(f'<th scope="col">{escape(heading(column))}</th>' for column in table.columns)
    groups = table.groups()
    if not any(name for name, _ in groups):
        return f'<tr><th class="corner" scope="col">{escape(table.corner)}</th>{names}</tr>'
    spans = "".join(
        f'<th scope="colgroup" colspan="{width}">{escape(name)}</th>' for name, width in groups
    )
    corner = f'<th class="corner" scope="col" rowspan="2">{escape(table.corner)}</th>'
    return f"<tr>{corner}{spans}</tr><tr>{names}</tr>"
