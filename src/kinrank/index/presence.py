"""Whether the item that a query shows is in the gallery at all.

Three distances tell: from the query to its first answer, plain (d) and re-ranked (d*), and from
that answer to the end of its own list of neighbours (r), which is small where many items look
alike. All are over the largest distance of the answer. evidence = r - 4 d - d*, weights that were
chosen on real collections; ``calibrate`` fits what turns it into a probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.index.change import changed
from kinrank.index.engine import Engine
from kinrank.index.ids import as_ids
from kinrank.index.search import search_of
from kinrank.items import Pictures
from kinrank.parallel import ALONE
from kinrank.types import Floats, Ints, Ranking

Matrix = npt.NDArray[np.float64]

_NEAREST = 10  # rows at the beginning of a list that may be of the same thing
_LEAST = 10  # known and unknown rows each, to learn from
_RIDGE = 1e-2
_STEPS = 50
_SHARE = 0.5  # of the rows that may be taken out to see what is unknown


@dataclass(frozen=True, eq=False)
class PresenceModel:
    """P = 1 / (1 + exp(-(bias + slope * evidence)))."""

    bias: float
    slope: float

    def of_queries(
        self, engine: Engine, queries: Floats, ranking: Ranking, pictures: Pictures | None
    ) -> Floats:
        """Of each query, or of each item by the mean evidence of its ``pictures``."""
        if pictures is None:
            return self.probability(evidence(engine, queries, ranking))
        owners = np.repeat(np.arange(len(pictures)), [len(of_item) for of_item in pictures])
        first = Ranking(ranking.indices[owners, :1], ranking.distances[owners, :1])
        of_pictures = evidence(engine, queries[np.concatenate(pictures)], first)
        means = [of_pictures[owners == item].mean() for item in range(len(pictures))]
        return self.probability(np.array(means))

    def probability(self, evidence: Matrix) -> Floats:
        """Of each query, (n,); 0 where there is no answer."""
        odds = np.clip(self.bias + self.slope * evidence, -80, 80)
        return np.where(np.isfinite(evidence), 1 / (1 + np.exp(-odds)), 0).astype(np.float32)


def evidence(engine: Engine, queries: Floats, ranking: Ranking) -> Matrix:
    """That the first answer of each query shows the same thing, (n_queries,); -inf for none."""
    state, out = engine.state, np.full(len(queries), -np.inf)
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


def fit_presence(engine: Engine, same: list[Ints], asked: Ints) -> PresenceModel | None:
    """A model from the gallery itself; None where it is too small.

    Some of the ``asked`` rows are taken out of the index alone, others with all rows of the same
    thing (``same``): what is then asked for is known, and unknown.
    """
    state = engine.state
    alone, whole, taken = _chosen(same, asked, state.n_gallery)
    if min(len(alone), len(whole)) < _LEAST:
        return None
    none = np.empty((0, state.scaling.dims), np.float32)
    left = changed(state, as_ids(state.ids[taken]), none, as_ids([]), ALONE)
    smaller = Engine(left, search_of(left))
    taken_out = np.concatenate([alone, whole])
    queries = np.ascontiguousarray(state.vectors[state.position[taken_out]])
    found = evidence(smaller, queries, smaller.search(queries, 1, ALONE))
    return PresenceModel(*_logistic(found, np.arange(len(taken_out)) < len(alone)))


def _chosen(same: list[Ints], asked: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """Rows that are taken out alone, rows that are taken out with all their like, and all these."""
    taken = np.zeros(n, np.bool_)
    alone: list[int] = []
    whole: list[int] = []
    for row, like in zip(asked.tolist(), same, strict=True):
        if taken[row] or len(like) < 2:
            continue
        if not taken[like].any() and len(whole) <= len(alone) and taken.sum() < _SHARE * n:
            whole.append(row)
            taken[like] = True
        elif len(like) - taken[like].sum() > 1:  # somebody stays to be found
            alone.append(row)
            taken[row] = True
    rows = np.flatnonzero(taken)
    return np.array(alone, np.int32), np.array(whole, np.int32), rows.astype(np.int32)


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
