"""Whether a map learnt from a collection makes neighbours agree with each other.

Two rows that belong together have neighbours in common. Where a learnt map has found the directions
that groups differ in, a row and its tenth neighbour share more of their lists under it. Where
vectors have no direction to spare, they share as much as before.
"""

from __future__ import annotations

import numpy as np

from kinrank.parallel import Runner
from kinrank.projection.projection import Projection
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
    rows = vectors[learning_rows(vectors, random, run)]
    learnt = Projection.fit(rows, kind="pairs", threads=run.threads)
    before = _together(rows, run)
    after = _together(learnt.transform(rows), run)
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
