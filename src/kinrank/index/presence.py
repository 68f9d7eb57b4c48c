"""Whether the item that a query shows is in the gallery at all: its *presence*.

The evidence is r - 4 d - d*, where

    d     plain distance from the query to its first result, over the result's largest distance
    d*    re-ranked distance from the query to its first result
    r     mean plain distance from that result to its own farther neighbours, over its largest
          distance; it is small where many items look alike

The weights were chosen on real collections. A logistic model makes a probability of the evidence.
It is fitted to the gallery itself: rows are taken out of the index and asked for. Where other rows
of their item stay, they are *known*; where all rows of the item go with them, they are *unknown*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.index.change import changed
from kinrank.index.engine import Engine
from kinrank.index.ids import as_ids
from kinrank.index.same_item import RowsOfItem
from kinrank.index.search import search_of
from kinrank.items import Pictures
from kinrank.parallel import ALONE
from kinrank.types import Floats, Ints, Ranking, Values
from kinrank.validation import check_float

_NEAREST = (
    10  # rows at the beginning of a list that may be of the same item, and do not count for r
)
_LEAST_ROWS = 10  # known and unknown ones each, to fit a model to
_RIDGE = 1e-2  # penalty of the squared slope
_NEWTON_STEPS = 50
_ROUNDS = 4  # in which rows are taken out
_LARGEST_SHARE = 0.2  # of the gallery that is taken out in a round, of several items
_LARGEST_ITEM = 0.5  # share of the gallery that an item may be to be taken out


@dataclass(frozen=True, eq=False)
class PresenceModel:
    """Turns evidence into a probability: P = 1 / (1 + exp(-(bias + slope evidence))).

    bias, slope : of the logistic model
    unknown : (m,) float64, descending: the evidence of unknown rows, whose item was taken out
    removed : the share of the gallery that was taken out in a round, on average
    """

    bias: float
    slope: float
    unknown: Values
    removed: float

    def evidence_of(
        self, engine: Engine, queries: Floats, ranking: Ranking, pictures: Pictures | None
    ) -> Values:
        """The evidence that each item is in the gallery, float64; -inf for one without results.

        queries : (n_queries, d) float32, scaled
        ranking : of the queries, or of the items where there are ``pictures``
        pictures : for each item the numbers of its queries, whose evidence is averaged; None where
            each query is an item
        """
        if pictures is None:
            return evidence(engine, queries, ranking)
        owners = np.repeat(np.arange(len(pictures)), [len(of_item) for of_item in pictures])
        first = Ranking(ranking.indices[owners, :1], ranking.distances[owners, :1])
        of_pictures = evidence(engine, queries[np.concatenate(pictures)], first)
        return np.array([of_pictures[owners == item].mean() for item in range(len(pictures))])

    def probability(self, evidence: Values) -> Floats:
        """The probability of presence, (n,) float32; 0 where the evidence is -inf."""
        odds = np.clip(self.bias + self.slope * evidence, -80, 80)
        return np.where(np.isfinite(evidence), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)

    @property
    def least_rate(self) -> float:
        """The smallest ``unknown_rate`` that so many unknown rows can tell."""
        return 1 / ((1 - self.removed) * (len(self.unknown) + 1))

    def least_evidence(self, unknown_rate: float) -> float:
        """The evidence that no more than this share of the queries with unknown items exceed.

        It is one of the evidences of unknown rows, which descend: the n-th of these is exceeded by
        n - 1 others. These rows could be mistaken for fewer rows than a query can, as others were
        taken out with them; so the share is made smaller by the share that was taken out.
        """
        rate = check_float("unknown_rate", unknown_rate, 0, 1)
        if rate == 1:
            return -math.inf
        count = math.floor(rate * (1 - self.removed) * (len(self.unknown) + 1))
        if count < 1:
            raise InvalidInputError(
                f"`unknown_rate` must be at least {self.least_rate:.2g}, which is what "
                f"{len(self.unknown)} rows that were taken out can tell, got {unknown_rate}. "
                "Calibrate with a larger `sample`, if the gallery has more rows."
            )
        return float(self.unknown[count - 1])


def evidence(engine: Engine, queries: Floats, ranking: Ranking) -> Values:
    """The evidence that the first result of each query shows its item, (n_queries,); -inf for none.

    queries : (n_queries, d) float32, scaled; ranking : of these queries
    """
    state = engine.state
    evidence_of_queries = np.full(len(queries), -np.inf)
    if ranking.k == 0:
        return evidence_of_queries
    has_result = np.flatnonzero(ranking.indices[:, 0] >= 0)
    rows = state.position[ranking.indices[has_result, 0]]
    farthest = np.maximum(state.neighbors.farthest[rows], np.finfo(np.float32).tiny)
    plain = np.minimum(engine.squared_distances(queries, has_result, rows) / farthest, 1)
    lists = state.neighbors.distances[rows]
    farther_neighbors = lists[:, min(_NEAREST, lists.shape[1] // 2) :]
    spread = np.minimum(farther_neighbors, farthest[:, None]).mean(axis=1) / farthest
    re_ranked = ranking.distances[has_result, 0]
    evidence_of_queries[has_result] = spread - 4 * plain - re_ranked
    return evidence_of_queries


class TakenOut(NamedTuple):
    """Gallery rows, by index, that are taken out of an index in one round.

    every : all of them
    unknown : those to ask for whose item is gone
    known : those to ask for that were taken out alone, so that others of their item stay
    """

    every: Ints
    unknown: Ints
    known: Ints


def fit_presence(
    engine: Engine, rows_of_item: RowsOfItem, order: Ints, sample: int
) -> PresenceModel | None:
    """Fit a model to the gallery itself; None where it is too small.

    Few rows are taken out at a time, so that what is left looks like the gallery.

    rows_of_item : from the index of a gallery row to the indices of all that show its item
    order : (n_gallery,) gallery indices in the order in which they are taken out
    sample : how many unknown rows to ask for, in all rounds together
    """
    state = engine.state
    was_taken = np.zeros(state.n_gallery, np.bool_)
    known: list[Values] = []  # evidence, round by round
    unknown: list[Values] = []
    shares: list[float] = []  # of the gallery that was taken out
    for _ in range(_ROUNDS):
        n_wanted = sample - sum(map(len, unknown))
        if n_wanted <= 0:
            break
        taken_out = _rows_to_take_out(rows_of_item, order, was_taken, n_wanted)
        if len(taken_out.unknown) == 0 or state.n_gallery - len(taken_out.every) < 2:
            break
        was_taken[taken_out.every] = True
        none = np.empty((0, state.scaling.dims), np.float32)
        left_state = changed(state, as_ids(state.ids[taken_out.every]), none, as_ids([]), ALONE)
        smaller = Engine(left_state, search_of(left_state))
        queries = state.vectors[
            state.position[np.concatenate([taken_out.unknown, taken_out.known])]
        ]
        of_queries = evidence(smaller, queries, smaller.search(queries, 1, ALONE))
        unknown.append(of_queries[: len(taken_out.unknown)])
        known.append(of_queries[len(taken_out.unknown) :])
        shares.append(len(taken_out.every) / state.n_gallery)
    if min(sum(map(len, known)), sum(map(len, unknown))) < _LEAST_ROWS:
        return None
    of_unknown = np.concatenate(unknown)
    of_known = np.concatenate(known)
    bias, slope = _logistic(
        np.concatenate([of_known, of_unknown]),
        np.arange(len(of_known) + len(of_unknown)) < len(of_known),
    )
    return PresenceModel(bias, slope, -np.sort(-of_unknown), float(np.mean(shares)))


def _rows_to_take_out(
    rows_of_item: RowsOfItem, order: Ints, was_taken: npt.NDArray[np.bool_], n_wanted: int
) -> TakenOut:
    """Choose rows for a round: whole items up to a share of the gallery, and single rows of others.

    order : (n,) gallery indices in the order in which they are considered
    was_taken : (n,) rows that were taken out in a round before
    n_wanted : how many unknown rows to ask for at most
    """
    n = len(was_taken)
    taken = np.zeros(n, np.bool_)
    unknown: list[int] = []
    waiting = iter(order[~was_taken[order]].tolist())
    for row in waiting:
        if taken[row]:
            continue
        item = rows_of_item(row)
        if not 2 <= len(item) <= _LARGEST_ITEM * n:
            continue
        too_many = taken.sum() + len(item) > _LARGEST_SHARE * n
        if len(unknown) >= n_wanted or (unknown and too_many):
            break
        unknown.append(row)
        taken[item] = True
    for row in order[taken[order]].tolist():  # further rows whose item is gone
        if len(unknown) >= n_wanted:
            break
        if row not in unknown and not was_taken[row] and taken[rows_of_item(row)].all():
            unknown.append(row)
    known: list[int] = []
    for row in waiting:
        if len(known) >= max(len(unknown) // 2, _LEAST_ROWS):
            break
        item = rows_of_item(row)
        others_stay = len(item) - taken[item].sum() > 1
        if others_stay and not taken[row]:
            known.append(row)
            taken[row] = True
    return TakenOut(
        every=np.flatnonzero(taken).astype(np.int32),
        unknown=np.array(unknown, np.int32),
        known=np.array(known, np.int32),
    )


def _logistic(evidence: Values, is_known: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Bias and slope (at least 0) of a logistic regression, by Newton's method.

    Known and unknown rows weigh the same in sum; a ridge holds the slope.

    evidence, is_known : (m,), of known and unknown rows
    """
    mean = float(evidence.mean())
    scale = max(float(evidence.std()), 1e-9)
    features = np.stack([np.ones(len(evidence)), (evidence - mean) / scale], axis=1)
    share_known = is_known.mean()
    row_weights = np.where(is_known, 0.5 / share_known, 0.5 / (1 - share_known)) / len(is_known)
    ridge = np.diag([0.0, _RIDGE])
    weights = np.zeros(2)
    for _ in range(_NEWTON_STEPS):
        predicted = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        gradient = features.T @ (row_weights * (is_known - predicted)) - ridge @ weights
        variances = row_weights * np.maximum(predicted * (1 - predicted), 1e-6)
        hessian = (features * variances[:, None]).T @ features + ridge
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    slope = max(float(weights[1]), 0.0) / scale
    return float(weights[0]) - slope * mean, slope
