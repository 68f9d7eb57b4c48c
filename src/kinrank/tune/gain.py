"""What re-ranking is expected to bring, judged by what both halves of the features say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinrank.types import Ints

Values = npt.NDArray[np.float64]


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
