"""Rank a small set twice, and measure both: scikit-learn's digits, unless others are brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank import datasets, progress
from kinrank.datasets.digits import digits
from kinrank.evaluate import Evaluation
from kinrank.evaluate.search import Plain
from kinrank.methods.cas import CAS
from kinrank.png import data_uri
from kinrank.types import Floats, Ranking

FIRST = 10  # how many results the page shows
SIDE = 8  # pixels of a digit
HEADLINES = ("mAP", "R1", "mINP")
# Each digit has some 170 of its kind: clusters may be larger than the default's.
PARAMS = {"k1": 60, "k2": 6}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The words of a page.

    Attributes
    ----------
    title, many, vectors : what is ranked, many of it, and what is compared
    one : one picture in words, with {} for its class
    word : what a class is called
    origin, command : where the pictures come from, and how the page was made
    kind : how pictures are drawn: a few large pixels, or photos
    side : pixels of a picture
    """

    title: str
    many: str
    vectors: str
    one: str
    word: str
    origin: str
    command: str
    kind: Literal["pixels", "photos"]
    side: int


DIGITS = Subject(
    title="digits",
    many="handwritten digits",
    vectors="the pixels",
    one="a handwritten {}",
    word="digit",
    origin="handwritten digits of scikit-learn (UCI Optical Recognition of Handwritten Digits)",
    command="kinrank demo",
    kind="pixels",
    side=8,
)


@dataclass(frozen=True, eq=False)
class DemoRows:
    """The queries or the gallery.

    Attributes
    ----------
    vectors : (n, d) float32, unit rows
    labels : (n,) the digits, or whatever the classes are; None where nobody knows
    """

    vectors: Floats
    labels: npt.NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.vectors)

    def label(self, row: int) -> str:
        """The class of ``row`` as it is shown; nothing if it is not known."""
        return "" if self.labels is None else str(self.labels[row])

    def picture(self, row: int) -> str:
        """The picture of ``row`` as a URI."""
        return data_uri(self.image(row))

    def image(self, row: int) -> npt.NDArray[np.uint8]:
        """The picture of ``row``, black on white."""
        ink = self.vectors[row] / self.vectors[row].max()
        grey: npt.NDArray[np.uint8] = np.round(255 * (1 - ink)).astype(np.uint8)
        return grey.reshape(SIDE, SIDE)


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
        if self.evaluation is None:
            return {}
        return {name: 100 * self.evaluation[name] for name in HEADLINES}

    @property
    def ap(self) -> npt.NDArray[np.float64]:
        """Average precision of each query, in per cent."""
        assert self.evaluation is not None
        return 100 * self.evaluation.per_query["mAP"]


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything that the table and the page show.

    ``preparation`` is the time of what both rankings need, such as features of pictures.
    """

    queries: DemoRows
    gallery: DemoRows
    params: Mapping[str, Any]
    before: Outcome
    after: Outcome
    subject: Subject = DIGITS
    preparation: Mapping[str, float] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether it is known which results are right."""
        return self.before.evaluation is not None

    @property
    def call(self) -> str:
        """What to type for the second ranking."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"kinrank.CAS({values})"

    @property
    def change(self) -> dict[str, float]:
        """What the table's figures changed by, as the shown figures differ."""
        before, after = self.before.headline, self.after.headline
        return {name: round(after[name], 2) - round(before[name], 2) for name in before}

    def words(self, rows: DemoRows, row: int) -> str:
        """A picture in words."""
        return self.subject.one.format(rows.label(row) or row)

    def results(self, outcome: Outcome, row: int) -> list[tuple[int, str]]:
        """The first results of a query: right or wrong, or new or kept where nobody knows."""
        first = outcome.ranking.indices[row, :FIRST]
        if self.judged:
            flags, words = self.right(outcome)[row, :FIRST], ("wrong", "right")
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
        assert self.gallery.labels is not None
        assert self.queries.labels is not None
        found = self.gallery.labels[outcome.ranking.indices]
        return np.asarray(found == self.queries.labels[:, None])

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
    data = digits()
    queries, gallery = _part(data.query), _part(data.gallery)
    return rank_twice(data, queries, gallery, params or PARAMS, threads)


def rank_twice(
    data: datasets.Dataset,
    queries: DemoRows,
    gallery: DemoRows,
    params: Mapping[str, Any],
    threads: int | None = None,
    subject: Subject = DIGITS,
) -> Demo:
    """Rank ``gallery`` for ``queries`` before and after; ``data`` says what is right, if anyone."""
    known, outcomes = gallery.labels is not None, []
    for name, method in (("Euclidean", Plain()), ("CAS", CAS(**params))):
        method.rerank(queries.vectors, gallery.vectors, threads=threads)
        watch = progress.Stopwatch()
        with progress.listen(watch):
            ranking = method.rerank(queries.vectors, gallery.vectors, threads=threads)
        evaluation = data.evaluate(ranking) if known else None
        outcomes.append(Outcome(name, ranking, evaluation, watch.seconds))
    before, after = outcomes
    return Demo(queries, gallery, params, before, after, subject)


def _part(part: datasets.Part) -> DemoRows:
    return DemoRows(np.asarray(part.features, np.float32), np.asarray(part.labels, np.int64))
