"""Whether the item that a query shows is in the gallery at all.

Three distances tell: from the query to its first answer, plain (d) and re-ranked (d*), and from
that answer to the end of its own list of neighbours (r), which is small where many items look
alike. All are over the largest distance of the answer. evidence = r - 4 d - d*, weights that were
chosen on real collections; ``calibrate`` fits what turns it into a probability.
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
from kinrank.types import Floats, Ints, Ranking
from kinrank.validation import check_float

Matrix = npt.NDArray[np.float64]

_NEAREST = 10  # rows at the beginning of a list that may be of the same thing
_LEAST = 10  # known and unknown rows each, to learn from
_RIDGE = 1e-2
_STEPS = 50
_ROUNDS = 4  # in which rows are taken out
_SHARE = 0.2  # of the rows that may be taken out in a round, if these are several items
_MOST = 0.5  # of the rows that may be taken out, if they are one item


@dataclass(frozen=True, eq=False)
class PresenceModel:
    """P = 1 / (1 + exp(-(bias + slope * evidence))), and what queries of other items look like.

    unknown : (m,) evidence of rows that were asked for after all rows of their item were taken out
        of the index, descending
    removed : the share of the gallery that was taken out with them
    """

    bias: float
    slope: float
    unknown: Matrix
    removed: float

    def evidence_of(
        self, engine: Engine, queries: Floats, ranking: Ranking, pictures: Pictures | None
    ) -> Matrix:
        """Of each query, or of each item the mean of its ``pictures``."""
        if pictures is None:
            return evidence(engine, queries, ranking)
        owners = np.repeat(np.arange(len(pictures)), [len(of_item) for of_item in pictures])
        first = Ranking(ranking.indices[owners, :1], ranking.distances[owners, :1])
        of_pictures = evidence(engine, queries[np.concatenate(pictures)], first)
        return np.array([of_pictures[owners == item].mean() for item in range(len(pictures))])

    def probability(self, evidence: Matrix) -> Floats:
        """Of each query, (n,); 0 where there is no answer."""
        odds = np.clip(self.bias + self.slope * evidence, -80, 80)
        return np.where(np.isfinite(evidence), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)

    @property
    def least_rate(self) -> float:
        """The least ``unknown_rate`` that so many rows can tell."""
        return 1 / ((1 - self.removed) * (len(self.unknown) + 1))

    def least_evidence(self, unknown_rate: float) -> float:
        """Queries with more evidence than this are answered: of unknown ones no more than the rate.

        Rows that were taken out left fewer behind that they could be mistaken for, so the rate is
        smaller by that share.
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


