"""A figure for a page or a paper, made with matplotlib.

It is made through matplotlib's objects: no window, no global setting, and the same bytes for the
same data.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinrank.io import replacing
from kinrank.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, SOFT, LINE = "#1d1f23", "#5d636d", "#dfdcd6"
WIDTH, HEIGHT = 5.0, 3.2  # inches
FONT = 11
FORMATS = ("pdf", "svg", "png")
# No dates and no random names inside; letters as outlines in SVG, as TrueType in PDF.
_SETTINGS: Any = {"svg.hashsalt": "kinrank", "svg.fonttype": "path", "pdf.fonttype": 42}
_NO_METADATA = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}


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
            handles, names, loc="outside upper left", ncols=4, frameon=False, fontsize=FONT - 1,
            labelcolor=SOFT, columnspacing=1.2, handlelength=1.6,
        )  # fmt: skip

    def content(self, form: str, *, transparent: bool = False) -> bytes:
        """As a file of ``form``, one of FORMATS."""
        import matplotlib as mpl

        stream = io.BytesIO()
        with mpl.rc_context(_SETTINGS):
            self.canvas.savefig(
                stream, format=form, dpi=200, transparent=transparent, metadata=_NO_METADATA[form]
            )
        return stream.getvalue()

    def save(self, path: Path) -> None:
        """Write to ``path``, whole or not at all; the ending says the form."""
        content = self.content(path.suffix[1:])
        with replacing(path) as file:
            file.write(content)

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
