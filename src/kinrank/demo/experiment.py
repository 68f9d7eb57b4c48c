"""Rank a small set twice, measure both, and group it: scikit-learn's digits, or what is brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank._api import group
from kinrank.cas import CAS
from kinrank.datasets.base import Dataset, Part
from kinrank.datasets.digits import digits
from kinrank.evaluate import Evaluation
from kinrank.evaluate.search import Plain
from kinrank.groups import Groups
from kinrank.metrics.grouping import GroupingScores, score_grouping
from kinrank.report.thumbnails import Side, picture
from kinrank.tune.result import Tuning
from kinrank.types import Ranking

FIRST = 10  # how many results the page shows
GROUPS_SHOWN = 10
CELLS = 1 << 26  # of a ranking of all rows for all rows
HEADLINES = ("mAP", "R1", "mINP")
# Each digit has some 170 of its kind: clusters may be larger than the default's.
PARAMS = {"k1": 60, "k2": 6}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The words of a page.

    title, many, vectors : what is ranked, many of it, and what is compared
    caption : a picture in words, with {} for its class or its name
    word : what a class is called
    origin, command : where the pictures come from, and how the page was made
    kind : how pictures are drawn: a few large pixels, or photos
    side : pixels of a picture
    """

    title: str
    many: str
    vectors: str
    caption: str
    word: str
    origin: str
    command: str
    kind: Literal["pixels", "photos"]
    side: int


