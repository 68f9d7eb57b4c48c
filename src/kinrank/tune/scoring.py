"""How good parameters are without labels: two halves of the features should agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.tune.result import Curve
from kinrank.types import Ints

DEPTHS = (5, 10)  # of the results that are compared
# Differences of agreement that hardly matter: two results in a hundred.
TOLERANCE = 0.02
# A default is left for something better only if chance would hardly make it look so.
ERRORS = 5.0

Values = npt.NDArray[np.float64]


def agreement(one: Ints, other: Ints, depths: tuple[int, ...] = DEPTHS) -> Values:
    """The share of the first results that both have, for each row, over the depths.

    one, other : (m, k) results, k at least the largest depth; returns (m,) in [0, 1]
    """
    width = int(max(one.max(initial=0), other.max(initial=0))) + 1
    offset = np.arange(len(one), dtype=np.int64)[:, None] * width  # rows cannot be confused
    one, other = one + offset, other + offset
    shares = [np.isin(one[:, :d], other[:, :d]).sum(axis=1) / d for d in depths]
    mean: Values = np.mean(shares, axis=0)
    return mean


def expected_gain(before: Ints, after: Ints, one: Ints, other: Ints) -> tuple[float, float]:
    """Mean gain of average precision and its standard error.

    What is among the first results by both halves counts as right; rankings by the whole features,
    before and after, are measured by it.

    before, after : (m, L); one, other : (m, k), k at most L
    """
    gains = [
        _precision(new, right) - _precision(old, right)
        for old, new, right in zip(before, after, map(np.intersect1d, one, other), strict=True)
        if len(right)
    ]
    if not gains:
        return 0.0, 0.0
    return float(np.mean(gains)), float(np.std(gains) / np.sqrt(len(gains)))


def _precision(ranking: Ints, right: Ints) -> float:
    """Average precision; what is not listed is not found."""
    places = np.flatnonzero(np.isin(ranking, right))
    return float(np.sum(np.arange(1, len(places) + 1) / (places + 1)) / len(right))


def size_curve(parameter: str, values: Sequence[int], scores: Values, group: float | None) -> Curve:
    """Choose a number of neighbours.

    Two looks that know nothing of each other count the same: where the halves agree most, and how
    large the groups are that gaps in the distances show.

    values : ascending; scores : (len(values), m) agreement of each row
    group : size of the groups, None if there are none
    """
    chosen = best_size(values, scores.mean(axis=1))
    if group is not None:
        chosen = float(np.sqrt(chosen * group))
    return _curve(parameter, values, scores, round(float(np.clip(chosen, values[0], values[-1]))))


def best_size(values: Sequence[int], agreement: Values) -> float:
    """The mean of all values, in logarithms, each with the weight exp(-what it lacks)."""
    weight = np.exp((agreement - agreement.max()) / TOLERANCE)
    return float(np.exp(np.average(np.log(values), weights=weight)))


def option_curve(parameter: str, values: Sequence[Any], scores: Values, default: Any) -> Curve:
    """The default, or what both the first few and many results say is better, beyond doubt.

    Agreement on few results alone would be misled: the share of the original distance, for one,
    makes both halves alike without making them right.

    values : with the default among them; scores : (2, len(values), m)
    """
    gains = scores - scores[:, [list(values).index(default)]]
    errors = _error(gains)
    clear = np.divide(gains.mean(axis=2), errors, out=np.zeros_like(errors), where=errors > 0)
    least = clear.min(axis=0)
    best = int(np.argmax(least))
    chosen = values[best] if least[best] > ERRORS else default
    return _curve(parameter, values, scores[0], chosen)


def _curve(parameter: str, values: Sequence[Any], scores: Values, chosen: Any) -> Curve:
    means = scores.mean(axis=1)
    errors = _error(scores - scores[int(np.argmax(means))])
    return Curve(
        parameter=parameter, values=tuple(values), chosen=chosen,
        agreement=tuple(means.tolist()), error=tuple(errors.tolist()),
    )  # fmt: skip


def _error(difference: Values) -> Values:
    error: Values = difference.std(axis=-1) / np.sqrt(difference.shape[-1])
    return error
