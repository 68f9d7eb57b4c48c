"""The plots of the report: curves, bars, dots, distributions, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kinrank.evaluate.reporting import svg
from kinrank.metrics.bootstrap import Interval
from kinrank.metrics.per_query import Values

# Shapes besides colours, so that curves can be told apart without them.
SHAPES = (
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "M-2.8-2.8h5.6v5.6h-5.6z",
    "M0-3.6L3.4 2.6H-3.4z",
    "M0-3.8L3.4 0L0 3.8L-3.4 0z",
)
NAMED = 30
PANEL = 124


def curves(
    title: str,
    labels: Sequence[str],
    panels: Mapping[str, Mapping[str, Sequence[float | None]]],
    *,
    x_title: str = "",
    own: str = "",
) -> svg.Figure | None:
    """Panels above each other, one for each metric; lines over labelled places, in per cent.

    Each panel has a scale of its own, so that what a parameter does to a small figure can be seen
    beside a large one. ``own`` is the label that is pointed out.
    """
    shown = {name: lines for name, lines in panels.items() if _known(lines)}
    if not shown:
        return None
    x = svg.x_axis(-0.3, len(labels) - 0.7)
    height = PANEL * len(shown) + svg.BOTTOM
    parts = svg.bottom_labels(x, range(len(labels)), labels, height)
    for number, (name, lines) in enumerate(shown.items()):
        top = PANEL * number
        parts += _panel(name, labels, lines, x, top, top + PANEL - 12, number)
    if own in labels:
        at = x(list(labels).index(own))
        parts.append(svg.path(f"M{at:.1f} {svg.TOP}V{height - svg.BOTTOM - 6}", "pointed"))
    several = next(iter(shown.values())) if len(next(iter(shown.values()))) > 1 else {}
    legend = [(name, _key(number)) for number, name in enumerate(several)]
    return svg.Figure(parts=parts, title=title, x_title=x_title, legend=legend, height=height)


def _panel(
    metric: str,
    labels: Sequence[str],
    lines: Mapping[str, Sequence[float | None]],
    x: svg.Axis,
    top: float,
    bottom: float,
    first: int,
) -> list[str]:
    known = _known(lines)
    middle = (min(known) + max(known)) / 2
    # At least three points high: a tenth of a point must not look like a mountain.
    low, high = min(*known, middle - 1.5), max(*known, middle + 1.5)
    ticks = svg.nice_ticks(low, high, 4)
    y = svg.Axis(ticks[0], ticks[-1], bottom, top + 24)
    parts = [
        svg.text(svg.WIDTH - svg.RIGHT, top + 14, metric, "name", "end"),
        *svg.horizontal_grid(y, ticks),
    ]
    for number, (name, values) in enumerate(lines.items()):
        place = number if len(lines) > 1 else first
        points = [(x(i), y(100 * v), labels[i], v) for i, v in enumerate(values) if v is not None]
        line = "L".join(f"{a:.1f} {b:.1f}" for a, b, _, _ in points)
        parts.append(svg.path(f"M{line}", f"line c{place % len(SHAPES)}"))
        for a, b, label, value in points:
            told = f"{name}, {label}: {metric} {100 * value:.1f}"
            mark = svg.path(SHAPES[place % len(SHAPES)], f"mark c{place % len(SHAPES)}", told)
            parts.append(f'<g transform="translate({a:.1f} {b:.1f})">{mark}</g>')
    return parts


def _known(lines: Mapping[str, Sequence[float | None]]) -> list[float]:
    return [100 * v for values in lines.values() for v in values if v is not None]


def _key(number: int) -> str:
    """A line with its mark, for a legend."""
    kind = f"c{number % len(SHAPES)}"
    mark = svg.path(SHAPES[number % len(SHAPES)], f"mark {kind}")
    return svg.path("M1 5H21", f"line {kind}") + f'<g transform="translate(11 5)">{mark}</g>'


def bars(
    title: str, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]
) -> svg.Figure | None:
    """Groups of bars from zero, in per cent, each with its number."""
    known = _known(series)
    if not known:
        return None
    ticks = svg.nice_ticks(0, max(known) * 1.04)
    x, y = svg.x_axis(-0.5, len(groups) - 0.5), svg.y_axis(0, ticks[-1])
    parts = svg.horizontal_grid(y, ticks) + svg.bottom_labels(x, range(len(groups)), groups)
    width = (x(1) - x(0)) * 0.8 / len(series)
    legend = []
    for number, (name, values) in enumerate(series.items()):
        kind = f"bar c{number % len(SHAPES)}"
        for place, value in enumerate(values):
            if value is None:
                continue
            left = x(place) + (number - len(series) / 2) * width
            top, bottom = y(100 * value), y(0)
            shape = f"M{left + 1:.1f} {bottom:.1f}V{top:.1f}h{width - 2:.1f}V{bottom:.1f}z"
            parts.append(svg.path(shape, kind, f"{name}, {groups[place]}: {100 * value:.1f}"))
            if width >= 20:
                parts.append(svg.text(left + width / 2, top - 3, f"{100 * value:.1f}", "value"))
        legend.append((name, svg.path("M4 1h14v8h-14z", kind)))
    return svg.Figure(parts=parts, title=title, legend=legend)


def before_after(title: str, before: Values, after: Values, names: Sequence[str]) -> svg.Figure:
    """A dot for each query: average precision before across, after up."""
    axis_x, axis_y = svg.x_axis(0, 100), svg.y_axis(0, 100, svg.WIDTH)
    ticks = (0, 25, 50, 75, 100)
    parts = svg.horizontal_grid(axis_y, ticks)
    parts += svg.bottom_labels(axis_x, ticks, [f"{tick}" for tick in ticks], svg.WIDTH)
    corners = (axis_x(0), axis_y(0), axis_x(100), axis_y(100))
    parts.append(svg.path("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*corners), "pointed"))
    counted = ~(np.isnan(before) | np.isnan(after))
    gain = np.where(counted, after - before, 0)
    for kind, chosen in (("same", gain == 0), ("gained", gain > 0), ("lost", gain < 0)):
        rows = np.flatnonzero(chosen & counted)
        # One path for thousands of dots keeps the page small.
        d = "".join(f"M{axis_x(100 * before[r]):.1f} {axis_y(100 * after[r]):.1f}h0" for r in rows)
        parts.append(svg.path(d, f"dots {kind}"))
    for row in np.argsort(-np.abs(gain), kind="stable")[:NAMED]:
        if gain[row]:
            place = f"{axis_x(100 * before[row]):.1f} {axis_y(100 * after[row]):.1f}"
            told = f"{names[row]}: {100 * before[row]:.1f} before, {100 * after[row]:.1f} after"
            parts.append(svg.path(f"M{place}m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "hover", told))
    parts.append(svg.text(svg.LEFT + 6, svg.TOP + 14, "gained", "corner gained", "start"))
    parts.append(
        svg.text(
            svg.WIDTH - svg.RIGHT - 6, svg.WIDTH - svg.BOTTOM - 8, "lost", "corner lost", "end"
        )
    )
    return svg.Figure(
        parts=parts, title=title, x_title="AP before (up: AP after)", height=svg.WIDTH
    )


def sorted_gains(title: str, gains: Values) -> svg.Figure | None:
    """All queries side by side, from the largest gain to the largest loss."""
    values = 100 * np.sort(gains[~np.isnan(gains)])[::-1]
    if not len(values):
        return None
    low, high = min(values.min(), 0.0), max(values.max(), 1.0)
    ticks = [tick for tick in svg.nice_ticks(low, high) if low <= tick <= high]
    x, y = svg.x_axis(0, len(values)), svg.y_axis(low, high)
    parts = svg.horizontal_grid(y, ticks)
    zero = y(0)
    for kind, part in (("gained", values > 0), ("lost", values < 0)):
        rows = np.flatnonzero(part)
        if len(rows):
            first, last = rows[0], rows[-1] + 1
            steps = "".join(f"H{x(r):.1f}V{y(values[r]):.1f}" for r in _thinned(rows))
            parts.append(
                svg.path(
                    f"M{x(first):.1f} {zero:.1f}{steps}H{x(last):.1f}V{zero:.1f}z", f"area {kind}"
                )
            )
    parts.append(svg.path(f"M{svg.LEFT} {zero:.1f}H{svg.WIDTH - svg.RIGHT}", "zero"))
    shares = [int((values > 0).sum()), int((values == 0).sum()), int((values < 0).sum())]
    caption = "{:,} gained, {:,} stayed, {:,} lost.".format(*shares)
    return svg.Figure(
        parts=parts, title=title, x_title="queries, by gain in points of AP", caption=caption
    )


def distributions(
    title: str, edges: Values, matches: Values, others: Values, caption: str = ""
) -> svg.Figure:
    """Two histograms over the same bins, each as shares of its own."""
    top = max(matches.max(initial=0), others.max(initial=0)) or 1.0
    x, y = svg.x_axis(edges[0], edges[-1]), svg.y_axis(0, top * 1.05)
    ticks = [t for t in svg.nice_ticks(edges[0], edges[-1]) if edges[0] <= t <= edges[-1]]
    parts = [svg.path(f"M{svg.LEFT} {y(0):.1f}H{svg.WIDTH - svg.RIGHT}", "zero")]
    parts += svg.bottom_labels(x, ticks, [f"{tick:g}" for tick in ticks])
    for kind, heights in (("other", others), ("match", matches)):
        steps = "".join(
            f"V{y(h):.1f}H{x(right):.1f}" for h, right in zip(heights, edges[1:], strict=True)
        )
        parts.append(svg.path(f"M{x(edges[0]):.1f} {y(0):.1f}{steps}V{y(0):.1f}z", f"area {kind}"))
    legend = [
        ("matches", svg.path("M4 1h14v8h-14z", "area match")),
        ("non-matches", svg.path("M4 1h14v8h-14z", "area other")),
    ]
    return svg.Figure(parts=parts, title=title, x_title="distance", legend=legend, caption=caption)


def intervals(title: str, found: Mapping[str, Interval], caption: str = "") -> svg.Figure | None:
    """A dot and a bar for each method: its gain and the interval of it, in points."""
    if not found:
        return None
    row = 22
    height = svg.TOP + row * len(found) + svg.BOTTOM
    left = min(150, 14 + 6.4 * max(map(len, found)))
    ends = [100 * end for one in found.values() for end in (one.low, one.high)]
    ticks = svg.nice_ticks(min(0, *ends), max(0, *ends), 4)
    x = svg.Axis(ticks[0], ticks[-1], left, svg.WIDTH - svg.RIGHT - 8)
    bottom = height - svg.BOTTOM
    parts = [svg.path(f"M{x(t):.1f} {svg.TOP}V{bottom}", "grid") for t in ticks]
    parts += svg.bottom_labels(x, ticks, [f"{t:+g}" if t else "0" for t in ticks], height)
    parts.append(svg.path(f"M{x(0):.1f} {svg.TOP}V{bottom}", "zero"))
    for number, (name, one) in enumerate(found.items()):
        y = svg.TOP + row * (number + 0.5)
        kind = "unsure" if not one.excludes_zero else "gained" if one.mean > 0 else "lost"
        told = f"{name}: {100 * one.mean:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"
        low, high, mean = x(100 * one.low), x(100 * one.high), x(100 * one.mean)
        parts.append(svg.text(left - 8, y + 3.5, _short(name), "name", "end"))
        parts.append(
            svg.path(
                f"M{low:.1f} {y}H{high:.1f}M{low:.1f} {y - 3}v6M{high:.1f} {y - 3}v6",
                f"span {kind}",
                told,
            )
        )
        parts.append(
            svg.path(
                f"M{mean - 3.5:.1f} {y}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", f"point {kind}", told
            )
        )
    return svg.Figure(parts=parts, title=title, x_title="points", caption=caption, height=height)


def amounts(title: str, found: Mapping[str, float], unit: str, caption: str = "") -> svg.Figure:
    """A bar for each method, the number at its end."""
    row = 22
    height = svg.TOP + row * len(found) + 6
    left = min(150, 14 + 6.4 * max(map(len, found)))
    x = svg.Axis(0, max(found.values()) or 1, left, svg.WIDTH - 70)
    parts = []
    for number, (name, value) in enumerate(found.items()):
        y = svg.TOP + row * number
        parts.append(svg.text(left - 8, y + 14, _short(name), "name", "end"))
        shape = f"M{left:.1f} {y + 4}H{max(x(value), left + 1):.1f}v13H{left:.1f}z"
        parts.append(svg.path(shape, "bar c0", f"{name}: {value:.3g} {unit}"))
        shown = f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
        parts.append(svg.text(x(value) + 6, y + 14, f"{shown} {unit}", "value", "start"))
    return svg.Figure(parts=parts, title=title, caption=caption, height=height)


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:21]}…"


def _thinned(rows: npt.NDArray[np.int64], limit: int = 400) -> npt.NDArray[np.int64]:
    """Every so many of very many: a plot of 300 points has no room for more."""
    step = max(1, len(rows) // limit)
    return rows if step == 1 else np.append(rows[:-1:step], rows[-1])
