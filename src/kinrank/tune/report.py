"""What tuning found, as one HTML page that needs nothing else."""

from __future__ import annotations

import math
from html import escape

from kinrank._version import __version__
from kinrank.evaluate.reporting import svg
from kinrank.evaluate.reporting.page import THEME, document
from kinrank.tune.choose import Curve
from kinrank.tune.table import call, facts, shown
from kinrank.tune.tuning import Tuning

DOT = "a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0"


def render(found: Tuning) -> str:
    """The page."""
    title = f"Parameters of {found.method}"
    diagnosis = found.diagnosis
    kind = "gained" if diagnosis.helps else "lost"
    body = (
        f"<header>{THEME}<h1>{escape(title)}</h1>"
        f'<p><b>{escape(call(found))}</b></p><p class="change {kind}">Re-ranking '
        f"{diagnosis.verdict}.</p><p>{escape(diagnosis.reason)}</p></header>"
        f"<section><h2>What was found</h2>{_facts(found)}</section>"
        f"{_curves(found)}"
        f"<footer>kinrank {escape(__version__)} · made by <code>kinrank tune</code> · "
        "chosen without labels</footer>"
    )
    return document(title, body)


def _facts(found: Tuning) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(text)}</td></tr>'
        for name, text in facts(found).items()
        if name not in {"chosen", "verdict", "because"}
    )
    table = f"<table><tbody>{rows}</tbody></table>"
    return f'<figure class="table"><div class="scroll">{table}</div></figure>'


def _curves(found: Tuning) -> str:
    if not found.curves:
        return ""
    plots = "".join(str(curve_plot(curve)) for curve in found.curves)
    return (
        "<section><h2>Agreement of two halves of the features</h2>"
        '<p class="lead">How many of the first 5 and 10 results are the same for both halves. '
        "Too few neighbours leave noise, too many merge what does not belong together. Bars: one "
        "standard error of the difference to the best. The dashed line is what was chosen; for a "
        "size, the size of the groups in the collection counts as much as this curve.</p>"
        f'<div class="grid">{plots}</div></section>'
    )


def curve_plot(curve: Curve) -> svg.Figure:
    """Dots with their errors over the values, in logarithms where these are sizes."""
    places, chosen = _places(curve)
    ends = [
        100 * (agreed + side * error)
        for agreed, error in zip(curve.agreement, curve.error, strict=True)
        for side in (-1, 1)
    ]
    ticks = svg.nice_ticks(min(ends), max(ends), 4)
    margin = 0.06 * (places[-1] - places[0]) or 0.5
    x = svg.x_axis(places[0] - margin, places[-1] + margin)
    y = svg.y_axis(ticks[0], ticks[-1])
    parts = svg.horizontal_grid(y, ticks, "%")
    parts += svg.bottom_labels(x, places, [shown(value) for value in curve.values])
    at = x(chosen)
    parts.append(
        svg.path(
            f"M{at:.1f} {svg.TOP}V{svg.HEIGHT - svg.BOTTOM}", "pointed",
            f"chosen: {shown(curve.chosen)}",
        )
    )  # fmt: skip
    if _is_size(curve):
        points = (
            f"{x(p):.1f} {y(100 * a):.1f}" for p, a in zip(places, curve.agreement, strict=True)
        )
        parts.append(svg.path("M" + "L".join(points), "line c0"))
    for place, value, agreed, error in zip(
        places, curve.values, curve.agreement, curve.error, strict=True
    ):
        told = f"{curve.parameter}={shown(value)}: {100 * agreed:.1f}% ± {100 * error:.1f}"
        low, high = y(100 * (agreed - error)), y(100 * (agreed + error))
        parts.append(svg.path(f"M{x(place):.1f} {low:.1f}V{high:.1f}", "line c0"))
        parts.append(svg.path(f"M{x(place) - 3.5:.1f} {y(100 * agreed):.1f}{DOT}", "mark c0", told))
    return svg.Figure(
        parts=parts, title=f"{curve.parameter}: {shown(curve.chosen)} chosen",
        x_title=curve.parameter,
    )  # fmt: skip


def _is_size(curve: Curve) -> bool:
    """Whether values are numbers of neighbours; a switch and a share are not."""
    return all(isinstance(value, int) and not isinstance(value, bool) for value in curve.values)


def _places(curve: Curve) -> tuple[list[float], float]:
    """Where the values stand, and where the chosen one does."""
    if _is_size(curve):
        return [math.log(value) for value in curve.values], math.log(curve.chosen)
    places = [float(at) for at in range(len(curve.values))]
    return places, places[curve.values.index(curve.chosen)]
