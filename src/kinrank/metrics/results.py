"""What an evaluation returns, and how sure one can be of a difference.

Every value is a fraction in [0, 1]; printing shows per cent. A summary value is the mean of the
per-query values over the queries that count, so that intervals and tests can be made from the same
numbers.

Intervals come from a paired bootstrap: queries are drawn with replacement, the same ones for every
method, and the mean of each metric is taken again. The middle 95% of these means is the interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.types import Longs, Values
from kinrank.validation import as_array, check_float, check_int

NAMED_QUERIES = 10
DRAWS = 10_000
CHUNK = 250
MOST_DRAWS = 1_000_000
_LARGEST = 1e150  # sums and differences fit float64


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
        self._stem = stem
        self.__doc__ = text

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


@dataclass(frozen=True)
class Interval:
    """A mean over queries with its interval, as fractions."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether a difference of this interval can be called one."""
        return self.low > 0 or self.high < 0


def confidence_intervals(
    columns: Values, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> list[Interval]:
    """Intervals of the mean of each column.

    Parameters
    ----------
    columns : (n_queries, m), per-query values or differences; rows with NaN do not count
    level : how much of the drawn means lies inside
    draws : how many times the queries are drawn
    seed : of the draws; the same seed gives the same intervals
    """
    check_float("level", level, 0, 1, low_open=True, high_open=True)
    check_int("draws", draws, 1, MOST_DRAWS)
    counted = _numbers("columns", columns)
    if counted.ndim != 2:
        raise InvalidInputError(f"`columns` must be two-dimensional, got shape {counted.shape}.")
    counted = counted[~np.isnan(counted).any(axis=1)]
    if not len(counted):
        return [Interval(np.nan, np.nan, np.nan)] * counted.shape[1]
    means = _drawn_means(counted, draws, np.random.default_rng(check_int("seed", seed, 0)))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    rows = np.stack([counted.mean(axis=0), low, high], axis=1)
    return [Interval(*row) for row in rows.tolist()]


def paired_difference(
    after: Values, before: Values, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """How much larger the mean of ``after`` is, over the same queries.

    Examples
    --------
    >>> import kinrank
    >>> gain = kinrank.evaluate.paired_difference([0.9, 0.8, 0.7, 0.9], [0.6, 0.7, 0.5, 0.6])
    >>> round(gain.mean, 3), gain.excludes_zero
    (0.225, True)
    """
    now = _numbers("after", after)
    then = _numbers("before", before)
    if now.ndim != 1 or now.shape != then.shape:
        raise InvalidInputError(
            "`after` and `before` must be of the same queries, one value for each, "
            f"got shapes {now.shape} and {then.shape}."
        )
    differences = (now - then)[:, None]
    return confidence_intervals(differences, level=level, draws=draws, seed=seed)[0]


def _numbers(name: str, values: Any) -> Values:
    """Values whose sums fit, or NaN."""
    array = as_array(name, values)
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"`{name}` must hold real numbers, got dtype {array.dtype}.")
    with np.errstate(over="ignore"):  # of a long double
        wide: Values = array.astype(np.float64)
    if (np.abs(wide) > _LARGEST).any():
        raise InvalidInputError(f"`{name}` must hold values of at most {_LARGEST:g}, got others.")
    return wide


def _drawn_means(columns: Values, draws: int, random: np.random.Generator) -> Values:
    n = len(columns)
    means = np.empty((draws, columns.shape[1]))
    for low in range(0, draws, CHUNK):
        count = min(CHUNK, draws - low)
        drawn = random.integers(0, n, (count, n)) + np.arange(count)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=count * n).reshape(count, n)
        means[low : low + count] = times @ columns / n
    return means