DIGITS = Subject(
    title="digits",
    many="handwritten digits",
    vectors="the pixels",
    caption="a handwritten {}",
    word="digit",
    origin="handwritten digits of scikit-learn (UCI Optical Recognition of Handwritten Digits)",
    command="kinrank demo",
    kind="pixels",
    side=8,
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One ranking of the whole gallery, what it is worth and what it cost."""

    name: str
    ranking: Ranking
    evaluation: Evaluation | None
    seconds: Mapping[str, float]

    @property
    def headline(self) -> dict[str, float]:
        """The figures of the table, in per cent; none where nobody knows what is right."""
        known = self.evaluation
        return {} if known is None else {name: 100 * known[name] for name in HEADLINES}

    @property
    def ap(self) -> npt.NDArray[np.float64]:
        """Average precision of each query, in per cent."""
        assert self.evaluation is not None
        return 100 * self.evaluation.per_query["mAP"]


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything that the table and the page show.

    ``preparation`` is the time of what both rankings need, such as features of pictures.
    ``groups`` are those of the gallery, found without labels.
    ``tuning`` is what was expected before, without labels.
    """

    data: Dataset
    params: Mapping[str, Any]
    before: Outcome
    after: Outcome
    groups: Groups
    subject: Subject = DIGITS
    preparation: Mapping[str, float] = field(default_factory=dict)
    tuning: Tuning | None = None

    @property
    def queries(self) -> Part:
        return self.data.query

    @property
    def gallery(self) -> Part:
        return self.data.gallery

    @property
    def others(self) -> int:
        """How many rows each query is ranked among; it is none of them."""
        return len(self.gallery) - (self.data.query_rows is not None)

    @property
    def judged(self) -> bool:
        """Whether it is known which results are right."""
        return self.before.evaluation is not None

    @property
    def call(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"kinrank.CAS({values})"

    @property
    def change(self) -> dict[str, float]:
        """What the table's figures changed by, as the shown figures differ."""
        before = self.before.headline
        after = self.after.headline
        return {name: round(after[name], 2) - round(before[name], 2) for name in before}

    @property
    def grouping(self) -> GroupingScores | None:
        """The groups against the labels; None where nobody knows them."""
        labels = self.gallery.labels
        return None if labels is None else score_grouping(labels, self.groups.labels)

    def shown_groups(self) -> list[tuple[int, list[int]]]:
        """The largest groups: sizes, and the rows that are most central."""
        sizes = np.bincount(self.groups.labels)
        largest = np.argsort(-sizes, kind="stable")[:GROUPS_SHOWN].tolist()
        return [
            (int(sizes[number]), self.groups.members(number)[:FIRST].tolist())
            for number in largest
            if sizes[number] > 1
        ]

    def picture(self, side: Side, row: int) -> str:
        return picture(self.data, side, row) or ""

    def label(self, side: Side, row: int) -> str:
        """The class of ``row`` as it is shown; nothing if it is not known."""
        labels = getattr(self.data, side).labels
        return "" if labels is None else str(labels[row])

    def name(self, side: Side, row: int) -> str:
        """What a row is called; the digits have no names."""
        return f"{side} {row}"

    def words(self, side: Side, row: int) -> str:
        """A picture in words: its class, or its name where no class is known."""
        return self.subject.caption.format(self.label(side, row) or self.name(side, row))

    def results(self, outcome: Outcome, row: int) -> list[tuple[int, str]]:
        """The first results of a query: right or wrong, or new or kept where nobody knows."""
        first = outcome.ranking.indices[row, :FIRST]
        if self.judged:
            flags = self.right(outcome)[row, :FIRST]
            words = ("wrong", "right")
        else:
            flags = np.isin(first, self.before.ranking.indices[row, :FIRST])
            words = ("new", "kept")
        return [(int(at), words[int(flag)]) for at, flag in zip(first, flags, strict=True)]

    def hits(self, outcome: Outcome, row: int) -> list[bool]:
        """Whether each result is right, down to as many as there are right ones."""
        right = self.right(outcome)[row]
        return right[: right.sum()].tolist()  # type: ignore[no-any-return]

    def right(self, outcome: Outcome) -> npt.NDArray[np.bool_]:
        """Which results are of the query's digit, (n_queries, n_gallery)."""
        results = np.asarray(self.gallery.labels)[outcome.ranking.indices]
        return np.asarray(results == np.asarray(self.queries.labels)[:, None])

    @property
    def gains(self) -> npt.NDArray[np.float64]:
        """What each query gained in average precision, in points of per cent."""
        return self.after.ap - self.before.ap

    def examples(self) -> dict[str, list[int]]:
        """Queries worth a look, by what they show; each appears once."""
        if not self.judged:
            order = np.argsort(-self.changes(), kind="stable")
            return {"changed": order[:FIRST].tolist()}
        gains = self.gains
        before, after = (
            self.right(outcome)[:, :FIRST].sum(axis=1) for outcome in (self.before, self.after)
        )
        orders = {
            "lost": (np.argsort(gains, kind="stable"), 1 if gains.min() < 0 else 0),
            "top": (np.lexsort((-gains, before - after)), 4),
            "gained": (np.argsort(-gains, kind="stable"), 2),
            "typical": (np.argsort(np.abs(gains - np.median(gains)), kind="stable"), 3),
        }
        chosen: dict[str, list[int]] = {}
        for name, (order, count) in orders.items():
            taken = {row for rows in chosen.values() for row in rows}
            chosen[name] = [row for row in order.tolist() if row not in taken][:count]
        return chosen

    def changes(self) -> npt.NDArray[np.int64]:
        """How many of the first ten results of each query were not there before."""
        first = [outcome.ranking.top(FIRST).indices for outcome in (self.before, self.after)]
        return np.array([len(np.setdiff1d(new, old)) for old, new in zip(*first, strict=True)])


def run(threads: int | None = None, **params: Any) -> Demo:
    """Rank the digits by Euclidean distance and by CAS with ``params``, or with those of the demo.

    Each runs twice and the second time is measured, so that the times are those of the method and
    not of the compiler.
    """
    return Demo(*rank_and_group(digits(), params or PARAMS, threads))


def rank_and_group(
    data: Dataset, params: Mapping[str, Any], threads: int | None = None
) -> tuple[Dataset, Mapping[str, Any], Outcome, Outcome, Groups]:
    """What a Demo begins with: the gallery ranked for the queries before and after, and grouped.

    Where the queries are rows of the gallery, every row is asked, and theirs are looked at.
    """
    own = data.query_rows
    gallery = data.gallery.features
    queries = data.query.features if own is None else gallery
    searched = gallery if own is None else None
    n = len(data.gallery)
    k = None if own is None else min(n - 1, CELLS // n)
    known = data.gallery.labels is not None
    outcomes = []
    for name, method in (("Euclidean", Plain()), ("CAS", CAS(**params))):
        method.rerank(queries, searched, k, threads=threads)
        watch = progress.Stopwatch()
        with progress.listen(watch):
            ranking = method.rerank(queries, searched, k, threads=threads)
        if own is not None:
            ranking = Ranking(ranking.indices[own], ranking.distances[own])
        evaluation = data.evaluate(ranking) if known else None
        outcomes.append(Outcome(name, ranking, evaluation, watch.seconds))
    before, after = outcomes
    return data, params, before, after, group(gallery, threads=threads)
