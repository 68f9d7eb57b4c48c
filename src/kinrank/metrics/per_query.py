"""Metrics of each query from the positions of its right answers.

All take ``Hits`` and return float64 fractions in [0, 1], one per query, NaN for a query that has no
right answer in the gallery. A right answer that the ranking does not list counts as never found,
so a cut ranking gives a lower bound of what the whole one would give.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.metrics.hits import Hits

Values: TypeAlias = npt.NDArray[np.float64]


def average_precision(hits: Hits) -> Values:
    """Mean over the right answers of the precision at their position (0 where not listed)."""
    return _share(_sum(hits, (hits.order + 1.0) / (hits.positions + 1.0)), hits.totals)


def trapezoidal_ap(hits: Hits) -> Values:
    """Area under the precision-recall curve by trapezoids, as the Oxford protocols define it.

    Each right answer adds the mean of the precision just before it and at it.
    """
    positions = hits.positions.astype(np.float64)
    before = np.ones(len(positions))
    np.divide(hits.order, positions, out=before, where=positions > 0)
    at = (hits.order + 1.0) / (positions + 1.0)
    return _share(_sum(hits, (before + at) / 2), hits.totals)


def average_precision_at(hits: Hits, k: int) -> Values:
    """Average precision of the first ``k``, over the right answers that could be among them."""
    precision = (hits.order + 1.0) / (hits.positions + 1.0)
    return _share(_sum(hits, precision * (hits.positions < k)), np.minimum(hits.totals, k))


def inverse_negative_penalty(hits: Hits) -> Values:
    """Number of right answers over the rank of the last one; 0 if one is not listed."""
    return _share(hits.totals / _last_rank(hits), hits.totals > 0)


def found_within(hits: Hits, k: int) -> Values:
    """1 if a right answer is among the first ``k``, else 0: a point of the CMC curve."""
    return _share(_count_within(hits, k) > 0, hits.totals > 0)


def recall_at(hits: Hits, k: int) -> Values:
    """Share of the right answers that are among the first ``k``."""
    return _share(_count_within(hits, k), hits.totals)


def precision_at(hits: Hits, k: int) -> Values:
    """Share of the first ``k`` that are right; a shorter list counts as wrong from its end on."""
    return _share(_count_within(hits, k), np.where(hits.totals > 0, k, 0))


def precision_until_last(hits: Hits, k: int) -> Values:
    """Precision of the first ``k``, or up to the last right answer if it comes sooner.

    The Revisited protocol does not punish a query for having fewer right answers than ``k``.
    """
    depth = np.minimum(k, _last_rank(hits))
    return _share(_count_within(hits, k), np.where(hits.totals > 0, depth, 0))


def ndcg_at(hits: Hits, k: int) -> Values:
    """Normalised discounted cumulative gain of the first ``k``, right answers of gain 1."""
    gains = np.where(hits.positions < k, 1.0 / np.log2(hits.positions + 2.0), 0.0)
    ideal = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(k) + 2.0))])
    return _share(_sum(hits, gains), ideal[np.minimum(hits.totals, k)])


def _last_rank(hits: Hits) -> Values:
    """The rank of the last right answer, infinite where one is not listed or there is none."""
    last = np.full(len(hits), np.inf)
    complete = (hits.found == hits.totals) & (hits.totals > 0)
    last[complete] = 1.0 + hits.positions[hits.indptr[1:][complete] - 1]
    return last


def _count_within(hits: Hits, k: int) -> Values:
    return _sum(hits, (hits.positions < k).astype(np.float64))


def _sum(hits: Hits, values: Values) -> Values:
    return np.bincount(hits.rows, weights=values, minlength=len(hits)).astype(np.float64)


def _share(part: npt.NDArray[np.generic], whole: npt.NDArray[np.generic]) -> Values:
    result = np.full(len(part), np.nan)
    np.divide(part, whole, out=result, where=np.asarray(whole) > 0)
    return result
