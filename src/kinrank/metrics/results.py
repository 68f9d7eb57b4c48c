"""What an evaluation returns.

Every value is a fraction in [0, 1]; printing shows per cent. A summary value is the mean of the
per-query values over the queries that count, so that intervals and tests can be made from the same
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kinrank.types import Longs, Values

NAMED_QUERIES = 10


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of one ranking.

    Attributes
    ----------
    per_query : metric name -> (n_queries,) values, NaN where the query does not count
    no_match : the queries without a right answer in the gallery, which do not count
    missing : how many right answers the ranking does not list (0 for a whole ranking)
    """

    per_query: Mapping[str, Values]
    no_match: Longs
    missing: int

    @property
    def n_queries(self) -> int:
        """The number of queries, those that do not count among them."""
        return len(next(iter(self.per_query.values())))

    def __getitem__(self, name: str) -> float:
        return _mean(self.per_query[name])

    def summary(self) -> dict[str, float]:
        """Metric name -> mean over the queries that count."""
        return {name: _mean(values) for name, values in self.per_query.items()}

    def __str__(self) -> str:
        lines = [f"{name:<13}{100 * value:6.2f}" for name, value in self.summary().items()]
        return "\n".join(lines + self._remarks())

    def _remarks(self) -> list[str]:
        remarks = [f"{'queries':<13}{self.n_queries:6d}"]
        if len(self.no_match):
            named = ", ".join(str(row) for row in self.no_match[:NAMED_QUERIES])
            more = ", ..." if len(self.no_match) > NAMED_QUERIES else ""
            remarks.append(f"{len(self.no_match)} without a match, not counted: {named}{more}")
        if self.missing:
            remarks.append(
                f"{self.missing} right answers are not in the ranking and count as not found"
            )
        return remarks


@dataclass(frozen=True, eq=False)
class LabelEvaluation(Evaluation):
    """One average precision for each query: ``ap``, and their mean ``mAP``."""

    @property
    def mAP(self) -> float:  # noqa: N802 - the field's name
        """Mean average precision."""
        return self["mAP"]

    @property
    def ap(self) -> Values:
        """Average precision of each query."""
        return self.per_query["mAP"]


class _ByNumber:
    """The number behind ``stem`` in the name of a metric -> its mean."""

    def __init__(self, stem: str, text: str) -> None:
        self._stem, self.__doc__ = stem, text

    def __get__(self, result: Evaluation | None, _: type | None = None) -> dict[int, float]:
        if result is None:  # asked of the class
            return self  # type: ignore[return-value]
        numbers = {name.removeprefix(self._stem): name for name in result.per_query}
        return {int(number): result[name] for number, name in numbers.items() if number.isdigit()}


@dataclass(frozen=True, eq=False)
class ReidEvaluation(LabelEvaluation):
    """Re-identification: ``mAP``, ``cmc`` (rank -> share), ``mINP``, ``ap`` per query."""

    @property
    def mINP(self) -> float:  # noqa: N802 - the field's name
        """Mean inverse negative penalty."""
        return self["mINP"]

    cmc = _ByNumber("R", "Rank -> share of the queries with a right answer up to that rank.")


@dataclass(frozen=True, eq=False)
class LevelEvaluation(LabelEvaluation):
    """One level of the Revisited protocol: ``mAP``, ``mP`` (k -> precision), ``ap`` per query."""

    mP = _ByNumber("mP@", "By k: mean precision of the first k.")  # noqa: N815 - the field's name


@dataclass(frozen=True, eq=False)
class RevisitedEvaluation(Evaluation):
    """Revisited Oxford/Paris: ``easy``, ``medium`` and ``hard``, and ``mAP`` by level letter.

    ``no_match`` names the queries that count in no level; each level has its own ``no_match``.
    """

    easy: LevelEvaluation
    medium: LevelEvaluation
    hard: LevelEvaluation

    @property
    def mAP(self) -> dict[str, float]:  # noqa: N802 - the field's name
        """Level letter (E, M, H) -> mean average precision."""
        return {"E": self.easy.mAP, "M": self.medium.mAP, "H": self.hard.mAP}

    @property
    def ap(self) -> dict[str, Values]:
        """Level letter (E, M, H) -> average precision of each query."""
        return {"E": self.easy.ap, "M": self.medium.ap, "H": self.hard.ap}


@dataclass(frozen=True, eq=False)
class RetrievalEvaluation(LabelEvaluation):
    """Plain labels: ``mAP`` and, by k, ``mAP_at``, ``recall``, ``precision``, ``nDCG``, ``hit``."""

    mAP_at = _ByNumber("mAP@", "By k: mean average precision of the first k.")  # noqa: N815
    recall = _ByNumber("recall@", "By k: share of the right answers among the first k.")
    precision = _ByNumber("precision@", "By k: share of the first k that are right.")
    nDCG = _ByNumber("nDCG@", "By k: normalised discounted cumulative gain.")  # noqa: N815
    hit = _ByNumber("hit@", "By k: share of the queries with a right answer among the first k.")


def _mean(values: Values) -> float:
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else float("nan")
