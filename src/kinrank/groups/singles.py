"""Single items: rows whose nearest row is no nearer than strangers are, or is no member's.

How near strangers come is seen at rows of groups: their nearest rows of other groups. Of all rows,
those nearer than that show a member; what lies below is a mixture of members and of single items.
The limit is the one at which the fewest rows are expected to be on the wrong side.

A single item among large, tight groups has a nearest row that is nearer than their strangers. But
rows of groups have much nearer ones, so it lies beyond the outer fence of these (Tukey, Exploratory
Data Analysis, 1977). The greater limit of the two counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinrank.groups.links import Links
from kinrank.groups.tree import Tree, cut_tree, grow_tree
from kinrank.kernels.links import nearest_linked
from kinrank.parallel import ALONE, Out, Runner
from kinrank.runs.execution import Execution
from kinrank.types import Longs

ROUNDS = 3  # groups without the single items found so far tell more of them
LEAST_SIZE = 5  # of groups whose rows tell how near strangers come
LEAST_ROWS = 10  # of such groups
SAMPLED = 2000  # rows whose strangers are looked for among all rows,
BLOCK = 4096  # so many at a time
BELOW = 0.75  # quantile of the strangers below which rows are counted: few members lie there
MIDDLE = 0.5  # a quantile below which members are fewer still, but not single items:
SAME = 0.55  # at least so much of their share must be seen there
LEAST_MEMBERS = 64  # rows of groups whose quartiles say anything
FENCE = 3.0  # ranges between the quartiles from the upper one to Tukey's outer fence
NOBODY = -np.inf  # the limit where there is nothing to tell it by

Wide = npt.NDArray[np.float64]


def nearest_cosines(links: Links, run: Runner = ALONE) -> Wide:
    """(n,) The greatest cosine of each row to a row that it has a link to; -1 without a link."""
    pairs = links.similarities
    args = (pairs.indptr, pairs.indices, links.directions)
    nearest: Wide = run.fill("singles", nearest_linked, args, len(links), Out(np.float64))
    return nearest


def grow_without_singles(links: Links, level: float, execution: Execution) -> tuple[Tree, float]:
    """The tree of merges without single items, and the cosine below which rows are single."""
    nearest = nearest_cosines(links, execution.runner)
    limit = NOBODY
    tree = grow_tree(links, arrays=execution.arrays)
    for _ in range(ROUNDS):
        new = max(limit, _limit(nearest, _strangers(links, cut_tree(tree, level))))
        if not _between(nearest, limit, new):
            break
        limit = new
        tree = grow_tree(links, single=nearest < limit, arrays=execution.arrays)
    fence = _outer_fence(nearest, cut_tree(tree, level))
    if _between(nearest, limit, fence):
        limit = fence
        tree = grow_tree(links, single=nearest < limit, arrays=execution.arrays)
    return tree, limit


def _between(nearest: Wide, low: float, high: float) -> bool:
    return bool(((nearest >= low) & (nearest < high)).any())


def _strangers(links: Links, nodes: Longs) -> Wide:
    """The cosines of rows in groups to the nearest row of another group."""
    _, groups, sizes = np.unique(nodes, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(sizes[groups] >= LEAST_SIZE)
    if len(rows) > SAMPLED:
        rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLED, replace=False))
    directions = links.directions[rows]
    found = np.full(len(rows), -1.0)
    for low in range(0, len(links), BLOCK):
        block = slice(low, low + BLOCK)
        cosines = directions @ links.directions[block].T
        cosines[groups[rows][:, None] == groups[block]] = -1
        np.maximum(found, cosines.max(axis=1), out=found)
    return found


def _outer_fence(nearest: Wide, nodes: Longs) -> float:
    """The cosine below which a nearest row is farther than those of rows in groups.

    Quartiles are those of distances between unit rows, whose spread is more even than of cosines.
    """
    _, groups, sizes = np.unique(nodes, return_inverse=True, return_counts=True)
    members = nearest[sizes[groups] >= LEAST_SIZE]
    if len(members) < LEAST_MEMBERS:
        return NOBODY
    lower, upper = np.quantile(np.sqrt(np.maximum(2 - 2 * members, 0)), [0.25, 0.75])
    farthest = upper + FENCE * (upper - lower)
    return float(1 - farthest**2 / 2)


def _share(nearest: Wide, strangers: Wide, quantile: float) -> float:
    """The share of single items, if all rows below a quantile of the strangers are such."""
    return float((nearest < np.quantile(strangers, quantile)).mean()) / quantile


def _limit(nearest: Wide, strangers: Wide) -> float:
    """The cosine with the fewest single items above it and members below it."""
    if len(strangers) < LEAST_ROWS:
        return NOBODY
    ascending = np.sort(nearest)
    strangers = np.sort(strangers)
    share = _share(nearest, strangers, BELOW)
    if share >= 1 or _share(nearest, strangers, MIDDLE) < SAME * share:
        return NOBODY
    limits = np.concatenate([[NOBODY], np.nextafter(ascending, np.inf)])
    below = np.searchsorted(ascending, limits) / len(ascending)
    singles_below = share * np.searchsorted(strangers, limits) / len(strangers)
    wrong = (share - singles_below) + np.maximum(below - singles_below, 0)
    return float(limits[int(np.argmin(wrong))])
