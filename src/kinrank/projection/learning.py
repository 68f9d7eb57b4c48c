"""The map that pairs teach: a two-covariance model of what varies within a kind and between kinds.

With c the unit rows around the mean, C their covariance, and pairs (i, j) of weight w,

    W = sum w (c_i - c_j)(c_i - c_j)' / (2 sum w)      how items of one kind differ
    A = W^(-1/2),  A C A' = V diag(t) V'               t: how much farther kinds are apart
    s = max(t - 1, 0),  z = diag(sqrt(s / (1 + 2 s))) V' A c

W is shrunk towards a multiple of the identity as Ledoit and Wolf say (A well-conditioned estimator
for large-dimensional covariance matrices, 2004). The weights are those of probabilistic linear
discriminant analysis: a direction that varies no more between kinds than within them vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.projection.arrays import Wide, principal_directions
from kinrank.projection.pairs import Pairs, balanced

DIRECTIONS = 384  # leading principal directions that the map is learnt in
HALVING = 2.0  # of s in 1 + 2 s
_RANK = 1e-9  # of the largest variance; what is below is rounding
_PAIRS_AT_A_TIME = 1 << 14


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows around their mean in their leading principal directions.

    rows : (n, p), each the coordinates of a unit row; variances : (p,), largest first
    directions : (p, d)
    """

    rows: Wide
    variances: Wide
    directions: Wide

    @classmethod
    def of(cls, centred: Wide) -> Coordinates:
        """Of unit rows around the mean."""
        around = centred - centred.mean(axis=0)
        variances, directions = principal_directions(around.T @ around / len(around))
        count = int((variances[:DIRECTIONS] > _RANK * max(variances[0], 0)).sum())
        kept = directions[:count]
        return cls(centred @ kept.T, variances[:count], kept)


def learnt_matrix(space: Coordinates, pairs: Pairs) -> Wide:
    """The (k, d) matrix z = matrix c; without rows where nothing tells kinds apart."""
    pairs = balanced(pairs, len(space.rows))
    within = shrunk(*within_covariance(space.rows, pairs))
    values, vectors = np.linalg.eigh(within)
    flat = (vectors * values**-0.5) @ vectors.T
    ratios, turned = principal_directions((flat * space.variances) @ flat)
    between = np.maximum(ratios - 1, 0)
    weights = np.sqrt(between / (1 + HALVING * between))
    telling = weights > 0
    return np.asarray(weights[telling, None] * (turned[telling] @ flat @ space.directions))


def within_covariance(rows: Wide, pairs: Pairs) -> tuple[Wide, float]:
    """W, and the mean square of what chance adds to it."""
    share = pairs.weight / pairs.weight.sum()
    covariance = np.zeros((rows.shape[1], rows.shape[1]))
    spread = 0.0
    for low in range(0, len(pairs), _PAIRS_AT_A_TIME):
        part = slice(low, low + _PAIRS_AT_A_TIME)
        apart = (rows[pairs.first[part]] - rows[pairs.second[part]]) * np.sqrt(0.5)
        covariance += (apart * share[part, None]).T @ apart
        squares = np.einsum("ij,ij->i", apart, apart)
        spread += float((share[part] ** 2 * squares**2).sum())
    noise = spread - float((share**2).sum()) * float((covariance**2).sum())
    return covariance, noise


def shrunk(covariance: Wide, noise: float) -> Wide:
    """(1 - a) W + a mu I, mu the mean variance, a = noise / |W - mu I|^2 between 0.001 and 1."""
    size = len(covariance)
    mean = float(np.trace(covariance)) / size
    target = mean * np.eye(size)
    distance = float(((covariance - target) ** 2).sum())
    share = 1.0 if distance <= 0 else float(np.clip(noise / distance, 1e-3, 1))
    return np.asarray((1 - share) * covariance + share * target)
