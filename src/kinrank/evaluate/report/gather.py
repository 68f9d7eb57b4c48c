"""What the report shows besides the tables: rankings before and after, seen from close by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.datasets.base import NOT_COUNTED, RIGHT, Dataset
from kinrank.evaluate.cells import timed_ranking
from kinrank.evaluate.metrics import Values
from kinrank.evaluate.spec import MethodSpec
from kinrank.types import Ranking

BINS = 60
MAX_QUERIES = 400
FIRST = 10
# The metric whose per-query values are average precisions.
AP = {"revisited": "mAP M", "reid": "mAP", "retrieval": "mAP", "single_shot": "mAP"}


@dataclass(frozen=True, eq=False)
class Histogram:
    """Distances of matches and of non-matches, as shares, and how well they are apart.

    ``order`` is the share of pairs of a match and a non-match that are in the right order.
    """

    edges: Values
    matches: Values
    others: Values
    order: float


@dataclass(frozen=True, eq=False)
class Example:
    """One query: the first that count before and after, and whether each is right."""

    query: int
    before: list[tuple[int, bool]]
    after: list[tuple[int, bool]]
    ap_before: float
    ap_after: float


@dataclass(frozen=True, eq=False)
class SetReport:
    """One data set, ranked plainly and by the method in focus."""

    data: Dataset
    before: str
    after: str
    ap_before: Values
    ap_after: Values
    histograms: tuple[Histogram, Histogram]
    examples: Sequence[Example]

    def query_name(self, query: int) -> str:
        """The file name of a query, or its number."""
        paths = self.data.query.paths
        return f"query {query}" if paths is None else paths[query].rpartition("/")[2]


def gather(
    data: Dataset,
    before: MethodSpec,
    after: MethodSpec,
    *,
    n_examples: int = 6,
    threads: int | None = None,
) -> SetReport:
    """Rank a set twice and keep what the report needs of it."""
    rankings = [timed_ranking(spec, data, threads=threads)[0] for spec in (before, after)]
    metric = AP[data.protocol]
    aps = [data.evaluate(ranking).per_query[metric] for ranking in rankings]
    chosen = choose_queries(aps[0], aps[1], n_examples)
    examples = [
        Example(
            query,
            _first_counted(data, rankings[0], query),
            _first_counted(data, rankings[1], query),
            float(aps[0][query]),
            float(aps[1][query]),
        )
        for query in chosen
    ]
    histograms = (histogram(data, rankings[0]), histogram(data, rankings[1]))
    return SetReport(data, before.label, after.label, aps[0], aps[1], histograms, examples)


def choose_queries(before: Values, after: Values, count: int) -> list[int]:
    """The largest gains, and the largest loss, so that nobody is shown only the good ones."""
    gains = np.where(np.isnan(after - before), 0, after - before)
    order = np.argsort(-gains, kind="stable")
    chosen = [int(query) for query in order[: max(count - 1, 0)]]
    if count and gains[order[-1]] < 0 and int(order[-1]) not in chosen:
        chosen.append(int(order[-1]))
    return chosen


def histogram(data: Dataset, ranking: Ranking) -> Histogram:
    """Distances of matches and non-matches over a sample of the queries."""
    n = len(ranking)
    queries = np.linspace(0, n - 1, min(n, MAX_QUERIES)).astype(np.int64)
    matches: list[npt.NDArray[np.float32]] = []
    others: list[npt.NDArray[np.float32]] = []
    for query in queries:
        codes = data.relevance(int(query))
        listed = ranking.indices[query] >= 0
        kinds = codes[ranking.indices[query][listed]]
        distances = ranking.distances[query][listed]
        matches.append(distances[kinds == RIGHT])
        others.append(distances[(kinds != RIGHT) & (kinds != NOT_COUNTED)])
    right, wrong = np.concatenate(matches), np.concatenate(others)
    everything = np.concatenate([right, wrong])
    finite = everything[np.isfinite(everything)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    counts = [np.histogram(part[np.isfinite(part)], edges)[0] for part in (right, wrong)]
    shares = [count / max(count.sum(), 1) for count in counts]
    return Histogram(edges, shares[0], shares[1], _right_order(right, wrong))


def _right_order(matches: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> float:
    """The share of pairs in which the match is the nearer one; ties count half."""
    if not len(matches) or not len(others):
        return float("nan")
    ordered = np.sort(others)
    nearer = len(ordered) - np.searchsorted(ordered, matches, "right")
    level = np.searchsorted(ordered, matches, "right") - np.searchsorted(ordered, matches, "left")
    return float((nearer + level / 2).mean() / len(ordered))


def _first_counted(data: Dataset, ranking: Ranking, query: int) -> list[tuple[int, bool]]:
    """The first gallery rows that the protocol looks at, and whether they are right."""
    codes = data.relevance(query)
    rows = ranking.indices[query]
    rows = rows[rows >= 0]
    counted = rows[codes[rows] != NOT_COUNTED][:FIRST]
    return [(int(row), bool(codes[row] == RIGHT)) for row in counted]
