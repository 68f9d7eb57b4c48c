"""k-reciprocal encoding.

Zhun Zhong, Liang Zheng, Donglin Cao, Shaozi Li: Re-ranking Person Re-identification with
k-reciprocal Encoding, CVPR 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kinrank.filters import Filter
from kinrank.methods.answer import rank_by_divergence
from kinrank.methods.common import JointMethod, JointRows
from kinrank.options import option
from kinrank.parallel import Out, Runner
from kinrank.stages import clusters
from kinrank.stages.distances import Distances
from kinrank.stages.divergence import Divergence
from kinrank.stages.ranking import Ranker
from kinrank.stages.smoothing import smooth_by_average
from kinrank.stages.sparse import unit_rows
from kinrank.types import Floats, Ints, Longs, Neighbors, Ranking, SparseRows


@dataclass(frozen=True)
class Dialect:
    """How a published copy of the method differs from the original.

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


@dataclass(frozen=True, kw_only=True)
class KReciprocal(JointMethod):
    """k-reciprocal encoding: Jaccard distance of reciprocal neighbours, mixed with the original.

    R*(i) = R(i, k1) joined with each R(c, k1 / 2) that lies mostly inside it
    V_i = exp(-d(i, .)) on R*(i), L1 norm 1, then averaged over the k2 nearest of i
    d* = (1 - lambda) Jaccard(V_q, V_g) + lambda d

    Distances lie in [0, 1]. Time O(n^2 d) for the exact search and O(n k1 k2) for the rest, memory
    O(n k1 k2).

    Parameters
    ----------
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    k1, k2 : size of the reciprocal neighbourhood; rows averaged, the row itself counted
    lambda_value : share of the original distance in the result
    dialect : whose copy to reproduce; the same method gives other numbers in each
        "zhong" (the original: d^2 over its largest; also, up to float16 features, strong-baseline,
        TransReID and SOLIDER), "torchreid" (d^4; also PyRetri, OpenUnReID on a CPU and the CAS
        authors), "layumi" (d^4 of unit vectors) or "spcl" (weights exp(-d^2), lists of k1 with
        the row itself, lambda_value left out; also Cluster Contrast and OpenUnReID on a GPU)

    Examples
    --------
    >>> import kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> method = kinrank.KReciprocal()
    >>> method.rerank(data.query.features, data.gallery.features, k=3).indices[0].tolist()
    [284, 7, 58]
    """

    k1: int = option(20, "size of the reciprocal neighbourhood", spare=1)
    k2: int = option(6, "rows averaged, the row itself counted", spare=0)
    lambda_value: float = option(0.3, "share of the original distance in the result", within=(0, 1))
    dialect: Literal["zhong", "torchreid", "layumi", "spcl"] = option(
        "zhong", "whose copy of the method to reproduce"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if DIALECTS[self.dialect].cosine:
            object.__setattr__(self, "metric", "cosine")

    def _limits(self, n: int) -> dict[str, int]:
        return {"k1": n if DIALECTS[self.dialect].plain else n - 1, "k2": n}

    def rank_rows(self, rows: JointRows, k: int, run: Runner) -> Ranking:
        length = list_length(self.k1, self.k2, DIALECTS[self.dialect])
        distances = rows.distances(length, k)
        return self.rank(distances, rows.n_queries, k, run, rows.row_filter)

    def rank(
        self,
        distances: Distances,
        n_queries: int,
        k: int,
        run: Runner,
        row_filter: Filter | None = None,
    ) -> Ranking:
        """Rank rows from ``n_queries`` on for each row before, by any kind of distance."""
        dialect = DIALECTS[self.dialect]
        if dialect.squared_twice:
            distances = SquaredDistances(distances)
        v = encode(distances, self.k1, self.k2, dialect, run)
        omega = 0.0 if dialect.plain else self.lambda_value
        divergence = Divergence.of(v, "jaccard", run)
        if omega == 0:
            return rank_by_divergence(divergence, distances, n_queries, k, run, row_filter)
        ranker = Ranker(
            distances=distances,
            divergence=divergence,
            n_queries=n_queries,
            omega=omega,
            fusion="squared",
            diffusion=None,
            graph=None,
            allowed=row_filter,
        )
        return ranker.rank(k, run)


def list_length(k1: int, k2: int, dialect: Dialect) -> int:
    """The rows of a neighbour list that the features need, the row itself counted."""
    return max(k1 if dialect.plain else k1 + 1, k2)


def encode(distances: Distances, k1: int, k2: int, dialect: Dialect, run: Runner) -> SparseRows:
    """V: weights on the expanded k1-reciprocal neighbours, averaged over the k2 nearest."""
    lists = distances.neighbors.indices
    half = round(k1 / 2) + 1  # to even, as numpy does in the original
    full = k1 if dialect.plain else k1 + 1
    reciprocal = clusters.expanded(lists, full, min(half, lists.shape[1]), run)
    rows = np.arange(len(lists), dtype=np.int32)
    base = distances.on_pattern(rows, reciprocal.indptr, reciprocal.indices, run)
    args = (reciprocal.indptr, base, distances.neighbors.farthest, dialect.plain)
    out = Out(np.float32, indptr=reciprocal.indptr)
    weights = run.fill("context", _weight_rows, args, len(reciprocal), out)
    v = unit_rows(reciprocal.with_data(weights), run)
    return smooth_by_average(v, lists, k2, run) if k2 > 1 else v


def _weight_rows(
    low: int, high: int, indptr: Longs, base: Floats, farthest: Floats, plain: bool, out: Floats
) -> None:
    """exp(-d); plain : of squared distances that are not over the row's farthest."""
    entries = slice(indptr[low], indptr[high])
    d = base[entries]
    if plain:
        d = d * np.repeat(farthest[low:high], np.diff(indptr[low : high + 1]))
    out[entries] = np.exp(-d)


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

    def on_pattern(self, rows: Ints, indptr: Longs, ids: Ints, run: Runner) -> Floats:
        return self.base.on_pattern(rows, indptr, ids, run) ** 2

    def to_all(self, rows: Ints, first: int, run: Runner) -> Floats:
        return self.base.to_all(rows, first, run) ** 2


def _squared(lists: Neighbors) -> Neighbors:
    return Neighbors(lists.indices, lists.distances**2, lists.farthest**2)
