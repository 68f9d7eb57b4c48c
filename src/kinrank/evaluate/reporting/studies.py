"""The section of the ablations: tables in the paper's layout, curves and bars."""

from __future__ import annotations

from kinrank.evaluate.ablation import Ablation, StudyResult
from kinrank.evaluate.layout import LEVELS
from kinrank.evaluate.render import to_html
from kinrank.evaluate.reporting import plots
from kinrank.evaluate.reporting.sections import folded, grid, section
from kinrank.evaluate.reporting.svg import Figure


def ablation_section(ablation: Ablation | None) -> str:
    """The paper's ablations: tables, and curves of the parameters."""
    if ablation is None:
        return ""
    tables: list[Figure | str | None] = []
    charts: list[Figure | str | None] = []
    numbers = []
    for result in ablation.results:
        if result.study.form == "rows":
            tables.append(to_html(result.table()))
        elif result.study.form == "bars":
            charts.append(study_bars(result))
        elif result.study.form == "curve":
            charts += study_curves(result)
            numbers.append(to_html(result.table()))
        else:
            tables.append(to_html(result.table()))
    inside = folded("The curves in numbers", "".join(numbers))
    lead = f"Variations of {ablation.method}, one at a time. The dashed line is its own value."
    return section(
        "ablations", "Ablations", grid(tables, "tables"), grid(charts), inside, lead=lead
    )


def study_curves(result: StudyResult) -> list[Figure]:
    """A plot for each data set: a panel for each metric, a curve for each method."""
    labels = list(dict.fromkeys(variant.label for variant in result.study.variants))
    place_of = {(v.section, v.label): n for n, v in enumerate(result.study.variants)}
    charts = []
    for data in result.sets:
        panels: dict[str, dict[str, list[float | None]]] = {}
        for metric in result.metrics[data]:
            panel = panels.setdefault(LEVELS.get(metric, metric), {})
            for curve in result.curves():
                numbers = [place_of.get((curve, label)) for label in labels]
                panel[curve] = [
                    None if number is None else result.value(number, data, metric)
                    for number in numbers
                ]
        title = result.study.title if len(result.sets) == 1 else f"{result.study.title}: {data}"
        x_title, own = result.study.parameter, result.study.own
        charts.append(plots.curves(title, labels, panels, x_title=x_title, own=own))
    return [chart for chart in charts if chart is not None]


def study_bars(result: StudyResult) -> Figure | None:
    """Groups of bars, one for each data set and metric."""
    groups = []
    for data, metric in result.places():
        name = LEVELS.get(metric, metric)
        groups.append(name if len(result.sets) == 1 else f"{data} {name}")
    series = {
        variant.label: [result.value(number, *place) for place in result.places()]
        for number, variant in enumerate(result.study.variants)
    }
    return plots.bars(result.study.title, groups, series)
