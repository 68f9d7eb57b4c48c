"""What vectors say of a map before anybody labels one: where to look for pairs, and whether.

Half-whitening makes neighbours stand out in some collections, and drowns them in others: pairs are
looked for where the tenth neighbour stands out more from rows taken at random.

A collection without kinds, of one item of each, or of vectors that know nothing, has neighbours
too, and CAS makes pairs of them. So it does for rows of a normal distribution with the same
covariance, which has no kinds: where partners are hardly more certain than there, nothing is
learnt. (Whether pairs that were held back come nearer under a map does not tell: they were found by
being near, so they are farther under most maps, also under those that gain.)

Where each row has exactly one partner, pairs say little and plain search finds it anyhow: maps lose
as often as they gain. Spacings tell (Renyi, On the theory of order statistics, 1953): without kinds
r times the step from the r-th neighbour to the next has the same mean for all small r. With kinds
of two, the step from the first neighbour to the second is larger, and no other is.
"""

from __future__ import annotations

import numpy as np

from kinrank.parallel import Runner
from kinrank.projection.arrays import unit
from kinrank.projection.learning import Coordinates
from kinrank.projection.pairs import SHARPNESS, Pairs, found_pairs
from kinrank.projection.sample import learning_rows, unit_rows_at
from kinrank.types import Floats, Longs

CLEARER = 1.15  # how much farther the tenth neighbour stands out where half-whitened rows are taken
SEEN = 1000  # rows that this is seen from
CERTAIN = 1.6  # times the doubt about partners in rows without kinds
COMPARED = 1500  # rows without kinds
BEST_AMONG = 16  # neighbours of these, where the best partner of a row is looked for
COUPLED = 1.8  # times the second spacing that the first one is where rows come in twos
STEPS_SEEN = 500  # rows whose spacings are looked at
_TENTH = 10
_COPY = 1 - 1e-5  # similarity of a row and itself, or a copy


def contrast(rows: Floats) -> float:
    """How far the tenth neighbour is from chance, in standard deviations of it."""
    random = np.random.default_rng(0)
    some = rows[np.sort(random.permutation(len(rows))[:SEEN])]
    similarity = some @ some.T
    np.fill_diagonal(similarity, -np.inf)
    tenth = min(_TENTH, len(some) - 1)
    near = np.partition(similarity, -tenth, axis=1)[:, -tenth].mean()
    chance = np.einsum("ij,ij->i", some, np.roll(some, 1, axis=0))
    spread = float(chance.std())
    return float((near - chance.mean()) / spread) if spread > 0 else 0.0


def couples(rows: Floats, drawn: Longs) -> float:
    """The first spacing of neighbours over the second: far above 1 where rows come in twos.

    Copies of a row are no neighbours of it.

    rows : of unit norm; drawn : those whose neighbours are all among the rows
    """
    seen = drawn[:: max(1, len(drawn) // STEPS_SEEN)]
    similarity = rows[seen] @ rows.T
    similarity[similarity > _COPY] = -1
    nearest = -np.sort(np.partition(-similarity, 2, axis=1)[:, :3], axis=1)
    first, second = (nearest[:, :2] - nearest[:, 1:]).mean(axis=0, dtype=np.float64)
    return float(first / (2 * second)) if second > 0 else 0.0


def come_in_twos(vectors: Floats, run: Runner) -> bool:
    """Whether each row seems to have exactly one partner."""
    matrices = [("vectors", vectors)]
    sample = learning_rows(matrices, run)
    rows = unit_rows_at(matrices, sample.rows)
    centred = unit(rows - rows.mean(axis=0, dtype=np.float64))
    return couples(np.asarray(centred, np.float32), sample.drawn) >= COUPLED


def certainty(space: Coordinates, pairs: Pairs, run: Runner) -> float:
    """Doubt about partners in a normal distribution of the same covariance, over that about these.

    pairs : of the rows of ``space``, or of these half-whitened
    """
    random = np.random.default_rng(0)
    count = min(len(space.rows), COMPARED)
    drawn = random.normal(size=(count, len(space.variances))) * np.sqrt(space.variances)
    kindless = found_pairs(np.asarray(unit(drawn), np.float32), run, BEST_AMONG)
    return doubt(kindless, count) / max(doubt(pairs, len(space.rows)), 1e-9)


def doubt(pairs: Pairs, n: int) -> float:
    """The mean d' of the best partner of each row; 1 for a row without any."""
    best = np.zeros(n)
    np.maximum.at(best, pairs.first, pairs.weight)
    np.maximum.at(best, pairs.second, pairs.weight)
    return float(np.mean(1 - best ** (1 / SHARPNESS)))
