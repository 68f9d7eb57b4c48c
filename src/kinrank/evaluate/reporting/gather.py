"""What the report shows besides the tables: rankings before and after, seen from close by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.datasets.base import NOT_COUNTED, RIGHT, Dataset
from kinrank.evaluate.cells import timed_ranking
from kinrank.evaluate.spec import MethodSpec
from kinrank.metrics.per_query import Values
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

    @property
    def seen_gain(self) -> int:
        """How many more of the first ten are right."""
        return sum(right for _, right in self.after) - sum(right for _, right in self.before)


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
    examples = choose_examples(data, rankings, aps, n_examples) if n_examples else []
    histograms = (histogram(data, rankings[0]), histogram(data, rankings[1]))
    return SetReport(data, before.label, after.label, aps[0], aps[1], histograms, examples)


def choose_examples(
    data: Dataset, rankings: Sequence[Ranking], aps: Sequence[Values], count: int
) -> list[Example]:
    """The largest gains in what can be seen, and the largest loss: nobody is shown the good only.

    Of the queries that gained most over the whole ranking, those whose first ten gained most.
    """
    gains = np.where(np.isnan(aps[1] - aps[0]), 0, aps[1] - aps[0])
    order = np.argsort(-gains, kind="stable")
    last = int(order[-1])
    candidates = [int(query) for query in order[: 10 * count] if gains[query] >= 0]
    examples = [_example(data, rankings, aps, query) for query in candidates]
    examples.sort(key=lambda example: -example.seen_gain)  # stable: then by gain in AP
    losers = [_example(data, rankings, aps, last)] if gains[last] < 0 else []
    return examples[: count - len(losers)] + losers


def _example(
    data: Dataset, rankings: Sequence[Ranking], aps: Sequence[Values], query: int
) -> Example:
    before, after = (_first_counted(data, ranking, query) for ranking in rankings)
    return Example(query, before, after, float(aps[0][query]), float(aps[1][query]))


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
