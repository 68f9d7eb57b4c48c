"""The sections of the report, each from data to HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from kinrank.evaluate.comparison import Comparison
from kinrank.evaluate.layout import LEVELS, comparison_table, difference_table
from kinrank.evaluate.render import to_html
from kinrank.evaluate.reporting import pictures, plots
from kinrank.evaluate.reporting.gather import Example, SetReport
from kinrank.evaluate.reporting.svg import Figure
from kinrank.metrics.bootstrap import paired_difference

LISTED = 8
WORDS = {
    "mAP": "mean average precision",
    "mAP E": "mean average precision, Easy",
    "mAP M": "mean average precision, Medium",
    "mAP H": "mean average precision, Hard",
    "R1": "queries whose first result is right",
    "R5": "queries with a right one in the first five",
    "R10": "queries with a right one in the first ten",
    "mINP": "how early the last right answer comes",
    "hit@1": "queries whose first result is right",
    "recall@10": "right answers found in the first ten",
}


def section(key: str, title: str, *parts: str, lead: str = "") -> str:
    """A part of the page with a heading that can be linked to; nothing if it would be empty."""
    inside = "".join(parts)
    if not inside:
        return ""
    said = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return f'<section id="{key}"><h2>{escape(title)}</h2>{said}{inside}</section>'


def folded(title: str, inside: str) -> str:
    """What is there for those who want it."""
    return f"<details><summary>{title}</summary>{inside}</details>" if inside else ""


def tiles(comparison: Comparison, data: str, focus: str) -> str:
    """The figures that matter, before and after, with what the queries say about the change."""
    before, after = comparison.get(comparison.reference, data), comparison.get(focus, data)
    if before is None or after is None or before.method == after.method:
        return ""
    parts = []
    for metric in after.headlines:
        change = paired_difference(after.per_query[metric], before.per_query[metric])
        kind = "same" if not change.excludes_zero else "gained" if change.mean > 0 else "lost"
        points = f"{100 * change.mean:+.1f} points"
        span = f"95% interval {100 * change.low:+.1f} to {100 * change.high:+.1f}"
        parts.append(
            f'<div class="tile"><h3>{escape(metric)}</h3>'
            f'<p class="words">{escape(WORDS.get(metric, ""))}</p>'
            f'<p class="big"><span class="old">{100 * before.summary[metric]:.1f}</span> '
            f'<span class="arrow">→</span> <b>{100 * after.summary[metric]:.1f}</b></p>'
            f'<p class="change {kind}">{points}</p><p class="note">{span}</p></div>'
        )
    return f'<h3 class="set">{escape(data)}</h3><div class="tiles">{"".join(parts)}</div>'


def comparison_section(comparison: Comparison) -> str:
    """The table, the differences, and what they cost."""
    gains: list[Figure | None] = []
    for data in comparison.sets:
        for metric in comparison.headlines(data)[:3]:
            found = comparison.differences(data, metric)
            if all(one.low == one.high == 0 for one in found.values()):
                continue  # Everybody the same: there is nothing to see.
            ordered = dict(sorted(found.items(), key=lambda item: -item[1].mean))
            title = f"{data}: {LEVELS.get(metric, metric)}"
            gains.append(plots.intervals(title, ordered))
    several = len(comparison.methods) > 1
    return section(
        "comparison",
        "Comparison",
        to_html(comparison_table(comparison)),
        grid(gains) if several else "",
        folded(
            "All differences in numbers", to_html(difference_table(comparison)) if several else ""
        ),
        lead="The best of each column is bold. Plots show the gain over "
        f"{comparison.reference} with its 95% interval; grey ones cannot be called a difference.",
    )


def cost_section(comparison: Comparison) -> str:
    """Time and memory of every method."""
    parts = []
    for data in comparison.sets:
        cells = [cell for m in comparison.methods if (cell := comparison.get(m, data)) is not None]
        if not cells:
            continue
        parts.append(plots.amounts(f"{data}: time", {c.method: c.seconds for c in cells}, "s"))
        sizes = {c.method: c.peak_bytes / 1e6 for c in cells if c.peak_bytes is not None}
        if sizes:
            parts.append(plots.amounts(f"{data}: peak memory", sizes, "MB"))
    lead = "Time of the ranking alone. Memory is the peak of a process that did nothing else."
    return section("cost", "Time and memory", grid(parts), lead=lead)


def queries_section(reports: Sequence[SetReport]) -> str:
    """Who gained and who lost."""
    parts = []
    for report in reports:
        names = [report.query_name(query) for query in range(len(report.ap_before))]
        gains = report.ap_after - report.ap_before
        title = f"{report.data.name}: each query"
        parts.append(
            f'<h3 class="set">{escape(report.data.name)}</h3>'
            + grid(
                [
                    plots.before_after(title, report.ap_before, report.ap_after, names),
                    str(plots.sorted_gains(f"{report.data.name}: gains and losses", gains) or "")
                    + _movers(report, names, gains),
                ],
                kind="pair",
            )
        )
    lead = "Average precision of each query before and after. Above the line is a gain."
    return section("queries", "Query by query", *parts, lead=lead)


def _movers(
    report: SetReport, names: Sequence[str], gains: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> str:
    counted = np.flatnonzero(~np.isnan(gains))
    order = counted[np.argsort(-gains[counted], kind="stable")]
    columns = {
        "Gained most": [q for q in order[:LISTED] if gains[q] > 0],
        "Lost most": [q for q in order[::-1][:LISTED] if gains[q] < 0],
    }
    parts = []
    for title, rows in columns.items():
        lines = "".join(
            f'<tr><th scope="row">{escape(names[q])}</th><td>{100 * report.ap_before[q]:.1f}</td>'
            f"<td>{100 * report.ap_after[q]:.1f}</td><td><b>{100 * gains[q]:+.1f}</b></td></tr>"
            for q in rows
        )
        lines = lines or '<tr><td colspan="4" class="none">none</td></tr>'
        parts.append(
            f'<table class="movers"><caption>{title}</caption><thead><tr><th scope="col">query</th>'
            '<th scope="col">before</th><th scope="col">after</th><th scope="col">change</th></tr>'
            f"</thead><tbody>{lines}</tbody></table>"
        )
    return f'<div class="movers-pair">{"".join(parts)}</div>'


def distances_section(reports: Sequence[SetReport]) -> str:
    """Distances of matches and non-matches, before and after."""
    parts = []
    for report in reports:
        pair: list[Figure | None] = []
        for name, found in zip((report.before, report.after), report.histograms, strict=True):
            caption = (
                f"{100 * found.order:.1f}% of all pairs of a match and a non-match are in the "
                "right order."
            )
            title = f"{report.data.name}: {name}"
            pair.append(
                plots.distributions(title, found.edges, found.matches, found.others, caption)
            )
        parts.append(grid(pair, "pair"))
    lead = (
        "The less the two overlap, the better one threshold serves all queries. Heights are "
        "shares of each kind."
    )
    return section("distances", "Distances", *parts, lead=lead)


def examples_section(reports: Sequence[SetReport]) -> str:
    """The retrieval examples of the paper's last figure."""
    parts = []
    for report in reports:
        if pictures.has_pictures(report.data) and report.examples:
            shown = "".join(_example(report, example) for example in report.examples)
            parts.append(f'<h3 class="set">{escape(report.data.name)}</h3>{shown}')
    lead = (
        "The query, and the first ten before and after. Green with a tick is right, red with a "
        "cross is wrong; what the protocol does not count is left out."
    )
    return section("examples", "Retrieval examples", *parts, lead=lead)


