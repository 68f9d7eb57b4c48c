"""What a collection looks like to a re-ranker: its lists of neighbours, and what all rows share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.types import Floats, Ints, Values

# Ranks of the neighbours whose lists are compared with a row's own.
FIRST = 1
FEW = 3
NEAR = 10
FAR = 40
RANKS = (FIRST, FEW, NEAR, FAR)
WIDE = 100  # neighbours from which the dimension of larger surroundings is told
WIDE_SHARE = 10  # of rows in so many, where these are fewer
WHOLE = 2000  # rows up to which every list is found; hubs are counted among as many
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


def look(vectors: Floats, n_asked: int, random: np.random.Generator, run: Runner) -> Look:
    """vectors : (n, d), n > FEW; n_asked : rows whose neighbours are looked at, at most all."""
    n, width = vectors.shape
    asked = np.sort(random.choice(n, min(n_asked, n), replace=False))
    if n <= WHOLE:
        sample = vectors
        length = max(FAR, wide_rank(n)) + 1
    else:
        sample = vectors[np.sort(random.choice(n, WHOLE, replace=False))]
        length = NEAR + 1
    sample_lists = exact_neighbors(sample, min(n, length), run)

    if n <= WHOLE:
        asked_indices = sample_lists.indices[asked]
        asked_distances = sample_lists.distances[asked]
    else:
        lists = exact_search(vectors[asked], vectors, WIDE + 1, run)
        asked_indices = lists.indices
        asked_distances = lists.distances

    def lists_of(rows: Ints, length: int) -> Ints:
        if n <= WHOLE:
            return sample_lists.indices[rows, :length]
        return exact_search(vectors[rows], vectors, length, run).indices

    together, mutual = compare_lists(asked, asked_indices, lists_of)
    tenth = sample_lists.indices[:, min(NEAR, len(sample) - 1)]
    squared_distances = asked_distances[:, 1:].astype(np.float64)
    return Look(
        rows=n,
        columns=width,
        common=common_share(sample, tenth, random),
        hubness=hubness(sample_lists.indices[:, 1 : NEAR + 1], len(sample)),
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


def compare_lists(
    asked: Ints, asked_lists: Ints, lists_of: Callable[[Ints, int], Ints]
) -> tuple[dict[int, float], dict[int, float]]:
    """``together`` and ``mutual`` of the rows ``asked``.

    asked_lists : their neighbours, each row itself first
    lists_of : the first so many in the lists of some rows
    """
    together = {}
    mutual = {}
    for k in RANKS:
        if k >= asked_lists.shape[1]:
            break
        mine = asked_lists[:, : k + 1]
        theirs = lists_of(asked_lists[:, k], k + 1)
        together[k] = share_together(mine, theirs)
        mutual[k] = share_together(asked[:, None], theirs)
    return together, mutual


def share_together(mine: Ints, theirs: Ints) -> float:
    """The share of the entries of each row of ``mine`` that the same row of ``theirs`` has."""
    largest = int(max(mine.max(), theirs.max()))
    # Numbers of their own for each row, so that lists of two rows cannot be confused.
    offset = np.arange(len(mine), dtype=np.int64)[:, None] * (largest + 1)
    return float(np.isin(mine + offset, theirs + offset).mean())
