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
    tables, numbers = [], []
    rows: list[list[Figure]] = []
    for result in ablation.results:
        if result.study.form == "curve":
            numbers.append(to_html(result.table()))
        elif result.study.form != "bars":
            tables.append(to_html(result.table()))
        rows.append(study_figures(result))
    several = any(len(result.sets) > 1 for result in ablation.results)
    # With several sets each study has a row of plots of its own, one for each set.
    charts = [*map(grid, rows)] if several else [grid([f for row in rows for f in row])]
    inside = folded("The curves in numbers", "".join(numbers))
    lead = f"Variations of {ablation.method}, one at a time. The dashed line is its own value."
    shown = grid(tables, "wide" if several else "tables")
    return section("ablations", "Ablations", shown, *charts, inside, lead=lead)


def study_figures(result: StudyResult) -> list[Figure]:
    """The plots of a study, one for each data set; none for tables."""
    makers = {"curve": study_curves, "bars": study_bars}
    maker = makers.get(result.study.form)
    return [] if maker is None else maker(result)


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


def study_bars(result: StudyResult) -> list[Figure]:
    """A plot for each data set: a group of bars for each metric."""
    charts = []
    for data in result.sets:
        metrics = result.metrics[data]
        series = {
            variant.label: [result.value(number, data, metric) for metric in metrics]
            for number, variant in enumerate(result.study.variants)
        }
        title = result.study.title if len(result.sets) == 1 else f"{result.study.title}: {data}"
        charts.append(plots.bars(title, [LEVELS.get(m, m) for m in metrics], series))
    return [chart for chart in charts if chart is not None]
