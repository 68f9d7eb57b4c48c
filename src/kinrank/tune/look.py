"""What a collection looks like to a re-ranker: its lists of neighbours, and what all rows share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.search.exact import exact_neighbors
from kinrank.tune.lists import LONGEST, Lists, compare_lists
from kinrank.types import Floats, Ints, Values

# Ranks of the neighbours whose lists are compared with a row's own.
FIRST = 1
FEW = 3
NEAR = 10
FAR = 40
RANKS = (FIRST, FEW, NEAR, FAR)
WIDE = LONGEST  # neighbours from which the dimension of larger surroundings is told
WIDE_SHARE = 10  # of rows in so many, where these are fewer
SAMPLE = 2000  # rows of a large collection among which hubs are counted
COMPARED = 1000  # rows that are compared with a random one


@dataclass(frozen=True, kw_only=True)
class Look:
    """What lists of neighbours say, without labels.

    rows, columns : of the collection
    common : mean similarity of random rows over that of a row and its 10th neighbour
    hubness : skewness of how often a row is among the 10 nearest of others
    together : share of its k nearest that a row has in common with its k-th neighbour, by k
    mutual : share of rows that are among the k nearest of their k-th neighbour, by k
    near_dimension, wide_dimension : how many dimensions rows fill, as their 10 nearest and their
        100 nearest tell
    """

    rows: int
    columns: int
    common: float
    hubness: float
    together: dict[int, float]
    mutual: dict[int, float]
    near_dimension: float
    wide_dimension: float


def look(lists: Lists, n_asked: int, random: np.random.Generator) -> Look:
    """What the lists of a collection of more than FEW rows say.

    n_asked : rows whose neighbours are looked at, at most all
    """
    vectors = lists.vectors
    n, width = vectors.shape
    asked = np.sort(random.choice(n, min(n_asked, n), replace=False))
    if lists.few:
        sample = vectors
        nearest = lists.every.indices[:, : NEAR + 1]
    else:
        sample = vectors[np.sort(random.choice(n, SAMPLE, replace=False))]
        nearest = exact_neighbors(sample, NEAR + 1, lists.run).indices
    tenth = nearest[:, min(NEAR, len(sample) - 1)]
    squared_distances = lists.of(asked, WIDE + 1).distances[:, 1:].astype(np.float64)
    together, mutual = compare_lists(asked, RANKS, lists)
    return Look(
        rows=n,
        columns=width,
        common=common_share(sample, tenth, random),
        hubness=hubness(nearest[:, 1:], len(sample)),
        together=together,
        mutual=mutual,
        near_dimension=dimension(squared_distances[:, :NEAR]),
        wide_dimension=dimension(squared_distances[:, : wide_rank(n)]),
    )


def wide_rank(n: int) -> int:
    """How many neighbours are larger surroundings in a collection of ``n`` rows."""
    return max(NEAR, min(WIDE, n // WIDE_SHARE))


def dimension(squared_distances: Values) -> float:
    """How many dimensions rows fill, by how distances grow from neighbour to neighbour.

    As Levina and Bickel, "Maximum likelihood estimation of intrinsic dimension", NIPS 2004, with
    the mean over rows taken of the inverse. In m dimensions log(d_k / d_j) is
    (1/j + ... + 1/(k-1)) / m on average.

    squared_distances : (m, k) to the k nearest of each row, ascending. The first does not count,
        which may be a copy of the row.
    """
    k = squared_distances.shape[1]
    of_one_dimension = np.cumsum(1 / np.arange(k - 1, 1, -1)).mean()
    farthest = squared_distances[:, -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log(farthest / squared_distances[:, 1:-1]) / 2
    growth = growth[np.isfinite(growth)]
    mean = float(growth.mean()) if len(growth) else 0.0
    return float(of_one_dimension / mean) if mean > 0 else 0.0


def common_share(sample: Floats, neighbors: Ints, random: np.random.Generator) -> float:
    """Mean similarity of random rows over that of rows and their ``neighbors``, one for each."""
    compared = random.permutation(len(sample))[:COMPARED].astype(np.int32)
    units = unit_rows(sample)
    chance = _products(units, compared, np.roll(compared, 1)).mean()
    near = _products(units, compared, neighbors[compared]).mean()
    return float(chance / near) if near > 0 else 0.0


def _products(rows: Floats, first: Ints, second: Ints) -> Values:
    """Inner products of pairs; not by BLAS, whose sums may depend on threads."""
    products: Values = np.einsum("ik,ik->i", rows[first], rows[second], dtype=np.float64)
    return products


def unit_rows(rows: Floats) -> Floats:
    """Rows over their norms; zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)


def hubness(lists: Ints, n: int) -> float:
    """Skewness of the number of lists that each of ``n`` rows is in."""
    counts = np.bincount(lists.ravel(), minlength=n).astype(np.float64)
    spread = counts.std()
    return float(np.mean((counts - counts.mean()) ** 3) / spread**3) if spread > 0 else 0.0