def evidence(engine: Engine, queries: Floats, ranking: Ranking) -> Matrix:
    """That the first result of each query shows the same item, (n_queries,); -inf for none."""
    state = engine.state
    out = np.full(len(queries), -np.inf)
    if ranking.k == 0:
        return out
    asked = np.flatnonzero(ranking.indices[:, 0] >= 0)
    rows = state.position[ranking.indices[asked, 0]]
    far = np.maximum(state.neighbors.farthest[rows], np.finfo(np.float32).tiny)
    plain = np.minimum(engine.squared_distances(queries, asked, rows) / far, 1)
    lists = state.neighbors.distances[rows]
    behind = np.minimum(lists[:, min(_NEAREST, lists.shape[1] // 2) :], far[:, None])
    out[asked] = (behind.mean(axis=1) / far) - 4 * plain - ranking.distances[asked, 0]
    return out


class TakenOut(NamedTuple):
    """Rows that are taken out of an index at once.

    all_rows : these; unknown : those to ask for whose item is gone; known : those to ask for that
        were taken out alone
    """

    all_rows: Ints
    unknown: Ints
    known: Ints


def fit_presence(
    engine: Engine, rows_of_item: RowsOfItem, order: Ints, sample: int
) -> PresenceModel | None:
    """A model from the gallery itself; None where it is too small.

    Some rows are taken out of the index alone, others with all rows of their item: what is then
    asked for is known, and unknown. Few rows are taken out at a time, so that what is left looks
    like the gallery.

    order : gallery rows, in the order in which they are taken; sample : how many unknown ones
    """
    state = engine.state
    asked = np.zeros(state.n_gallery, np.bool_)
    known: list[Matrix] = []
    unknown: list[Matrix] = []
    shares: list[float] = []
    for _ in range(_ROUNDS):
        wanted = sample - sum(map(len, unknown))
        if wanted <= 0:
            break
        out = _take_out(rows_of_item, order, asked, wanted)
        if len(out.unknown) == 0 or state.n_gallery - len(out.all_rows) < 2:
            break
        asked[out.all_rows] = True
        none = np.empty((0, state.scaling.dims), np.float32)
        left = changed(state, as_ids(state.ids[out.all_rows]), none, as_ids([]), ALONE)
        smaller = Engine(left, search_of(left))
        queries = state.vectors[state.position[np.concatenate([out.unknown, out.known])]]
        found = evidence(smaller, queries, smaller.search(queries, 1, ALONE))
        unknown.append(found[: len(out.unknown)])
        known.append(found[len(out.unknown) :])
        shares.append(len(out.all_rows) / state.n_gallery)
    if min(sum(map(len, known)), sum(map(len, unknown))) < _LEAST:
        return None
    of_unknown = np.concatenate(unknown)
    of_known = np.concatenate(known)
    bias, slope = _logistic(
        np.concatenate([of_known, of_unknown]),
        np.arange(len(of_known) + len(of_unknown)) < len(of_known),
    )
    return PresenceModel(bias, slope, -np.sort(-of_unknown), float(np.mean(shares)))


def _take_out(
    rows_of_item: RowsOfItem, order: Ints, asked: npt.NDArray[np.bool_], wanted: int
) -> TakenOut:
    """Items up to a share of the gallery, and then single rows of others.

    asked : (n,) rows that were taken out before; wanted : how many unknown rows to ask for
    """
    n = len(asked)
    taken = np.zeros(n, np.bool_)
    unknown: list[int] = []
    waiting = iter(order[~asked[order]].tolist())
    for row in waiting:
        if taken[row]:
            continue
        item = rows_of_item(row)
        if not 2 <= len(item) <= _MOST * n:
            continue
        if len(unknown) >= wanted or (unknown and taken.sum() + len(item) > _SHARE * n):
            break
        unknown.append(row)
        taken[item] = True
    for row in order[taken[order]].tolist():  # further rows whose item is gone
        if len(unknown) >= wanted:
            break
        if row not in unknown and not asked[row] and taken[rows_of_item(row)].all():
            unknown.append(row)
    known: list[int] = []
    for row in waiting:
        if len(known) >= max(len(unknown) // 2, _LEAST):
            break
        item = rows_of_item(row)
        if len(item) - taken[item].sum() > 1 and not taken[row]:  # somebody stays to be found
            known.append(row)
            taken[row] = True
    return TakenOut(
        np.flatnonzero(taken).astype(np.int32),
        np.array(unknown, np.int32),
        np.array(known, np.int32),
    )


def _logistic(x: Matrix, y: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Bias and slope by Newton's method; both classes weigh the same, a ridge holds the slope."""
    mean, scale = float(x.mean()), max(float(x.std()), 1e-9)
    z = np.stack([np.ones(len(x)), (x - mean) / scale], axis=1)
    share = np.where(y, 0.5 / y.mean(), 0.5 / (1 - y.mean())) / len(y)
    ridge, w = np.diag([0.0, _RIDGE]), np.zeros(2)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
        slope = z.T @ (share * (y - p)) - ridge @ w
        curve = (z * (share * np.maximum(p * (1 - p), 1e-6))[:, None]).T @ z + ridge
        step = np.linalg.solve(curve, slope)
        w += step
        if np.abs(step).max() < 1e-9:
            break
    steep = max(float(w[1]), 0.0) / scale
    return float(w[0]) - steep * mean, steep
