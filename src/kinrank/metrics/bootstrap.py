"""Paired bootstrap over queries, to tell whether a difference is one.

Queries are drawn with replacement, the same ones for every method, and the mean of each metric is
taken again. The middle 95% of these means is the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.types import Values
from kinrank.validation import as_array, check_float, check_int

DRAWS = 10_000
CHUNK = 250
MOST_DRAWS = 1_000_000
_LARGEST = 1e150  # sums and differences fit float64


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
    now, then = _numbers("after", after), _numbers("before", before)
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
