"""The figures of the pages, as SVG files: `python docs/make/figures.py [FOLDER]`.

A query on one of three arcs, and what each stage of CAS makes of it, computed by the dense twin of
the tests; and the picture of the README, two digits before and after.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import kinrank  # noqa: E402
import naive  # noqa: E402

mpl.use("svg")
mpl.rcParams |= {"svg.hashsalt": "kinrank", "font.size": 9, "svg.fonttype": "path"}
INK, SOFT, RIGHT, WRONG = "#333333", "#c9c9c9", "#0f8a7e", "#c4262e"
Q = 0  # the row of the query


def arcs() -> tuple[np.ndarray, np.ndarray]:
    """Points on three arcs, the first of them a query at the end of its arc; and their arcs."""
    rng = np.random.default_rng(3)
    angle = np.linspace(0.06, 0.94, 60) * np.pi
    points, labels = [], []
    for arc in range(3):
        radius = 1 + 0.36 * arc
        place = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        points.append(place + rng.normal(scale=0.03, size=place.shape))
        labels += [arc] * len(angle)
    rows, marks = np.concatenate(points), np.array(labels)
    first = 63  # near the end of the middle arc
    order = [first, *(row for row in range(len(rows)) if row != first)]
    return rows[order], marks[order]


def axes(count: int = 1, width: float = 3.6) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(width * count, 2.5), layout="constrained")
    made = [figure.add_subplot(1, count, at + 1) for at in range(count)]
    for ax in made:
        ax.set_aspect("equal")
        ax.axis("off")
    return figure, made


def dots(ax: Any, rows: np.ndarray, values: Any, title: str) -> None:
    """Points, darker the larger their value; a star is the query."""
    values = np.asarray(values, float)
    top = values.max() or 1
    some = values > 0
    ax.scatter(*rows[~some].T, s=14, facecolors="none", edgecolors=SOFT, linewidths=0.8)
    shade = 0.25 + 0.75 * np.sqrt(values[some] / top)
    ax.scatter(*rows[some].T, s=24, c=shade, cmap="YlGnBu", vmin=0, vmax=1, linewidths=0)
    star(ax, rows)
    ax.set_title(title, color=INK, fontsize=9)


def star(ax: Any, rows: np.ndarray) -> None:
    ax.scatter(*rows[Q], marker="*", s=110, color=WRONG, zorder=5, linewidths=0)


def lines(ax: Any, rows: np.ndarray, pairs: np.ndarray, weights: np.ndarray) -> None:
    for (i, j), weight in zip(pairs, weights, strict=True):
        ax.plot(
            *rows[[i, j]].T, color="#2f5fd0", lw=1.6 * weight, alpha=0.25 + 0.6 * weight, zorder=0
        )


def answers(
    ax: Any, rows: np.ndarray, labels: np.ndarray, distances: np.ndarray, title: str
) -> None:
    """The thirty nearest, right or wrong."""
    order = np.argsort(distances, kind="stable")
    near = [row for row in order if row != Q][:30]
    ax.scatter(*rows.T, s=14, facecolors="none", edgecolors=SOFT, linewidths=0.8)
    right = labels[near] == labels[Q]
    for flag, color, marker in ((True, RIGHT, "o"), (False, WRONG, "X")):
        ax.scatter(*rows[near][right == flag].T, s=26, color=color, marker=marker, linewidths=0)
    star(ax, rows)
    ax.set_title(f"{title}: {right.sum()} of 30 right", color=INK, fontsize=9)


def stages(folder: Path) -> None:
    """One figure a stage."""
    rows, labels = arcs()
    method = kinrank.CAS(k1=14, k2=4).resolved(len(rows))
    d2 = naive.squared_distances(rows)
    found, made = naive.cas(d2, 1, method)

    figure, (ax,) = axes()
    near = made["rank"][Q][: method.k1 + 1]
    dots(ax, rows, np.isin(np.arange(len(rows)), near), "the nearest rows of the query")
    save(figure, folder / "neighbors.svg")

    figure, (left, right) = axes(2)
    dots(left, rows, made["C"][Q], "cluster C")
    dots(right, rows, made["xi"][Q], "confident neighbours ξ")
    save(figure, folder / "clusters.svg")

    figure, (ax,) = axes()
    pairs = np.argwhere(np.triu(made["W"]) > 1e-3)
    weights = made["W"][tuple(pairs.T)]
    lines(ax, rows, pairs, weights / weights.max())
    ax.scatter(*rows.T, s=14, color=INK, linewidths=0)
    star(ax, rows)
    ax.set_title("affinity graph W", color=INK, fontsize=9)
    save(figure, folder / "graph.svg")

    figure, (left, right) = axes(2)
    dots(left, rows, np.maximum(made["F_star"][Q], 0), "F, where the walk leads")
    dots(right, rows, made["F"][Q], "F on the cluster")
    save(figure, folder / "diffusion.svg")

    for name, key, title in (
        ("smoothing", "F_hat", "smoothed F"),
        ("enhancement", "F_tilde", "enhanced F"),
        ("propagation", "F_prime", "encoding F\N{PRIME}"),
    ):
        figure, (ax,) = axes()
        dots(ax, rows, made[key][Q], title)
        save(figure, folder / f"{name}.svg")

    figure, (left, right) = axes(2)
    answers(left, rows, labels, d2[Q], "before")
    answers(right, rows, labels, np.concatenate([[0], found[0]]), "after")
    save(figure, folder / "ranking.svg")


def digits(folder: Path) -> None:
    """The two digits whose first ten gain most, each with its first ten before and after."""
    data = kinrank.datasets.load("digits")
    query, gallery = data.query, data.gallery
    after = kinrank.CAS(k1=60, k2=6).rerank(query.features, gallery.features)
    before = kinrank.CAS(k1=2, k2=1, omega=1.0).rerank(query.features, gallery.features)
    right = [
        gallery.labels[ranking.indices[:, :10]] == query.labels[:, None]
        for ranking in (before, after)
    ]
    gain = right[1].sum(axis=1) - right[0].sum(axis=1)
    chosen = np.argsort(-gain, kind="stable")[:2]
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    grid = figure.subplots(4, 12, gridspec_kw={"width_ratios": [1, 0.9, *[1] * 10]})
    for ax in grid.ravel():
        ax.axis("off")
    for block, row in enumerate(chosen):
        for line, (word, ranking) in enumerate((("before", before), ("after", after))):
            shown = grid[2 * block + line]
            if line == 0:
                picture(shown[0], query.pixels[row], INK)
            shown[1].text(0.5, 0.5, word, ha="center", va="center", color=INK)
            for ax, found in zip(shown[2:], ranking.indices[row, :10], strict=True):
                right = gallery.labels[found] == query.labels[row]
                picture(ax, gallery.pixels[found], RIGHT if right else WRONG)
    save(figure, folder / "digits.svg")


def picture(ax: Any, pixels: np.ndarray, color: str) -> None:
    ax.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.axis("on")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set(color=color, linewidth=2)


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None}, transparent=True)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stages(folder)
    digits(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "assets")
