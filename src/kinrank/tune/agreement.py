"""What a map that is learnt from a collection makes of its neighbours.

Two rows that belong together have neighbours in common, and each is among the nearest of the other.
Where a learnt map has found the directions that groups differ in, neighbours agree more under it,
and more of them are mutual. Where vectors have no direction to spare, they agree as much as before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.parallel import Runner
from kinrank.projection.projection import Projection
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.tune.look import FAR, NEAR, share_together
from kinrank.types import Floats, Ints, Longs

MOST = 2000  # rows up to which all are learnt from
DRAWN = 200  # of more, and with each of them its
AROUND = 2 * NEAR  # nearest
SHORT_RANKS = (NEAR // 2, NEAR, 2 * NEAR)  # at which neighbours are compared, with and without
VAST = 100  # rank at which neighbours of very large groups still agree
WHOLE = 5000  # rows up to which all lists are looked at under the map
LISTED = 2000  # of more
LEAST_QUERIES = 40  # with fewer, what they find says too little
PROJECTED = 20_000  # rows; more are not projected to be looked at


@dataclass(frozen=True, kw_only=True)
class UnderMap:
    """Neighbours under a learnt map.

    gain : how many times as often neighbours have neighbours in common, times how many times as
        often they are mutual, by the ``SHORT_RANKS``; 1.0 where nothing can be learnt
    lasting : what a row shares of its list with its 100th neighbour, over what it shares with its
        40th; 0.0 where it was not looked at
    confirmed : what a query's list shares with its 40th result, over what lists of gallery rows
        share with theirs; 1.0 where there are too few queries
    """

    gain: float = 1.0
    lasting: float = 0.0
    confirmed: float = 1.0


def look_under_map(
    vectors: Floats, n_queries: int, random: np.random.Generator, run: Runner
) -> UnderMap:
    """Learn a map from the gallery and compare neighbours under it with those without.

    vectors : (n, d), queries first
    """
    queries = vectors[:n_queries]
    gallery = vectors[n_queries:]
    if len(gallery) <= max(VAST, *SHORT_RANKS):
        return UnderMap()
    rows = gallery[learning_rows(gallery, random, run)]
    learnt = Projection.fit(rows, kind="views", threads=run.threads)
    before = agreement(rows, run)
    after = agreement(learnt.transform(rows), run)
    gain = after / before if before > 0 else 1.0
    if learnt.kind == "identity" or len(gallery) > PROJECTED:
        return UnderMap(gain=gain)
    projected = learnt.transform(gallery)
    if len(gallery) <= WHOLE:
        lists = exact_neighbors(projected, VAST + 1, run).indices
    else:
        listed = np.sort(random.choice(len(gallery), LISTED, replace=False))
        lists = exact_search(projected[listed], projected, VAST + 1, run).indices
    far = _shared(lists[:, : FAR + 1], projected, run)
    vast = _shared(lists, projected, run)
    confirmed = 1.0
    if n_queries >= LEAST_QUERIES and far > 0:
        results = exact_search(learnt.transform(queries[:LISTED]), projected, FAR, run).indices
        # Without the row itself, as a query is in no list of the gallery.
        others = _shared(lists[:, 1 : FAR + 1], projected, run)
        confirmed = _shared(results, projected, run) / others
    return UnderMap(gain=gain, lasting=vast / far if far > 0 else 0.0, confirmed=confirmed)


def agreement(rows: Floats, run: Runner) -> float:
    """How often neighbours have neighbours in common times how often they are mutual.

    The geometric mean over the ``SHORT_RANKS`` of each.
    """
    lists = exact_neighbors(rows, min(len(rows), SHORT_RANKS[-1] + 1), run).indices
    itself = np.arange(len(rows), dtype=np.int32)[:, None]
    logarithm = 0.0
    for rank in SHORT_RANKS:
        mine = lists[:, : rank + 1]
        theirs = lists[mine[:, -1], : rank + 1]
        both = share_together(mine, theirs) * share_together(itself, theirs)
        logarithm += float(np.log(max(both, 1e-9))) / len(SHORT_RANKS)
    return float(np.exp(logarithm))


def _shared(lists: Ints, projected: Floats, run: Runner) -> float:
    """The share of its list that a row has in common with the last row of it."""
    last, place = np.unique(lists[:, -1], return_inverse=True)
    theirs = exact_search(projected[last], projected, lists.shape[1], run).indices
    return share_together(lists, theirs[place])


def learning_rows(vectors: Floats, random: np.random.Generator, run: Runner) -> Longs:
    """All rows of a small collection; of a larger one some, each with its nearest."""
    n = len(vectors)
    if n <= MOST:
        return np.arange(n)
    drawn = vectors[np.sort(random.choice(n, DRAWN, replace=False))]
    nearest = exact_search(drawn, vectors, AROUND, run).indices
    return np.unique(nearest).astype(np.int64)
