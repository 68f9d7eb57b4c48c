"""From agreements to a choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Differences of agreement that hardly matter: two results in a hundred.
TOLERANCE = 0.02
# A default is left for something better only if chance would hardly make it look so.
ERRORS = 5.0

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How far both halves of the features agree, for each value of one parameter.

    Attributes
    ----------
    parameter : its name
    values : what was tried, ascending if they are numbers
    agreement : mean share of common results, in [0, 1]
    error : standard error of its difference to the best of the curve, over rows
    chosen : what was chosen; a size lies between the values that were tried
    """

    parameter: str
    values: tuple[Any, ...]
    agreement: tuple[float, ...]
    error: tuple[float, ...]
    chosen: Any


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
