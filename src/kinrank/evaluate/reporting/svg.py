"""What plots are made of: an axis, a frame, marks. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 42, 12, 12, 36


@dataclass(frozen=True)
class Axis:
    """From values to places along one side of a plot."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        return self.begin + (value - self.low) / span * (self.end - self.begin)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from below ``low`` to above ``high``, about ``count`` of them."""
    if high <= low:
        low, high = low - 0.5, low + 0.5
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if span / (power * m) <= count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def x_axis(low: float, high: float) -> Axis:
    """Across a plot of the usual size."""
    return Axis(low, high, LEFT, WIDTH - RIGHT)


def y_axis(low: float, high: float, height: float = HEIGHT) -> Axis:
    """Up a plot of the usual size."""
    return Axis(low, high, height - BOTTOM, TOP)


def text(x: float, y: float, content: str, kind: str = "tick", anchor: str = "middle") -> str:
    """A piece of text."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def path(d: str, kind: str, title: str = "") -> str:
    """A path, perhaps with a text that shows when the pointer rests on it."""
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<path class="{kind}" d="{d}">{inside}</path>'
        if inside
        else f'<path class="{kind}" d="{d}"/>'
    )


def horizontal_grid(axis: Axis, ticks: Sequence[float], unit: str = "") -> list[str]:
    """Lines across, with their numbers on the left."""
    parts = []
    for tick in ticks:
        y = axis(tick)
        parts.append(path(f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", "grid"))
        parts.append(text(LEFT - 6, y + 3.5, f"{tick:g}{unit}", "tick", "end"))
    return parts


def bottom_labels(
    axis: Axis, ticks: Sequence[float], labels: Sequence[str], height: float = HEIGHT
) -> list[str]:
    """Numbers or words below a plot, thinned out where they would touch."""
    room = abs(axis.end - axis.begin) / max(len(ticks), 1)
    widest = max((len(label) for label in labels), default=1) * 6.2 + 6
    step = max(1, math.ceil(widest / room))
    y = height - BOTTOM + 15
    return [text(axis(t), y, label) for t, label in list(zip(ticks, labels, strict=True))[::step]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot with its heading and its legend, for a page or for a file of its own."""

    parts: Sequence[str]
    title: str
    x_title: str = ""
    legend: Sequence[tuple[str, str]] = ()
    caption: str = ""
    height: float = HEIGHT

    def __str__(self) -> str:
        """As HTML; the page has the style sheet."""
        keys = "".join(
            f'<li><svg viewBox="0 0 22 10" aria-hidden="true">{mark}</svg>{escape(name)}</li>'
            for name, mark in self.legend
        )
        keys = f'<ul class="legend">{keys}</ul>' if keys else ""
        below = f'<p class="note">{escape(self.caption)}</p>' if self.caption else ""
        return (
            f'<figure class="plot"><figcaption>{escape(self.title)}</figcaption>{keys}'
            f'<svg viewBox="0 0 {WIDTH} {self.height:g}" role="img" '
            f'aria-label="{escape(self.title)}">{self._inside()}</svg>{below}</figure>'
        )

    def file(self, style: str) -> str:
        """As an SVG file with the style sheet, the heading and the legend inside."""
        head = 26 + 16 * len(self.legend)
        keys = "".join(
            f'<g transform="translate({LEFT} {-16 * (len(self.legend) - n) + 2})">{mark}'
            f"{text(30, 9, name, 'tick', 'start')}</g>"
            for n, (name, mark) in enumerate(self.legend)
        )
        title = text(LEFT, 14 - head, self.title, "title", "start")
        below = text(LEFT, self.height + 12, self.caption, "tick", "start") if self.caption else ""
        height = head + self.height + (20 if self.caption else 0)
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 {-head} {WIDTH} '
            f'{height:g}" width="{2 * WIDTH}" height="{2 * height:g}" role="img" '
            f'aria-label="{escape(self.title)}"><style>{style}</style>'
            f'<rect class="paper" x="0" y="{-head}" width="{WIDTH}" height="{height:g}"/>'
            f"{title}{keys}{self._inside()}{below}</svg>\n"
        )

    def _inside(self) -> str:
        middle = (LEFT + WIDTH - RIGHT) / 2
        named = text(middle, self.height - 5, self.x_title, "axis") if self.x_title else ""
        return "".join(self.parts) + named