def _example(report: SetReport, example: Example) -> str:
    query = pictures.picture(report.data, "query", example.query)
    name = report.query_name(example.query)
    image = f'<img src="{query}" alt="{escape(name)}">' if query else ""
    rows = []
    lists = (
        (report.before, example.before, example.ap_before),
        (report.after, example.after, example.ap_after),
    )
    for label, found, ap in lists:
        cells = "".join(_result(report, row, right, n) for n, (row, right) in enumerate(found, 1))
        rows.append(
            f'<div class="strip"><p>{escape(label)} <br><small>AP {100 * ap:.1f}</small></p>'
            f"<ol>{cells}</ol></div>"
        )
    return (
        f'<article class="example"><figure class="query">{image}<figcaption>{escape(name)}'
        f"</figcaption></figure><div>{''.join(rows)}</div></article>"
    )


def _result(report: SetReport, row: int, right: bool, rank: int) -> str:
    source = pictures.picture(report.data, "gallery", row)
    kind, word = ("right", "right") if right else ("wrong", "wrong")
    inside = f'<img src="{source}" alt="{word}">' if source else f"<span>{row}</span>"
    return f'<li class="{kind}" title="rank {rank}, gallery row {row}: {word}">{inside}</li>'


def grid(parts: Sequence[Figure | str | None], kind: str = "") -> str:
    """Plots side by side, as many as fit."""
    shown = [part for part in parts if part]
    if not shown:
        return ""
    wrapped = "".join(f"<div>{part}</div>" for part in shown)
    return f'<div class="grid {kind}">{wrapped}</div>'
