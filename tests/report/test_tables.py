import csv
import io

import pytest

from kinrank import UnknownNameError
from kinrank.report.formats import Column, Row, Table, render

TABLE = Table(
    "A & B_1",
    [Column("mAP", "set"), Column("R1", "set"), Column("time", "", "seconds", "min")],
    [
        Row("none", [0.5, 0.9, 0.01], "first"),
        Row("cas|x", [0.70004, None, 1.5], "rest", ["", "", "*"]),
        Row("other", [0.7, 0.8, 120.0], "rest"),
    ],
    notes=["A note with 100%."],
)


def test_the_best_as_shown_is_bold() -> None:
    # 70.004 and 70.0 look the same, so both are; the smallest time is the best one.
    bold = [[False, True, True], [True, False, False], [True, False, False]]
    assert TABLE.best() == bold


def test_bold_by_section_and_by_row() -> None:
    columns = [Column("a"), Column("b")]
    rows = [Row("x", [0.1, 0.4], "1"), Row("y", [0.2, 0.3], "1"), Row("z", [0.9, 0.1], "2")]
    by_section = Table("t", columns, rows, bold="sections").best()
    assert by_section == [[False, True], [True, False], [False, False]]
    by_row = Table("t", columns, rows, bold="rows").best()
    assert by_row == [[False, True], [False, True], [True, False]]


def test_csv_is_plain_numbers() -> None:
    lines = list(csv.reader(io.StringIO(render(TABLE, "csv"))))
    assert lines[0] == ["Method", "set mAP", "set R1", "time (s)"]
    assert lines[2] == ["cas|x", "70.004", "", "1.5"]


def test_markdown() -> None:
    text = render(TABLE, "md")
    assert "| Method | set mAP | set R1 | time (s) |" in text
    assert r"| cas\|x | **70.0** |  | 1.500\* |" in text
    assert "A note with 100%." in text


def test_latex() -> None:
    text = render(TABLE, "tex")
    assert r"\caption{A \& B\_1}" in text
    assert r"\multicolumn{2}{c}{set}" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"Baseline & 50.0 & \textbf{90.0} & \textbf{0.010} \\" in text
    assert r"\textbf{70.0} & -- & 1.500$^{*}$" in text
    assert text.count(r"\midrule") == 2
    assert r"100\%" in text
    assert text.count("{") == text.count("}")


def test_html_is_escaped() -> None:
    text = render(Table("<b>", [Column("<i>")], [Row("&", ["<script>"])]), "html")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "&lt;i&gt;" in text


def test_values_of_a_column_have_the_same_digits() -> None:
    assert Column("a").texts([float("nan"), None, 0.5]) == ["", "", "50.0"]
    assert Column("a", kind="points").texts([0.012, -0.2]) == ["+1.2", "-20.0"]
    assert Column("a", kind="bytes").texts([1_234_567_890]) == ["1,235"]
    assert Column("a", kind="milliseconds").texts([1.278]) == ["1,278"]
    assert Column("a", kind="seconds").texts([0.012345, 1, 120]) == ["0.012", "1.000", "120.000"]
    assert Column("a", kind="seconds").texts([31.0, 1200.25]) == ["31", "1,200"]


def test_latex_has_only_what_pdflatex_reads_and_published_names() -> None:
    labels = ["cas(k1=60, omega=0.1, variant=paper)", "alphaqe", "aqewd", "kreciprocal(pool=5_0)"]
    rows = [Row(label, [0.5], marks=["°"]) for label in labels] + [Row("x", ["[-1.0, +2.0]"])]
    text = render(Table("Effect of k₁ and ω → μ", [Column("a<b")], rows, corner="κ"), "tex")
    assert text.isascii()
    assert "[$-$1.0, +2.0]" in text
    assert r"CAS ($k_1=60$, $\omega=0.1$, variant=paper) & \textbf{50.0}$^\circ$" in text
    assert r"$\alpha$QE & " in text
    assert "AQEwD & " in text
    assert r"k-reciprocal (pool=5\_0)" in text
    assert text.startswith(r"% needs \usepackage{booktabs}")


def test_unknown_form() -> None:
    with pytest.raises(UnknownNameError, match="csv, html, md, tex"):
        render(TABLE, "pdf")
