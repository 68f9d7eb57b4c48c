"""k-reciprocal features: what the dialects of the method, its graph and its drop-ins share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.graph import clusters
from kinrank.graph.matrix import sorted_rows
from kinrank.kernels import half as kernels
from kinrank.parallel import Out, Runner
from kinrank.stages import smooth
from kinrank.stages.distance import Distances
from kinrank.stages.diverge import Columns, Divergence
from kinrank.types import Floats, Ints, Longs, Neighbors, SparseRows


@dataclass(frozen=True)
class Dialect:
    """How one of the copies in the wild differs from the others.

    squared_twice : the base distance is d^4 over its largest, not d^2
    cosine : vectors are normalised first
    plain : weights exp(-d^2) without a largest, lists of k1 with the row itself, no original
        distance in the result
    half : features and Jaccard sums in float16
    """

    squared_twice: bool = False
    cosine: bool = False
    plain: bool = False
    half: bool = False


DIALECTS = {
    "zhong": Dialect(),
    "torchreid": Dialect(squared_twice=True),
    "strong-baseline": Dialect(half=True),
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
    v = _stored(smooth.unit_rows(near.with_data(weights), run), dialect)
    if k2 > 1:
        v = _stored(smooth.smooth_by_average(v, lists, k2, run), dialect)
    return v


def _weight_rows(
    low: int, high: int, indptr: Longs, base: Floats, farthest: Floats, plain: bool, out: Floats
) -> None:
    """exp(-d); plain : of squared distances that are not over the row's farthest."""
    part = slice(indptr[low], indptr[high])
    d = base[part]
    if plain:
        d = d * np.repeat(farthest[low:high], np.diff(indptr[low : high + 1]))
    out[part] = np.exp(-d)


def _stored(v: SparseRows, dialect: Dialect) -> SparseRows:
    if not dialect.half:
        return v
    return v.with_data(v.values.astype(np.float16).astype(np.float32))


def jaccard(v: SparseRows, omega: float, dialect: Dialect, run: Runner) -> Divergence:
    """The Jaccard distance between rows of V."""
    if not dialect.half:
        return Divergence.of(v, "jaccard", run)
    # Columns ascending: float16 sums depend on their order.
    plain = Divergence.of(sorted_rows(v, run), "jaccard", run)
    return HalfJaccard(plain.rows, plain.measure, plain.norms, omega)


@dataclass(frozen=True, eq=False)
class HalfJaccard(Divergence):
    """Jaccard with float16 sums, as copies that keep V in float16 compute it."""

    omega: float = 0.0

    def near(
        self,
        n_queries: int,
        lists: Ints,
        run: Runner,
        part: slice | None = None,
        columns: Columns | None = None,
    ) -> SparseRows:
        """As Divergence.near."""
        known = super().near(n_queries, lists, run, part, columns)
        rows, low = self.rows, part.start if part else 0
        indptr = np.zeros(low + len(known) + 1, np.int64)  # numbered like the rows
        indptr[low:] = known.indptr
        args = (low, rows.indptr, rows.indices, rows.values, indptr, known.indices)
        own = Out(np.float32, indptr=known.indptr)
        return known.with_data(
            self._weighted(run.fill("divergence", _half_jaccard, args, len(known), own))
        )

    def parts(self, columns: Columns) -> tuple[Any, ...] | None:  # noqa: ARG002
        """As Divergence.parts: none, the sums are not those of Divergence."""
        return None

    def background(self, row: int, first: int) -> Floats | float:  # noqa: ARG002
        """As Divergence.background."""
        return float(self._weighted(np.ones(1, np.float32))[0])

    def _weighted(self, distance: Floats) -> Floats:
        """What times 1 - omega gives the float16 product of the original."""
        share = 1 - self.omega
        if share == 0:
            return distance
        product = distance.astype(np.float16) * np.float16(share)
        return (product.astype(np.float32) / np.float32(share)).astype(np.float32)


def _half_jaccard(low: int, high: int, start: int, *args: Any) -> None:
    kernels.half_jaccard(start + low, start + high, *args)


@dataclass(frozen=True, eq=False)
class SquaredDistances:
    """Other distances, each squared once more (and so d^4 over its largest)."""

    base: Distances

    @property
    def neighbors(self) -> Neighbors:
        """See Distances."""
        return _squared(self.base.neighbors)

    @property
    def query_lists(self) -> Neighbors:
        """See Distances."""
        return _squared(self.base.query_lists)

    def at(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:
        """See Distances."""
        return self.base.at(rows, indptr, ids, run) ** 2

    def dense(self, rows: Ints, first: int, run: Runner) -> Floats:
        """See Distances."""
        return self.base.dense(rows, first, run) ** 2


def _squared(lists: Neighbors) -> Neighbors:
    return Neighbors(lists.indices, lists.distances**2, lists.farthest**2)
