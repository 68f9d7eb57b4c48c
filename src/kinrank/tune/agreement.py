"""Whether a map learnt from a collection makes neighbours agree with each other.

Two rows that belong together have neighbours in common. Where a learnt map has found the directions
that groups differ in, a row and its tenth neighbour share more of their lists under it. Where
vectors have no direction to spare, they share as much as before.
"""

from __future__ import annotations

import numpy as np

from kinrank.parallel import Runner
from kinrank.projection.arrays import unit
from kinrank.projection.learning import Coordinates, learnt_matrix
from kinrank.projection.pairs import found_pairs
from kinrank.search.blas import one_blas_thread
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.tune.look import NEAR, share_together
from kinrank.types import Floats, Longs

MOST = 2000  # rows up to which all are learnt from
DRAWN = 200  # of more, and with each of them its
AROUND = 2 * NEAR  # nearest


def agreement_gain(vectors: Floats, random: np.random.Generator, run: Runner) -> float:
    """How much more of their lists rows share with their tenth neighbour under a learnt map.

    vectors : (n, d); 1.0 where nothing is gained, or nothing can be learnt
    """
    rows = vectors[learning_rows(vectors, random, run)].astype(np.float64)
    centred = np.asarray(unit(rows - rows.mean(axis=0)), np.float64)
    with one_blas_thread(wait=True):
        pairs = found_pairs(centred.astype(np.float32), run)
        if not len(pairs):
            return 1.0
        matrix = learnt_matrix(Coordinates.of(centred), pairs)
        if not len(matrix):
            return 1.0
        learnt = np.asarray(unit(centred @ matrix.T), np.float32)
    before = _together(rows.astype(np.float32), run)
    after = _together(learnt, run)
    return after / before if before > 0 else 1.0


def _together(rows: Floats, run: Runner) -> float:
    lists = exact_neighbors(rows, min(len(rows), NEAR + 1), run).indices
    return share_together(lists, lists[lists[:, -1]])


def learning_rows(vectors: Floats, random: np.random.Generator, run: Runner) -> Longs:
    """All rows of a small collection; of a larger one some, each with its nearest."""
    n = len(vectors)
    if n <= MOST:
        return np.arange(n)
    drawn = vectors[np.sort(random.choice(n, DRAWN, replace=False))]
    nearest = exact_search(drawn, vectors, AROUND, run).indices
    return np.unique(nearest).astype(np.int64)
