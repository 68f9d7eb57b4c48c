"""Pages: one HTML file each that needs nothing else, light or dark, wide or narrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from kinrank._version import __version__
from kinrank.datasets.base import Dataset
from kinrank.metrics.results import paired_difference
from kinrank.optional import require
from kinrank.report import figures
from kinrank.report.comparison import LEVELS, comparison_tables, study_charts
from kinrank.report.figures import Chart
from kinrank.report.formats import published_label
from kinrank.report.thumbnails import has_pictures, picture

# Results of the rooms above, which are known here by their attributes alone.
Ablation: TypeAlias = Any
Comparison: TypeAlias = Any
Demo: TypeAlias = Any
Example: TypeAlias = Any
SetReport: TypeAlias = Any
Tuning: TypeAlias = Any

MOVERS = 8  # queries that gained or lost most


def check_extra() -> None:
    """Say that the extra is missing before the work, not after it."""
    _environment()
    require("matplotlib.figure", extra="report", purpose="Figures")


def fill(template: str, **context: Any) -> str:
    """A template with its gaps filled; what goes into them is escaped."""
    text: str = _environment().get_template(template).render(version=__version__, **context)
    return text


@cache
def _environment() -> Any:
    jinja2: Any = require("jinja2", extra="report", purpose="HTML pages")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kinrank.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["signed"] = signed
    return environment


def signed(number: float, digits: int = 2) -> str:
    """With its sign; a number that is shown as zero has both."""
    text = f"{abs(number):.{digits}f}"
    if not float(text):
        return f"±{text}"
    return ("+" if number > 0 else "\N{MINUS SIGN}") + text


def tuning_page(tuning: Tuning) -> str:
    """What tuning found, and why."""
    return fill("tuning.html", title=f"Parameters of {tuning.method}", tuning=tuning)


def demo_page(demo: Demo) -> str:
    """The queries of a demonstration before and after."""
    names = [
        f"{demo.name('query', row)}, {demo.words('query', row)}" for row in range(len(demo.queries))
    ]
    chart = None
    if demo.judged:
        chart = figures.before_after(
            "Average precision of each query", demo.before.ap / 100, demo.after.ap / 100, names
        )
    title = f"kinrank: {demo.subject.title}, ranked twice"
    return fill("demo.html", title=title, demo=demo, chart=chart, examples=demo.examples())


def comparison_page(
    comparison: Comparison,
    focus: str,
    sets: Sequence[Dataset],
    reports: Sequence[SetReport] = (),
    ablation: Ablation | None = None,
    title: str = "Re-ranking report",
) -> str:
    """The whole page.

    Parameters
    ----------
    comparison : methods on data sets
    focus : the method that is looked at closely
    sets : the data sets themselves, for their sizes
    reports : rankings before and after, one for each data set
    ablation : studies of the method, if they were run
    """
    return fill(
        "comparison.html",
        title=title,
        focus=focus,
        sets=sets,
        comparison=comparison,
        difference=paired_difference,
        tables=comparison_tables(comparison),
        gains=gain_charts(comparison),
        chosen=[cell for cell in comparison.measured if cell.chosen],
        queries=[_queries(report) for report in reports],
        examples={
            report.data.name: [_example(report, example) for example in report.examples]
            for report in reports
            if has_pictures(report.data) and report.examples
        },
        distances=[_distances(report) for report in reports],
        ablation=ablation,
        study_charts=study_charts,
        costs=cost_charts(comparison),
    )


def gain_charts(comparison: Comparison) -> list[Chart]:
    """What methods gain over the reference, a figure for each set and metric."""
    charts = []
    for data in comparison.sets:
        for metric in comparison.headlines(data)[:3]:
            gains = comparison.differences(data, metric)
            if all(gain.low == gain.high == 0 for gain in gains.values()):
                continue  # Everybody the same: there is nothing to see.
            ordered = {
                published_label(method): gain
                for method, gain in sorted(gains.items(), key=lambda item: -item[1].mean)
            }
            name = LEVELS.get(metric, metric)
            over = f"gain in {name} over {published_label(comparison.reference)} (points)"
            charts.append(figures.intervals(f"{data}: {name}", ordered, over))
    return [chart for chart in charts if chart is not None]


def cost_charts(comparison: Comparison) -> list[Chart]:
    """Time and memory of every method."""
    charts = []
    for data in comparison.sets:
        cells = [cell for cell in comparison.measured if cell.data == data]
        sizes = {
            published_label(cell.method): cell.peak_bytes / 1e6
            for cell in cells
            if cell.peak_bytes is not None
        }
        if cells:
            seconds = {published_label(cell.method): cell.seconds for cell in cells}
            charts.append(figures.amounts(f"{data}: time", seconds, "time of the ranking", "s"))
        if sizes:
            charts.append(figures.amounts(f"{data}: peak memory", sizes, "peak memory", "MB"))
    return charts


def _queries(report: SetReport) -> dict[str, Any]:
    """Who gained and who lost."""
    data = report.data.name
    (before, after) = (side.ap for side in report.sides)
    names = [report.query_name(query) for query in range(len(before))]
    gains = after - before
    counted = np.flatnonzero(~np.isnan(gains))
    order = counted[np.argsort(-gains[counted], kind="stable")]
    movers = {
        "Gained most": [q for q in order[:MOVERS] if gains[q] > 0],
        "Lost most": [q for q in order[::-1][:MOVERS] if gains[q] < 0],
    }
    return {
        "data": data,
        "scatter": figures.before_after(f"{data}: each query", before, after, names),
        "sorted": figures.sorted_gains(f"{data}: gains and losses", gains),
        "movers": {
            title: [(names[q], before[q], after[q], gains[q]) for q in rows]
            for title, rows in movers.items()
        },
    }


def _distances(report: SetReport) -> list[Chart]:
    """Distances of matches and non-matches, before and after."""
    charts = []
    for label, _, (edges, matches, others, order) in report.sides:
        share = f"{100 * order:.1f}% of all pairs of a match and a non-match"
        title = f"{report.data.name}: {label}"
        said = f"{share} are in the right order."
        charts.append(figures.distributions(title, edges, matches, others, said))
    return charts


def _example(report: SetReport, example: Example) -> dict[str, Any]:
    data = report.data
    query = example.query
    return {
        "name": report.query_name(query),
        "image": picture(data, "query", query),
        "lists": [
            (label, ap[query], [(row, right, picture(data, "gallery", row)) for row, right in rows])
            for (label, ap, _), rows in zip(report.sides, example.lists, strict=True)
        ],
    }
