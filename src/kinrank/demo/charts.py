"""Small drawings as SVG; colours and strokes come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def strip(right: npt.NDArray[np.bool_]) -> str:
    """A bar with one cell per result, full height where right, a notch where wrong."""
    wrong = "".join(f"M{place} .6h1v.4h-1z" for place in np.flatnonzero(~right))
    fine = "".join(f"M{place} 0h1v1h-1z" for place in np.flatnonzero(right))
    label = f"{right.sum()} of the first {len(right)} are right"
    return (
        f'<svg class="strip" viewBox="0 0 {len(right)} 1" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}"><path class="fill-right" d="{fine}"/>'
        f'<path class="fill-wrong" d="{wrong}"/></svg>'
    )


def scatter(before: Sequence[float], after: Sequence[float], names: Sequence[str]) -> str:
    """Average precision of each query before (across) and after (up), in per cent."""
    size = 100
    opening = (
        f'<svg class="scatter" viewBox="-13 -4 {size + 17} {size + 17}" role="img" '
        'aria-label="Average precision of each query before and after">'
    )
    parts = [opening]
    for tick in (0, 25, 50, 75, 100):
        parts.append(f'<path class="grid" d="M{tick} 0V{size}M0 {tick}H{size}"/>')
        parts.append(f'<text class="tick" x="{tick}" y="{size + 5.5}">{tick}</text>')
        parts.append(f'<text class="tick side" x="-2" y="{size - tick + 1.2}">{tick}</text>')
    parts.append(f'<path class="diagonal" d="M0 {size}L{size} 0"/>')
    for x, y, name in zip(before, after, names, strict=True):
        kind = "fill-right" if y >= x else "fill-wrong"
        title = f"<title>{name}: {x:.1f} before, {y:.1f} after</title>"
        parts.append(_dot(x, size - y, kind, title))
    parts.append(f'<text class="axis" x="50" y="{size + 10.5}">AP before</text>')
    parts.append(
        '<text class="axis" transform="translate(-10 50) rotate(-90)">AP after</text></svg>'
    )
    return "".join(parts)


def _dot(x: float, y: float, kind: str, title: str) -> str:
    """A circle for a gain, a square for a loss: not by colour alone."""
    if kind == "fill-right":
        return f'<circle class="{kind}" cx="{x:.2f}" cy="{y:.2f}" r="1.5">{title}</circle>'
    return (
        f'<rect class="{kind}" x="{x - 1.4:.2f}" y="{y - 1.4:.2f}" width="2.8" height="2.8">'
        f"{title}</rect>"
    )
