"""From methods and data sets to the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kinrank.datasets.base import Dataset
from kinrank.errors import InvalidInputError
from kinrank.evaluate.ablation import ablate
from kinrank.evaluate.comparison import Comparison, OnCell, compare
from kinrank.evaluate.reporting.gather import gather
from kinrank.evaluate.reporting.page import render_page
from kinrank.evaluate.spec import MethodSpec, parse_methods
from kinrank.io import write_text_atomic


def report(
    sets: Sequence[Dataset],
    out: str | Path | None = None,
    *,
    methods: str = "none,cas",
    focus: str | None = None,
    studies: Sequence[str] | None = (),
    values: Mapping[str, Sequence[float]] | None = None,
    work: str | Path | None = None,
    isolate: bool = True,
    n_examples: int = 6,
    threads: int | None = None,
    on_cell: OnCell | None = None,
    title: str = "Re-ranking report",
) -> str:
    """Compare methods on data sets and write a page about it.

    Parameters
    ----------
    sets : data sets with vectors; with images at hand there are retrieval examples
    out : the HTML file; None writes none
    methods : as for ``compare``
    focus : the method that is looked at closely; None is the best by the first metric
    studies : ablations to run, as for ``ablate``; None for all, () for none
    values : other values of a parameter, as for ``ablate``
    work : a folder that keeps finished cells
    isolate : measure peaks of memory, in a process for each cell
    n_examples : retrieval examples per set
    threads, on_cell : as for ``compare``
    title : of the page

    Returns
    -------
    str
        The page: self-contained, without any link to the network.
    """
    specs = parse_methods(methods)
    shared = {"work": work, "threads": threads, "on_cell": on_cell}
    comparison = compare(specs, sets, isolate=isolate, **shared)  # type: ignore[arg-type]
    chosen = _focus(comparison, specs, focus)
    before = next(spec for spec in specs if spec.label == comparison.reference)
    ranked = [
        gather(data, before, chosen, n_examples=n_examples, threads=threads)
        for data in sets
        if comparison.get(chosen.label, data.name) and comparison.get(before.label, data.name)
    ]
    studied = None
    if studies is None or len(studies):
        start = chosen if chosen.name == "cas" else MethodSpec("cas")
        studied = ablate(sets, method=start, studies=studies, values=values, **shared)  # type: ignore[arg-type]
    page = render_page(comparison, chosen.label, sets, ranked, studied, title)
    if out is not None:
        write_text_atomic(out, page)
    return page


def _focus(comparison: Comparison, specs: Sequence[MethodSpec], focus: str | None) -> MethodSpec:
    """The method that was asked for, or the best on the first set."""
    by_label = {spec.label: spec for spec in specs}
    if focus is not None:
        if focus not in by_label:
            raise InvalidInputError(
                f"`focus` must be one of the methods ({', '.join(by_label)}), got {focus!r}."
            )
        return by_label[focus]
    return by_label[best_method(comparison)]


def best_method(comparison: Comparison) -> str:
    """The best method by the first metric of the first set, the reference not counted."""
    data = comparison.sets[0]
    others = [m for m in comparison.methods if m != comparison.reference]
    done = [cell for m in others if (cell := comparison.get(m, data)) is not None]
    if not done:
        return others[0] if others else comparison.reference
    return max(done, key=lambda cell: cell.summary[cell.headlines[0]]).method
