"""The report: one HTML file that needs nothing else, light or dark, wide or narrow."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from kinrank._version import __version__
from kinrank.datasets.base import Dataset
from kinrank.evaluate.ablation import Ablation
from kinrank.evaluate.comparison import Comparison
from kinrank.evaluate.reporting import sections
from kinrank.evaluate.reporting.gather import SetReport
from kinrank.evaluate.reporting.studies import ablation_section

THEME = '<button id="theme" type="button" title="Light or dark">◐</button>'
NAMES = {
    "comparison": "Comparison",
    "queries": "Query by query",
    "examples": "Examples",
    "distances": "Distances",
    "ablations": "Ablations",
    "cost": "Time and memory",
}


def render_page(
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
    parts = {
        "comparison": sections.comparison_section(comparison),
        "queries": sections.queries_section(reports),
        "examples": sections.examples_section(reports),
        "distances": sections.distances_section(reports),
        "ablations": ablation_section(ablation),
        "cost": sections.cost_section(comparison),
    }
    links = "".join(f'<a href="#{key}">{NAMES[key]}</a>' for key, part in parts.items() if part)
    figures = "".join(sections.tiles(comparison, data, focus) for data in comparison.sets)
    body = (
        f"{_header(comparison, focus, sets, title)}<nav>{links}</nav>"
        f'<section id="summary" aria-label="Summary">{figures}</section>{"".join(parts.values())}'
        f"{_footer()}"
    )
    return document(title, body)


def document(title: str, body: str) -> str:
    """A page that needs nothing else, with the styles of reports and a button for the theme."""
    style = f"{_resource('plot.css')}{_resource('page.css')}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n<script>\n{_resource('page.js')}</script>\n"
        "</body>\n</html>\n"
    )


def _header(comparison: Comparison, focus: str, sets: Sequence[Dataset], title: str) -> str:
    sizes = "; ".join(
        f"{data.name}: {len(data.query):,} queries over {len(data.gallery):,} gallery rows"
        for data in sets
    )
    several = len(comparison.methods)
    methods = f"{several} methods" if several > 1 else "1 method"
    return (
        f"<header>{THEME}<h1>{escape(title)}</h1>"
        f"<p><b>{escape(focus)}</b> against <b>{escape(comparison.reference)}</b>, and "
        f"{methods} in all. {escape(sizes)}.</p></header>"
    )


def _footer() -> str:
    return (
        f"<footer>kinrank {escape(__version__)} · made by <code>kinrank report</code> · "
        "metrics in per cent, intervals by paired bootstrap over queries</footer>"
    )


def plot_style() -> str:
    """The style sheet of plots, for those in files of their own."""
    return _resource("plot.css")


def _resource(name: str) -> str:
    return files("kinrank.evaluate.reporting").joinpath(name).read_text(encoding="utf-8")
