"""Links between rows: how sure two rankings of the collection are that two rows are the same.

Both are rankings of the collection among itself by CAS: of the vectors as they are, and after the
projection that the collection teaches itself (``kinrank.Projection``).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from kinrank.errors import KinrankWarning
from kinrank.kernels.links import listed_links, mean_similarity_rows, nearer_rows
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Out, Runner
from kinrank.projection.kinds import projection_for
from kinrank.projection.projection import Projection
from kinrank.runs.execution import Execution
from kinrank.stages.sparse import transposed
from kinrank.types import Floats, Ranking, SparseRows

LISTED = 100  # results of each ranking that become links,
LONG = 200  # and of collections with large groups, whose parts would otherwise not see each other
INSIDE = 1e-3  # of the rows, whose lists end inside a group, from which on lists are long
DIRECTIONS = 128  # of each view, in which centres are compared
# The share of the original distance: without any, all rows that share nothing are equally far, and
# to order these takes many times as long as all the rest.
TRACE = 1e-3
PROJECTED = CASMethod(k1=20, k2=4, enhance_k=8, omega=TRACE)  # ranks after the projection
TWOS = {"k1": 2, "k2": 1, "enhance_k": 2}  # sizes where each row has one partner
LEAST_ROWS = 8  # with fewer there is nothing to learn a projection from


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


def find_links(
    vectors: Floats,
    method: CASMethod,
    execution: Execution,
    level: float,
    projected: CASMethod = PROJECTED,
) -> Links:
    """Rank the collection among itself, by ``method`` and, projected, by ``projected``.

    level : the similarity at which groups end; with 0 lists are long
    """
    n = len(vectors)
    run = execution.runner
    centring = Projection.fit(vectors, kind=0, threads=run.threads)
    if n < LEAST_ROWS:
        centred = centring.transform(vectors)
        return Links(all_pairs(centred), unit_rows(centred[:, :DIRECTIONS]), (centring,))
    plain = method.replace(omega=TRACE, geodesic=False, fusion="squared")
    learnt = projection_for("pairs", [("vectors", vectors)], run.threads, execution.arrays)
    assert learnt is not None
    projected = projected.replace(whiten=learnt)
    k = min(LISTED, n - 1)
    ranking = ranked(projected, vectors, k, execution)
    if k < n - 1 and end_inside(ranking, level):
        k = min(LONG, n - 1)
        ranking = ranked(projected, vectors, k, execution)
    after = linked(ranking, run)
    before = linked(ranked(plain, vectors, k, execution), run)
    views = (centring, learnt)
    width = sum(min(DIRECTIONS, view.dims) for view in views)
    out = Out(np.float32, width)
    directions = run.fill("directions", _directions, (vectors, views), n, out)
    return Links(mean_similarities(before, after, run), directions, views)


def _directions(
    low: int, high: int, vectors: Floats, views: tuple[Projection, ...], out: Floats
) -> None:
    """``side_by_side`` of the rows [low, high)."""
    out[low:high] = side_by_side(vectors[low:high], views)


def side_by_side(vectors: Floats, views: tuple[Projection, ...]) -> Floats:
    """The first directions of each view, unit rows."""
    parts = [unit_rows(view.transform(vectors)[:, :DIRECTIONS]) for view in views]
    return unit_rows(np.hstack(parts))


def ranked(method: CASMethod, rows: Floats, k: int, execution: Execution) -> Ranking:
    """Of each row itself and the first ``k`` others that share something with it."""
    with warnings.catch_warnings():
        # Sizes are reduced where rows are few: nobody asked for them.
        warnings.simplefilter("ignore", KinrankWarning)
        return method.rank_sharing(rows, k, execution)


def end_inside(ranking: Ranking, level: float) -> bool:
    """Whether lists end inside groups: what follows may be as similar as members are."""
    last = ranking.distances[:, -1]
    return float((1 - last >= level).mean()) >= INSIDE


def linked(ranking: Ranking, run: Runner) -> SparseRows:
    """The distances of rows of which one is among the results of the other.

    Both ways, the lesser one; pairs that share nothing, whose similarity is no more than a trace,
    are left out.
    """
    n = len(ranking.indices)
    args = (ranking.indices, ranking.distances, TRACE)
    listed = run.rows("links", listed_links, args, n, n)
    back = transposed(listed, run)
    return run.rows("links", nearer_rows, (*listed.csr, *back.csr), n, n)


def similarities(distances: SparseRows) -> SparseRows:
    """1 less the distance of each pair."""
    values = 1 - distances.values.astype(np.float64)
    return distances.with_data(values.astype(np.float32))


def mean_similarities(one: SparseRows, other: SparseRows, run: Runner) -> SparseRows:
    """The mean of 1 less the distance; 0 for a pair that one of them lacks."""
    n = len(one)
    return run.rows("links", mean_similarity_rows, (*one.csr, *other.csr), n, n)


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
