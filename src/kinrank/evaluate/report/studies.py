"""The section of the ablations: tables in the paper's layout, curves and bars."""

from __future__ import annotations

from kinrank.evaluate.ablation import Ablation, StudyResult
from kinrank.evaluate.layout import LEVELS
from kinrank.evaluate.render import to_html
from kinrank.evaluate.report import plots
from kinrank.evaluate.report.sections import folded, grid, section
from kinrank.evaluate.spec import MethodSpec


def ablation_section(ablation: Ablation | None) -> str:
    """The paper's ablations: tables, and curves of the parameters."""
    if ablation is None:
        return ""
    tables, charts, numbers = [], [], []
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
    return section("ablations", "Ablations", grid(tables), grid(charts), inside, lead=lead)


def study_curves(result: StudyResult) -> list[str]:
    """A plot for each data set: one curve for each metric and method."""
    labels = list(dict.fromkeys(variant.label for variant in result.study.variants))
    place_of = {(v.section, v.label): n for n, v in enumerate(result.study.variants)}
    default = default_label(result)
    charts = []
    for data in result.sets:
        series: dict[str, list[float | None]] = {}
        for curve in result.curves():
            for metric in result.metrics[data]:
                name = LEVELS.get(metric, metric)
                values: list[float | None] = []
                for label in labels:
                    number = place_of.get((curve, label))
                    values.append(None if number is None else result.value(number, data, metric))
                series[name if len(result.curves()) == 1 else f"{curve}, {name}"] = values
        title = result.study.title if len(result.sets) == 1 else f"{result.study.title}: {data}"
        chart = plots.curves(title, labels, series, x_title=result.study.parameter, default=default)
        charts.append(chart)
    return [chart for chart in charts if chart]


def study_bars(result: StudyResult) -> str:
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


def default_label(result: StudyResult) -> str | None:
    """The value of the varied parameter that the method has on its own."""
    first = result.study.variants[0].spec
    params = {k: v for k, v in first.params.items() if k != result.study.key}
    built = MethodSpec(first.name, params).build()
    value = getattr(built, result.study.key, None)
    return None if value is None else f"{value:g}"
