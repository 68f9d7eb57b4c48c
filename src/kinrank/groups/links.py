"""Links between rows: how sure two rankings of the collection are that two rows are the same.

Both are rankings of the collection among itself by CAS: of the vectors as they are, and after the
projection that the collection teaches itself (``kinrank.Projection``).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.errors import KinrankWarning
from kinrank.methods.cas import CASMethod
from kinrank.projection.projection import Projection
from kinrank.runs.run import Run
from kinrank.types import Floats, Longs, Ranking, SparseRows

LISTED = 100  # results of each ranking that become links
DIRECTIONS = 128  # of each view, in which centres are compared
# The share of the original distance: without any, all rows that share nothing are equally far, and
# to order these takes many times as long as all the rest.
TRACE = 1e-3
PROJECTED = CASMethod(k1=20, k2=4, enhance_k=8, omega=TRACE)  # ranks after the projection
LEAST_ROWS = 8  # with fewer there is nothing to learn a projection from

Wide = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Links:
    """What groups are made of.

    similarities : symmetric, without a diagonal, in [0, 1]; absent pairs are 0
    directions : (n, m) unit rows, whose products tell how alike any two rows are
    views : what the vectors were projected by, side by side
    """

    similarities: SparseRows
    directions: Floats
    views: tuple[Projection, ...]

    def __len__(self) -> int:
        return len(self.directions)


def find_links(vectors: Floats, method: CASMethod, threads: int | None, run: Run | None) -> Links:
    """Rank the collection among itself, before and after the projection."""
    n = len(vectors)
    centring = Projection.fit(vectors, kind=0, threads=threads)
    centred = centring.transform(vectors)
    if n < LEAST_ROWS:
        return Links(all_pairs(centred), unit_rows(centred[:, :DIRECTIONS]), (centring,))
    k = min(LISTED, n - 1)
    plain = method.replace(omega=TRACE, geodesic=False)
    rankings = [ranked(plain, vectors, k, threads, run)]
    learnt = Projection.fit(vectors, kind="pairs", threads=threads)
    rankings.append(ranked(PROJECTED, learnt.transform(vectors), k, threads, run))
    views = (centring, learnt)
    return Links(mean_similarities(rankings, n), side_by_side(vectors, views), views)


def side_by_side(vectors: Floats, views: tuple[Projection, ...]) -> Floats:
    """The first directions of each view, unit rows."""
    parts = [unit_rows(view.transform(vectors)[:, :DIRECTIONS]) for view in views]
    return unit_rows(np.hstack(parts))


def ranked(
    method: CASMethod, rows: Floats, k: int, threads: int | None, run: Run | None
) -> Ranking:
    """All rows among themselves, the first ``k`` of each."""
    with warnings.catch_warnings():
        # Sizes are reduced where rows are few: nobody asked for them.
        warnings.simplefilter("ignore", KinrankWarning)
        return method.rerank(rows, k=k, threads=threads, run=run)


def unit_rows(rows: Floats) -> Floats:
    """Each row over its norm; a row of zeros stays one."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(norms > 0, norms, 1), np.float32)


def all_pairs(rows: Floats) -> SparseRows:
    """The links of a handful of rows: their cosines."""
    cosines = np.maximum(rows @ rows.T, 0)
    np.fill_diagonal(cosines, 0)
    owners, others = np.nonzero(cosines)
    return SparseRows.of_entries(owners, others, cosines[owners, others], len(rows))


def mean_similarities(rankings: list[Ranking], n: int) -> SparseRows:
    """1 - distance, the larger of both ways, and the mean of the rankings; absent ones are 0."""
    parts = [_symmetric(ranking, n) for ranking in rankings]
    key = np.concatenate([places for places, _ in parts])
    values = np.concatenate([similarities for _, similarities in parts]) / len(rankings)
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    sums = np.add.reduceat(values[order], starts) if len(starts) else values
    key = key[starts]
    indptr = np.searchsorted(key, np.arange(n + 1) * np.int64(n)).astype(np.int64)
    return SparseRows(indptr, (key % n).astype(np.int32), sums.astype(np.float32), n)


def _symmetric(ranking: Ranking, n: int) -> tuple[Longs, Wide]:
    """Places row * n + column both ways, each once, and similarities."""
    k = ranking.indices.shape[1]
    rows = np.repeat(np.arange(n, dtype=np.int64), k)
    others = ranking.indices.ravel().astype(np.int64)
    values = 1 - ranking.distances.ravel().astype(np.float64)
    linked = (others >= 0) & (others != rows) & (values > TRACE)
    rows = rows[linked]
    others = others[linked]
    both = np.tile(values[linked], 2)
    key = np.concatenate([rows * n + others, others * n + rows])
    order = np.lexsort((-both, key))
    key = key[order]
    first = np.diff(key, prepend=-1) != 0
    return key[first], both[order][first]
