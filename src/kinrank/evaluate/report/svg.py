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
    span = max(high - low, 1e-9)
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


def figure(
    parts: Sequence[str],
    *,
    title: str,
    x_title: str = "",
    legend: Sequence[tuple[str, str]] = (),
    caption: str = "",
    height: float = HEIGHT,
) -> str:
    """A plot with its heading, its legend and what it says to those who cannot see it."""
    inside = "".join(parts)
    if x_title:
        inside += text((LEFT + WIDTH - RIGHT) / 2, height - 5, x_title, "axis")
    keys = "".join(
        f'<li><svg viewBox="0 0 22 10" aria-hidden="true">{mark}</svg>{escape(name)}</li>'
        for name, mark in legend
    )
    keys = f'<ul class="legend">{keys}</ul>' if keys else ""
    below = f'<p class="note">{escape(caption)}</p>' if caption else ""
    return (
        f'<figure class="plot"><figcaption>{escape(title)}</figcaption>{keys}'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
        f"{inside}</svg>{below}</figure>"
    )
