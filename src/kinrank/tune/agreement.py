"""What a map that is learnt from a collection makes of its neighbours.

Two rows that belong together have neighbours in common, and each is among the nearest of the other.
Where a learnt map has found the directions that groups differ in, neighbours agree more under it,
and more of them are mutual. Where vectors have no direction to spare, they agree as much as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinrank.projection.projection import Projection
from kinrank.tune.lists import LONGEST, Integers, Lists, compare_lists, share_together
from kinrank.tune.look import FAR, NEAR
from kinrank.types import Ints

GAIN = 1.25  # times as often as without a map neighbours agree, where it is worth having
SHORT_RANKS = (NEAR // 2, NEAR, 2 * NEAR)  # at which neighbours are compared, with and without
VAST = LONGEST  # rank at which neighbours of very large groups still agree
AT_FIRST = 300  # rows of a large collection whose neighbours are compared
ASKED = 700  # where these leave it open
CLEAR = 0.15  # from where on the logarithm of the gain over GAIN leaves nothing open
LEAST_QUERIES = 40  # with fewer, what they find says too little
COMPARED = 1000  # queries, and rows of the gallery, whose lists are compared


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
    lists: Lists, n_queries: int, learnt: Projection, random: np.random.Generator
) -> UnderMap:
    """Compare neighbours under a map with those without; more where it is worth having.

    lists : of [queries; gallery] as they are
    learnt : from the gallery
    """
    if learnt.kind == "identity" or len(lists) - n_queries <= VAST:
        return UnderMap()
    mapped = replace(lists, onto=learnt)
    for count in (len(lists),) if lists.few else (AT_FIRST, ASKED):
        asked = np.sort(random.choice(len(lists), count, replace=False))
        gain = agreement(asked, mapped) / agreement(asked, lists)
        if abs(np.log(gain / GAIN)) > CLEAR:
            break
    if gain <= GAIN:
        return UnderMap(gain=gain)
    return UnderMap(
        gain=gain,
        lasting=lasting_share(asked, mapped),
        confirmed=confirmed_share(n_queries, mapped, random),
    )


def agreement(asked: Integers, lists: Lists) -> float:
    """How often neighbours have neighbours in common times how often they are mutual.

    The geometric mean over the ``SHORT_RANKS`` of each.
    """
    together, mutual = compare_lists(asked, SHORT_RANKS, lists)
    both = [max(together[rank] * mutual[rank], 1e-9) for rank in together]
    return float(np.exp(np.mean(np.log(both))))


def lasting_share(asked: Integers, lists: Lists) -> float:
    """What a row shares of its list with its 100th neighbour, over that with its 40th."""
    together, _ = compare_lists(asked, (FAR, VAST), lists)
    return together[VAST] / together[FAR] if together[FAR] > 0 else 0.0


def confirmed_share(n_queries: int, lists: Lists, random: np.random.Generator) -> float:
    """What queries find confirms itself, over what rows of the gallery find.

    lists : of [queries; gallery]
    """
    if n_queries < LEAST_QUERIES:
        return 1.0

    def in_gallery(rows: Integers, k: int) -> Ints:
        return lists.of_vectors(lists.projected(lists.vectors[rows]), k, n_queries).indices

    n_gallery = len(lists) - n_queries
    queries = np.sort(random.choice(n_queries, min(COMPARED, n_queries), replace=False))
    rows = n_queries + np.sort(random.choice(n_gallery, min(COMPARED, n_gallery), replace=False))
    found = in_gallery(queries, FAR)
    # Without the row itself, as a query is in no list of the gallery.
    others = in_gallery(rows, FAR + 1)[:, 1:]
    partners, position = np.unique(np.append(found[:, -1], others[:, -1]), return_inverse=True)
    theirs = in_gallery(n_queries + partners, FAR)[position]
    of_rows = share_together(others, theirs[len(found) :])
    return share_together(found, theirs[: len(found)]) / of_rows if of_rows > 0 else 1.0
