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

from kinrank.kernels.sparse_dense import sparse_dense_rows
from kinrank.parallel import Out, Runner
from kinrank.projection.arrays import Wide, leading_directions, principal_directions, unit
from kinrank.projection.pairs import Pairs, balanced
from kinrank.projection.powers import FLOOR
from kinrank.types import Floats, SparseRows

DIRECTIONS = 384  # leading principal directions that the map is learnt in
HALVING = 2.0  # of s in 1 + 2 s
COVARIANCE_ROWS = 4096  # that the principal directions are seen from
_RANK = 1e-6  # of the largest variance; what is below is rounding
_PAIRS_SEEN = 1 << 12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows around their mean in their leading principal directions.

    rows : (n, p) float32, each the coordinates of a unit row; variances : (p,), largest first
    directions : (p, d)
    """

    rows: Floats
    variances: Wide
    directions: Wide

    @classmethod
    def of(cls, centred: Floats) -> Coordinates:
        """Of unit rows around the mean, float32."""
        some = centred[:: max(1, len(centred) // COVARIANCE_ROWS)]
        variances, directions = leading_directions(some, DIRECTIONS)
        count = int((variances > _RANK * max(variances[0], 0)).sum())
        kept = directions[:count]
        return cls(centred @ kept.T.astype(np.float32), variances[:count], kept)

    @property
    def unit_rows(self) -> Floats:
        """The rows with unit norm again, of which directions were left out."""
        return np.asarray(unit(self.rows))

    @property
    def half_whitened(self) -> Floats:
        """The rows with each direction over the fourth root of its variance, of unit norm."""
        floor = FLOOR * self.variances[0]
        scales = (self.variances + floor) ** -0.25
        return np.asarray(unit(self.rows * scales.astype(np.float32)))


def learnt_matrix(space: Coordinates, pairs: Pairs, run: Runner) -> Wide:
    """The (k, d) matrix z = matrix c; without rows where nothing tells kinds apart."""
    pairs = balanced(pairs, len(space.rows))
    within = shrunk(*within_covariance(space.rows, pairs, run))
    values, vectors = np.linalg.eigh(within)
    flat = (vectors * values**-0.5) @ vectors.T
    ratios, turned = principal_directions((flat * space.variances) @ flat)
    between = np.maximum(ratios - 1, 0)
    weights = np.sqrt(between / (1 + HALVING * between))
    telling = weights > 0
    return np.asarray(weights[telling, None] * (turned[telling] @ flat @ space.directions))


def within_covariance(rows: Floats, pairs: Pairs, run: Runner) -> tuple[Wide, float]:
    """W, and the mean square of what chance adds to it.

    sum w (y_i - y_j)(y_i - y_j)' over pairs is Q + Q', Q = Y' (D / 2 - M) Y, M the matrix that has
    the weight of each pair once and D the diagonal of the sums of its rows and columns.
    """
    n = len(rows)
    share = pairs.weight / pairs.weight.sum()
    weights = SparseRows.of_entries(pairs.first, pairs.second, share.astype(np.float32), n)
    out = Out(np.float32, rows.shape[1])
    sums = run.fill("projection", sparse_dense_rows, (*weights.csr, rows), n, out)
    degrees = np.bincount(pairs.first, share, n) + np.bincount(pairs.second, share, n)
    apart = rows * (degrees / 2).astype(np.float32)[:, None] - sums
    one_sided = (rows.T @ apart).astype(np.float64)
    covariance = (one_sided + one_sided.T) / 2
    # The mean of |e|^4 from some of the pairs: it only says how much W is shrunk.
    some = slice(None, None, max(1, len(pairs) // _PAIRS_SEEN))
    differences = rows[pairs.first[some]] - rows[pairs.second[some]]
    squares = np.einsum("ij,ij->i", differences, differences, dtype=np.float64) / 2
    seen = share[some] ** 2
    fourth = float((seen * squares**2).sum()) * float((share**2).sum()) / float(seen.sum())
    return covariance, fourth - float((share**2).sum()) * float((covariance**2).sum())


def shrunk(covariance: Wide, noise: float) -> Wide:
    """(1 - a) W + a mu I, mu the mean variance, a = noise / |W - mu I|^2 between 0.001 and 1."""
    size = len(covariance)
    mean = float(np.trace(covariance)) / size
    target = mean * np.eye(size)
    distance = float(((covariance - target) ** 2).sum())
    share = 1.0 if distance <= 0 else float(np.clip(noise / distance, 1e-3, 1))
    return np.asarray((1 - share) * covariance + share * target)
