"""The figures: curves, bars, dots, histograms, intervals.

They are made through matplotlib's objects: no window, no global setting, and the same bytes for the
same data.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank.io import replacing
from kinrank.metrics.results import Interval
from kinrank.optional import require
from kinrank.types import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK = "#1d1f23"
SOFT = "#5d636d"
LINE = "#dfdcd6"
# inches
WIDTH = 5.0
COLUMN = 3.35  # of a page of two columns
HEIGHT = 3.2
FONT = 11
FORMATS = ("pdf", "svg", "png")
# No dates and no random names inside; letters as outlines in SVG, as TrueType in PDF.
_SETTINGS: Any = {"svg.hashsalt": "kinrank", "svg.fonttype": "path", "pdf.fonttype": 42}
_NO_METADATA = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
GAIN = "#14793a"
LOSS = "#c4262e"
COLORS = ("#2f5fd0", "#c8590a", "#0f8a7e", "#8c3fb5")
MARKERS = "os^D"  # besides colours, so that curves can be told apart without them
# heights in inches
PANEL = 1.7
ROW = 0.31
NAMED = 100  # dots with a text that shows when the pointer rests on them


@dataclass(eq=False)
class Chart:
    """A figure with its heading, for a page or for a file of its own.

    Attributes
    ----------
    title, caption : shown around the figure by a page
    height : in inches
    canvas : matplotlib's figure
    """

    title: str
    height: float = HEIGHT
    caption: str = ""
    canvas: Canvas = field(init=False)
    _tips: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        figure: Any = require("matplotlib.figure", extra="report", purpose="Figures")
        self.canvas = figure.Figure(figsize=(WIDTH, self.height), layout="constrained")

    def axes(self, rows: int = 1) -> list[Axes]:
        """Plain axes above each other, with horizontal lines."""
        panels: list[Axes] = list(self.canvas.subplots(rows, 1, squeeze=False, sharex=True)[:, 0])
        for ax in panels:
            ax.spines[:].set_visible(False)
            ax.tick_params(length=0, labelsize=FONT, labelcolor=SOFT)
            ax.grid(axis="y", color=LINE)
            ax.set_axisbelow(True)
            ax.locator_params(axis="y", nbins=5)
        return panels

    def tip(self, text: str) -> str:
        """The id of an artist that shows ``text`` when the pointer rests on it."""
        self._tips.append(text)
        return f"tip{len(self._tips) - 1}"

    def legend(self, ax: Axes) -> None:
        handles, names = ax.get_legend_handles_labels()
        self.canvas.legend(
            handles,
            names,
            loc="outside upper left",
            ncols=4,
            frameon=False,
            fontsize=FONT - 1,
            labelcolor=SOFT,
            columnspacing=1.2,
            handlelength=1.6,
        )

    def content(self, form: str, *, transparent: bool = False) -> bytes:
        """As a file of ``form``, one of FORMATS."""
        import matplotlib as mpl

        stream = io.BytesIO()
        with mpl.rc_context(_SETTINGS):
            self.canvas.savefig(
                stream, format=form, dpi=200, transparent=transparent, metadata=_NO_METADATA[form]
            )
        return stream.getvalue()

    def save(self, path: Path, width: float = WIDTH) -> None:
        """Write to ``path``, whole or not at all; the ending says the form.

        width : in inches; letters and lines become smaller with the figure
        """
        self._resize(width)
        content = self.content(path.suffix[1:])
        with replacing(path) as file:
            file.write(content)

    def _resize(self, width: float) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.text import Text

        before, height = self.canvas.get_size_inches()
        scale = width / before
        if scale == 1:
            return
        self.canvas.set_size_inches(width, scale * height)
        for text in self.canvas.findobj(Text):
            text.set_fontsize(scale * text.get_fontsize())
        for ax in self.canvas.axes:  # which would make new ticks in their old size
            ax.tick_params(labelsize=FONT * width / WIDTH)
        for line in self.canvas.findobj(Line2D):
            line.set_linewidth(scale * line.get_linewidth())
            line.set_markersize(scale * line.get_markersize())

    def svg(self) -> str:
        """An element for a page, with the texts that show under the pointer."""
        drawn = self.content("svg", transparent=True).decode()
        inside = drawn[drawn.index(">", drawn.index("<svg")) + 1 :].replace("xlink:href", "href")
        inside = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", inside)  # a page has many figures
        inside = re.sub(
            r'<g id="tip(\d+)">',
            lambda tip: f"<g><title>{escape(self._tips[int(tip[1])])}</title>",
            inside,
        )
        box = f"0 0 {72 * WIDTH:g} {72 * self.height:g}"
        return f'<svg viewBox="{box}" role="img" aria-label="{escape(self.title)}">{inside}'


def curves(
    title: str,
    labels: Sequence[str],
    panels: Mapping[str, Mapping[str, Sequence[float | None]]],
    *,
    x_title: str = "",
    base: str = "",
) -> Chart | None:
    """Panels above each other, one for each metric; lines over labelled places, in per cent.

    Each panel has a scale of its own, so that what a parameter does to a small figure can be seen
    beside a large one. ``base`` is the label that is pointed out.
    """
    shown = {name: lines for name, lines in panels.items() if _known(lines)}
    if not shown:
        return None
    chart = Chart(title, PANEL * len(shown) + 0.6)
    axes = chart.axes(len(shown))
    for first, (ax, (metric, lines)) in enumerate(zip(axes, shown.items(), strict=True)):
        for number, (name, values) in enumerate(lines.items()):
            kind = (number if len(lines) > 1 else first) % len(COLORS)
            color = COLORS[kind]
            marker = MARKERS[kind]
            points = [(x, 100 * y) for x, y in enumerate(values) if y is not None]
            ax.plot(*zip(*points, strict=True), color=color, marker=marker, ms=5, label=name)
            for x, y in points:
                gid = chart.tip(f"{name}, {labels[x]}: {metric} {y:.1f}")
                ax.plot([x], [y], marker, color=color, ms=5, gid=gid)
        # At least three points high: a tenth of a point must not look like a mountain.
        known = _known(lines)
        middle = (min(known) + max(known)) / 2
        low = min(*known, middle - 1.5)
        high = max(*known, middle + 1.5)
        ax.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))
        ax.set_ylabel(f"{metric} (%)", fontsize=FONT, color=INK)
        if base in labels:
            ax.axvline(list(labels).index(base), color=SOFT, ls="--", lw=1)
    chart.canvas.align_ylabels()
    _name_places(axes[-1], labels)
    _name_x(axes[-1], x_title)
    if len(next(iter(shown.values()))) > 1:
        chart.legend(axes[0])
    return chart


def bars(
    title: str, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]
) -> Chart | None:
    """Groups of bars from zero, in per cent, each with its number."""
    if not _known(series):
        return None
    chart = Chart(title)
    (ax,) = chart.axes()
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        for group, value in enumerate(values):
            if value is not None:
                x = group + (number - (len(series) - 1) / 2) * width
                y = 100 * value
                gid = chart.tip(f"{name}, {groups[group]}: {y:.1f}")
                label = name if not group else None
                ax.bar(x, y, 0.92 * width, color=COLORS[number % 4], label=label, gid=gid)
                ax.text(x, y, f"{y:.1f}", ha="center", va="bottom", fontsize=9, color=INK)
    _name_places(ax, groups)
    ax.set_ylabel("%", fontsize=FONT, color=SOFT)
    chart.legend(ax)
    return chart


def before_after(title: str, before: Values, after: Values, names: Sequence[str]) -> Chart:
    """A dot for each query, in per cent: average precision before across, after up."""
    chart = Chart(title, WIDTH)
    (ax,) = chart.axes()
    ax.axline((0, 0), slope=1, color=SOFT, ls="--", lw=1)
    counted = np.flatnonzero(~np.isnan(after - before))
    gain = np.where(np.isnan(after - before), 0, after - before)
    # A circle for a gain, a square for a loss: not by colour alone.
    kinds = ((gain == 0, SOFT, "o"), (gain > 0, GAIN, "o"), (gain < 0, LOSS, "s"))
    for chosen, color, marker in kinds:
        rows = counted[chosen[counted]]
        dots: dict[str, Any] = {"color": color, "ms": 5, "mew": 0, "alpha": 0.65}
        many = len(rows) > 2000
        ax.plot(100 * before[rows], 100 * after[rows], marker, rasterized=many, **dots)
    for row in counted[np.argsort(-np.abs(gain[counted]), kind="stable")[:NAMED]]:
        x = 100 * before[row]
        y = 100 * after[row]
        gid = chart.tip(f"{names[row]}: {x:.1f} before, {y:.1f} after")
        ax.plot([x], [y], "o", ms=8, alpha=0, gid=gid)
    corner: dict[str, Any] = {"fontsize": FONT, "weight": "bold", "transform": ax.transAxes}
    ax.text(0.02, 0.97, "gained", color=GAIN, va="top", **corner)
    ax.text(0.98, 0.03, "lost", color=LOSS, ha="right", **corner)
    ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
    ax.set_xticks(range(0, 101, 25))
    ax.set_yticks(range(0, 101, 25))
    _name_x(ax, "AP before (%)")
    ax.set_ylabel("AP after (%)", fontsize=FONT, color=SOFT)
    return chart


def sorted_gains(title: str, gains: Values) -> Chart | None:
    """All queries side by side, from the largest gain to the largest loss, in points."""
    values = 100 * np.sort(gains[~np.isnan(gains)])[::-1]
    if not len(values):
        return None
    gained, same, lost = (int(np.sum(np.sign(values) == sign)) for sign in (1, 0, -1))
    chart = Chart(title, caption=f"{gained:,} gained, {same:,} stayed, {lost:,} lost.")
    (ax,) = chart.axes()
    places = np.arange(len(values) + 1)
    for color, heights in ((GAIN, np.maximum(values, 0)), (LOSS, np.minimum(values, 0))):
        ax.fill_between(places, np.append(heights, heights[-1]), step="post", color=color, lw=0)
    ax.axhline(0, color=SOFT, lw=1)
    ax.set_xticks([])
    _name_x(ax, "queries, by gain")
    ax.set_ylabel("gain in AP (points)", fontsize=FONT, color=SOFT)
    return chart


def distributions(
    title: str, edges: Values, matches: Values, others: Values, caption: str = ""
) -> Chart:
    """Two histograms over the same bins, each as shares of its own."""
    chart = Chart(title, caption=caption)
    (ax,) = chart.axes()
    kinds = (("matches", matches), ("non-matches", others))
    for (name, heights), color in zip(kinds, COLORS, strict=False):
        ax.stairs(heights, edges, fill=True, color=color, alpha=0.5, label=name)
    ax.axhline(0, color=SOFT, lw=1)
    ax.set_yticks([])
    _name_x(ax, "distance")
    ax.set_ylabel("share of pairs", fontsize=FONT, color=SOFT)
    chart.legend(ax)
    return chart


def intervals(title: str, gains: Mapping[str, Interval], x_title: str) -> Chart | None:
    """A dot and a bar for each method: its gain and the interval of it, in points."""
    if not gains:
        return None
    chart = Chart(title, ROW * len(gains) + 0.7)
    (ax,) = chart.axes()
    ax.axvline(0, color=SOFT, lw=1)
    for row, (name, gain) in enumerate(gains.items()):
        color = SOFT if not gain.excludes_zero else GAIN if gain.mean > 0 else LOSS
        mean, low, high = (100 * value for value in (gain.mean, gain.low, gain.high))
        gid = chart.tip(f"{name}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]")
        ax.plot([low, mean, high], [row] * 3, "-|", color=color, lw=2, ms=7, gid=gid)
        ax.plot([mean], [row], "o", color=color, ms=6)
    _name_rows(ax, list(gains))
    ax.grid(axis="x", color=LINE)
    ax.grid(visible=False, axis="y")
    ax.xaxis.set_major_formatter(lambda tick, _: f"{tick:+g}" if tick else "0")
    _name_x(ax, x_title)
    return chart


def amounts(title: str, values: Mapping[str, float], x_title: str, unit: str) -> Chart:
    """A bar for each method, the number at its end."""
    chart = Chart(title, ROW * len(values) + 0.5)
    (ax,) = chart.axes()
    ax.barh(range(len(values)), list(values.values()), 0.6, color=COLORS[0])
    for row, value in enumerate(values.values()):
        shown = f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
        ax.text(value, row, f" {shown} {unit}", va="center", fontsize=FONT, color=INK)
    ax.set_xlim(0, 1.22 * max(values.values()) or 1)
    ax.set_xticks([])
    ax.grid(visible=False)
    _name_x(ax, f"{x_title} ({unit})")
    _name_rows(ax, list(values))
    return chart


def _known(lines: Mapping[str, Sequence[float | None]]) -> list[float]:
    return [100 * v for values in lines.values() for v in values if v is not None]


def _name_x(ax: Axes, name: str) -> None:
    ax.set_xlabel(name, fontsize=FONT, color=SOFT)


def _name_places(ax: Axes, names: Sequence[str]) -> None:
    """Words below a figure; every second where they would touch."""
    step = 1 + sum(map(len, names)) // 48
    ax.set_xticks(range(len(names))[::step], names[::step])


def _name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Words on the left, the first above."""
    short = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    ax.set_yticks(range(len(names)), short, color=INK, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
