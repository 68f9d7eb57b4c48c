"""What a collection looks like to a re-ranker: lists of neighbours, and what all rows share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.types import Floats, Ints, Values

# neighbours whose lists are compared with a row's own
FEW = 3
NEAR = 10
FAR = 40
RANKS = (FEW, NEAR, FAR)
WHOLE = 2000  # rows up to which every list is found; hubs are counted among as many
FIRM = 0.45  # of ``together`` at NEAR; without groups it is below 0.4 in any dimension above 3
COMPARED = 1000  # rows that are compared with a random one
SMALL = 0.25  # loss of ``mutual`` from FEW to NEAR that only small groups have


@dataclass(frozen=True, kw_only=True)
class Look:
    """What lists of neighbours say, without labels.

    rows, columns : of the collection
    common : mean similarity of random rows over that of a row and its 10th neighbour
    contrast : how far the latter lies above the former, in standard deviations of random pairs
    hubness : skewness of how often a row is among the 10 nearest of others
    together : share of its k nearest that a row has in common with its k-th neighbour, by k
    mutual : share of rows that are among the k nearest of their k-th neighbour, by k
    """

    rows: int
    columns: int
    common: float
    contrast: float
    hubness: float
    together: dict[int, float]
    mutual: dict[int, float]

    @property
    def small_groups(self) -> bool:
        """Whether rows lie in groups of a few: the first neighbours are mutual, later ones not."""
        return NEAR in self.mutual and self.mutual[FEW] - self.mutual[NEAR] > SMALL

    @property
    def firm_groups(self) -> bool:
        """Whether lists have more in common than those of rows without groups ever have."""
        return self.together.get(NEAR, 0.0) > FIRM


def look(vectors: Floats, n_asked: int, random: np.random.Generator, run: Runner) -> Look:
    """vectors : (n, d), n > FEW; n_asked : rows whose neighbours are looked at, at most all."""
    n, width = vectors.shape
    asked = np.sort(random.choice(n, min(n_asked, n), replace=False))
    sample = vectors if n <= WHOLE else vectors[np.sort(random.choice(n, WHOLE, replace=False))]
    inner = exact_neighbors(sample, min(n, (FAR if n <= WHOLE else NEAR) + 1), run).indices

    def lists_of(rows: Ints, length: int) -> Ints:
        if n <= WHOLE:
            return inner[rows, :length]
        return exact_search(vectors[rows], vectors, length, run).indices

    together, mutual = compare_lists(asked, lists_of(asked, FAR + 1), lists_of)
    common, contrast = _contrast(sample, inner[:, : NEAR + 1], random)
    return Look(
        rows=n,
        columns=width,
        common=common,
        contrast=contrast,
        hubness=hubness(inner[:, 1 : NEAR + 1], len(sample)),
        together=together,
        mutual=mutual,
    )


def contrast(sample: Floats, random: np.random.Generator, run: Runner) -> float:
    """``Look.contrast`` of rows, all among themselves."""
    lists = exact_neighbors(sample, min(len(sample), NEAR + 1), run).indices
    return _contrast(sample, lists, random)[1]


def _contrast(sample: Floats, lists: Ints, random: np.random.Generator) -> tuple[float, float]:
    """Common and contrast of rows with their lists, each the nearest itself first."""
    some = random.permutation(len(sample))[:COMPARED].astype(np.int32)
    units = unit_rows(sample)
    chance = _products(units, some, np.roll(some, 1))
    near = _products(units, some, lists[some, -1]).mean()
    spread = chance.std()
    far = (near - chance.mean()) / spread if spread > 0 else 0.0
    return float(chance.mean() / near) if near > 0 else 0.0, float(far)


def _products(rows: Floats, one: Ints, other: Ints) -> Values:
    """Inner products of pairs; not by BLAS, whose sums may depend on threads."""
    products: Values = np.einsum("ik,ik->i", rows[one], rows[other], dtype=np.float64)
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


def compare_lists(
    asked: Ints, own: Ints, lists_of: Callable[[Ints, int], Ints]
) -> tuple[dict[int, float], dict[int, float]]:
    """``together`` and ``mutual`` of the rows ``asked``, whose lists are ``own``.

    lists_of : the first so many in the lists of some rows
    """
    together = {}
    mutual = {}
    for k in (rank for rank in RANKS if rank < own.shape[1]):
        mine = own[:, : k + 1]
        theirs = lists_of(own[:, k], k + 1)
        width = int(max(mine.max(), theirs.max(), asked.max())) + 1
        offset = np.arange(len(own), dtype=np.int64)[:, None] * width  # rows cannot be confused
        together[k] = float(np.isin(mine + offset, theirs + offset).mean())
        mutual[k] = float(np.isin(asked[:, None] + offset, theirs + offset).mean())
    return together, mutual
