"""k-reciprocal features: what the dialects of the method, its graph and its drop-ins share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.graph import clusters
from kinrank.parallel import Out, Runner
from kinrank.stages import smooth
from kinrank.stages.distance import Distances
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


@dataclass(frozen=True)
class Dialect:
    """How one of the copies in the wild differs from the others.

    squared_twice : the base distance is d^4 over its largest, not d^2
    cosine : vectors are normalised first
    plain : weights exp(-d^2) without a largest, lists of k1 with the row itself, no original
        distance in the result
    """

    squared_twice: bool = False
    cosine: bool = False
    plain: bool = False


DIALECTS = {
    "zhong": Dialect(),
    "torchreid": Dialect(squared_twice=True),
    "layumi": Dialect(squared_twice=True, cosine=True),
    "spcl": Dialect(plain=True),
}


def list_length(k1: int, k2: int, dialect: Dialect) -> int:
    """The rows of a neighbour list that the features need, the row itself counted."""
    return max(k1 if dialect.plain else k1 + 1, k2)


def encode(distances: Distances, k1: int, k2: int, dialect: Dialect, run: Runner) -> SparseRows:
    """V: weights on the expanded k1-reciprocal neighbours, averaged over the k2 nearest."""
    lists = distances.neighbors.indices
    half = round(k1 / 2) + 1  # to even, as numpy does in the original
    full = k1 if dialect.plain else k1 + 1
    near = clusters.expanded(lists, full, min(half, lists.shape[1]), run)
    rows = np.arange(len(lists), dtype=np.int32)
    base = distances.at(rows, near.indptr, near.indices, run)
    own = Out(np.float32, indptr=near.indptr)
    args = (near.indptr, base, distances.neighbors.farthest, dialect.plain)
    weights = run.fill("context", _weight_rows, args, len(near), own)
    v = smooth.unit_rows(near.with_data(weights), run)
    return smooth.smooth_by_average(v, lists, k2, run) if k2 > 1 else v


def _weight_rows(
    low: int, high: int, indptr: Longs, base: Floats, farthest: Floats, plain: bool, out: Floats
) -> None:
    """exp(-d); plain : of squared distances that are not over the row's farthest."""
    part = slice(indptr[low], indptr[high])
    d = base[part]
    if plain:
        d = d * np.repeat(farthest[low:high], np.diff(indptr[low : high + 1]))
    out[part] = np.exp(-d)


@dataclass(frozen=True, eq=False)
class SquaredDistances:
    """Other distances, each squared once more (and so d^4 over its largest)."""

    base: Distances

    @property
    def neighbors(self) -> Neighbors:
        return _squared(self.base.neighbors)

    @property
    def query_lists(self) -> Neighbors:
        return _squared(self.base.query_lists)

    def at(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:
        return self.base.at(rows, indptr, ids, run) ** 2

    def dense(self, rows: Ints, first: int, run: Runner) -> Floats:
        return self.base.dense(rows, first, run) ** 2


def _squared(lists: Neighbors) -> Neighbors:
    return Neighbors(lists.indices, lists.distances**2, lists.farthest**2)
