"""A page about methods on data sets: they are compared, and rankings seen from close by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.datasets.base import NOT_COUNTED, RIGHT, Dataset
from kinrank.errors import InvalidInputError
from kinrank.evaluate.ablation import ablate
from kinrank.evaluate.cells import timed_ranking
from kinrank.evaluate.comparison import Comparison, OnCell, check_sets, compare
from kinrank.evaluate.spec import MethodSpec, parse_methods
from kinrank.io import write_text_atomic
from kinrank.report.pages import check_extra, comparison_page
from kinrank.types import Ranking, Values

BINS = 60
MAX_QUERIES = 400
FIRST = 10
# The metric whose per-query values are average precisions.
AP = {
    "revisited": "mAP M",
    "reid": "mAP",
    "retrieval": "mAP",
    "judged": "mAP",
    "single_shot": "mAP",
}


def report(
    sets: Sequence[Dataset],
    out: str | Path | None = None,
    *,
    methods: str | Sequence[str | MethodSpec] = "none,cas",
    focus: str | None = None,
    studies: Sequence[str] | None = (),
    values: Mapping[str, Sequence[float]] | None = None,
    metrics: str | Sequence[str] | None = None,
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
    metrics : what tables and figures show, as for ``compare``
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
    check_extra()
    sets = check_sets(sets)
    specs = parse_methods(methods)
    comparison = compare(
        specs,
        sets,
        metrics=metrics,
        work=work,
        isolate=isolate,
        threads=threads,
        on_cell=on_cell,
    )
    chosen = _focus(comparison, specs, focus)
    before = next(spec for spec in specs if spec.label == comparison.reference)
    ranked = [
        rank_before_and_after(data, (before, chosen), n_examples, threads)
        for data in sets
        if comparison.get(chosen.label, data.name) and comparison.get(before.label, data.name)
    ]
    studied = None
    if studies is None or len(studies):
        start = replace(chosen, auto=False) if chosen.name == "cas" else MethodSpec("cas")
        studied = ablate(
            sets,
            method=start,
            studies=studies,
            values=values,
            metrics=metrics,
            work=work,
            threads=threads,
            on_cell=on_cell,
        )
    page = comparison_page(comparison, chosen.label, sets, ranked, studied, title)
    if out is not None:
        write_text_atomic(out, page)
    return page


def _focus(comparison: Comparison, specs: Sequence[MethodSpec], focus: str | None) -> MethodSpec:
    """The method that was asked for, or the best on the first set."""
    by_label = {spec.label: spec for spec in specs}
    focus = comparison.best if focus is None else focus
    if focus not in by_label:
        raise InvalidInputError(
            f"`focus` must be one of the methods ({', '.join(by_label)}), got {focus!r}."
        )
    return by_label[focus]


class DistanceHistogram(NamedTuple):
    """Distances of matches and of non-matches, as shares, and how well they are apart.

    ``order`` is the share of pairs of a match and a non-match that are in the right order.
    """

    edges: Values
    matches: Values
    others: Values
    order: float


class RankedSide(NamedTuple):
    """A data set as one method ranks it; ap : average precision of each query."""

    label: str
    ap: Values
    histogram: DistanceHistogram


class Example(NamedTuple):
    """One query: the first that count before and after, and whether each is right."""

    query: int
    lists: list[list[tuple[int, bool]]]


@dataclass(frozen=True, eq=False)
class SetReport:
    """One data set, ranked plainly and by the method in focus."""

    data: Dataset
    sides: Sequence[RankedSide]
    examples: Sequence[Example]

    def query_name(self, query: int) -> str:
        """The file name of a query, or its number."""
        paths = self.data.query.paths
        return f"query {query}" if paths is None else paths[query].rpartition("/")[2]


def rank_before_and_after(
    data: Dataset, specs: Sequence[MethodSpec], n_examples: int, threads: int | None = None
) -> SetReport:
    """Rank a set twice and keep what the report needs of it."""
    rankings = [timed_ranking(spec, data, threads=threads)[0] for spec in specs]
    aps = [data.evaluate(ranking).per_query[AP[data.protocol]] for ranking in rankings]
    histograms = [histogram(data, ranking) for ranking in rankings]
    sides = list(map(RankedSide, [spec.label for spec in specs], aps, histograms))
    examples = choose_examples(data, rankings, aps[1] - aps[0], n_examples) if n_examples else []
    return SetReport(data, sides, examples)


def choose_examples(
    data: Dataset, rankings: Sequence[Ranking], gains: Values, count: int
) -> list[Example]:
    """The largest gains in what can be seen, and the largest loss: nobody is shown the good only.

    Of the queries that gained most over the whole ranking, those whose first ten gained most.
    """
    gains = np.nan_to_num(gains)
    order = np.argsort(-gains, kind="stable").tolist()

    def example(query: int) -> Example:
        return Example(query, [_first_counted(data, ranking, query) for ranking in rankings])

    def seen_loss(example: Example) -> int:
        before, after = (sum(right for _, right in rows) for rows in example.lists)
        return before - after

    examples = [example(query) for query in order[: 10 * count] if gains[query] >= 0]
    examples.sort(key=seen_loss)  # stable: then by gain in AP
    losers = [example(order[-1])] if gains[order[-1]] < 0 else []
    return examples[: count - len(losers)] + losers


def histogram(data: Dataset, ranking: Ranking) -> DistanceHistogram:
    """Distances of matches and non-matches over a sample of the queries."""
    n = len(ranking)
    distances: list[npt.NDArray[np.float32]] = []
    kinds: list[npt.NDArray[np.int8]] = []
    for query in np.linspace(0, n - 1, min(n, MAX_QUERIES)).astype(np.int64):
        rows = ranking.indices[query]
        kinds.append(data.relevance(int(query))[rows[rows >= 0]])
        distances.append(ranking.distances[query][rows >= 0])
    values = np.concatenate(distances)
    codes = np.concatenate(kinds)
    right = values[codes == RIGHT]
    wrong = values[(codes != RIGHT) & (codes != NOT_COUNTED)]
    finite = [values[np.isfinite(values)] for values in (right, wrong)]
    everything = np.concatenate(finite)
    low, high = (everything.min(), everything.max()) if len(everything) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    counts = [np.histogram(values, edges)[0] for values in finite]
    matches, others = (count / max(count.sum(), 1) for count in counts)
    return DistanceHistogram(edges, matches, others, _right_order(right, wrong))


def _right_order(matches: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> float:
    """The share of pairs in which the match is the nearer one; ties count half."""
    if not len(matches) or not len(others):
        return float("nan")
    ordered = np.sort(others)
    left, right = (np.searchsorted(ordered, matches, side) for side in ("left", "right"))
    return float((len(ordered) - right + (right - left) / 2).mean() / len(ordered))


def _first_counted(data: Dataset, ranking: Ranking, query: int) -> list[tuple[int, bool]]:
    """The first gallery rows that the protocol looks at, and whether they are right."""
    codes = data.relevance(query)
    rows = ranking.indices[query]
    rows = rows[rows >= 0]
    counted = rows[codes[rows] != NOT_COUNTED][:FIRST]
    return [(int(row), bool(codes[row] == RIGHT)) for row in counted]
