"""What vectors say of a map before anybody labels one: where to look for pairs, and whether.

Half-whitening makes neighbours stand out in some collections, and drowns them in others: pairs are
looked for where the tenth neighbour stands out more from rows taken at random.

A collection without kinds, of one item of each, or of vectors that know nothing, has neighbours
too, and CAS makes pairs of them. So it does for rows of a normal distribution with the same
covariance, which has no kinds: where partners are hardly more certain than there, nothing is
learnt. (Whether pairs that were held back come nearer under a map does not tell: they were found by
being near, so they are farther under most maps, also under those that gain.)
"""

from __future__ import annotations

import numpy as np

from kinrank.parallel import Runner
from kinrank.projection.arrays import Wide, unit
from kinrank.projection.learning import Coordinates
from kinrank.projection.pairs import SHARPNESS, Pairs, found_pairs

CLEARER = 1.15  # how much farther the tenth neighbour stands out where half-whitened rows are taken
SEEN = 1000  # rows that this is seen from
CERTAIN = 1.6  # times the doubt about partners in rows without kinds
COMPARED = 1500  # rows without kinds
_TENTH = 10


def contrast(rows: Wide) -> float:
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


def certainty(space: Coordinates, pairs: Pairs, run: Runner) -> float:
    """Doubt about partners in a normal distribution of the same covariance, over that about these.

    pairs : of the rows of ``space``, or of these half-whitened
    """
    random = np.random.default_rng(0)
    count = min(len(space.rows), COMPARED)
    drawn = random.normal(size=(count, len(space.variances))) * np.sqrt(space.variances)
    kindless = found_pairs(np.asarray(unit(drawn), np.float32), run)
    return doubt(kindless, count) / max(doubt(pairs, len(space.rows)), 1e-9)


def doubt(pairs: Pairs, n: int) -> float:
    """The mean d' of the best partner of each row; 1 for a row without any."""
    best = np.zeros(n)
    np.maximum.at(best, pairs.first, pairs.weight)
    np.maximum.at(best, pairs.second, pairs.weight)
    return float(np.mean(1 - best ** (1 / SHARPNESS)))
