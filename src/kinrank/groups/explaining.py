"""The reasons of groups, computed from their links.

A row or a group and another group have the link of ``kernels/merging.py``: how many of the pairs
between them are linked, and how alike their centres are.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kinrank.groups.links import Links
from kinrank.groups.reasons import Group, Lean, Link, Nearest, Pair
from kinrank.groups.tree import PARTNERS
from kinrank.types import Longs

if TYPE_CHECKING:
    from kinrank.groups.groups import Groups

Wide = npt.NDArray[np.float64]


def own_links(links: Links, labels: Longs) -> Wide:
    """The link of each row to the rest of its group; 1 for single items."""
    similarities = links.similarities
    _, groups, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    owners = similarities.owners
    inside = groups[owners] == groups[similarities.indices]
    sums = np.bincount(owners[inside], similarities.values[inside].astype(np.float64), len(labels))
    centres = np.zeros((len(sizes), links.directions.shape[1]), np.float32)
    np.add.at(centres, groups, links.directions)
    rest = centres[groups] - links.directions
    cosines = _cosines(links.directions, rest)
    others = sizes[groups] - 1
    out = link_of(sums, np.ones(len(labels)), others.astype(np.float64), cosines)
    out[others == 0] = 1.0
    return out


def link_of(sums: npt.NDArray[Any], size: Wide, other_size: Wide, cosines: Wide) -> Wide:
    """The link of two clusters; see ``kernels/merging.py``."""
    pairs = np.minimum(size * other_size, PARTNERS * np.minimum(size, other_size))
    share = np.maximum(sums, 0) / np.maximum(pairs, 1)
    return np.asarray(np.sqrt(share) * np.maximum(cosines, 0) ** 0.75)


def _cosines(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> Wide:
    products = np.einsum("ij,ij->i", one, other, dtype=np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray(products / np.where(lengths > 0, lengths, 1))


def _entries(links: Links, rows: Longs) -> tuple[Longs, Longs, Wide]:
    """All links of some rows: places in ``rows``, other rows, similarities."""
    indptr = links.similarities.indptr
    counts = indptr[rows + 1] - indptr[rows]
    owners = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = np.repeat(indptr[rows], counts) + within
    others = links.similarities.indices[entries].astype(np.int64)
    return owners, others, links.similarities.values[entries].astype(np.float64)


def links_to_groups(groups: Groups, rows: Longs, *, whole: bool) -> tuple[Longs, Longs, Wide]:
    """Links from some rows, each alone or all as one, to the groups around them.

    Returns places in ``rows`` (0 for all as one), numbers and links; rows of the own group that
    are not among ``rows`` do not count.
    """
    links = groups.found.links
    owners, others, values = _entries(links, rows)
    if whole:
        owners = np.zeros_like(owners)
    numbers = groups.labels[others]
    outside = ~np.isin(numbers, groups.labels[rows])
    top = int(groups.labels.max()) + 1
    key, inverse = np.unique(owners[outside] * top + numbers[outside], return_inverse=True)
    sums = np.bincount(inverse, values[outside], len(key))
    places = key // top
    far = key % top
    sizes = np.array([len(groups.rows(int(number))) for number in far.tolist()], np.float64)
    centres = np.array(
        [links.directions[groups.rows(int(number))].sum(axis=0) for number in far.tolist()]
    ).reshape(len(far), links.directions.shape[1])
    if whole:
        own = np.tile(links.directions[rows].sum(axis=0), (len(far), 1))
        own_sizes = np.full(len(far), float(len(rows)))
    else:
        own = links.directions[rows[places]]
        own_sizes = np.ones(len(far))
    return places, far, link_of(sums, own_sizes, sizes, _cosines(own, centres))


def describe(groups: Groups, rows: Longs, number: int) -> Group:
    """A group and its reasons."""
    own = groups.own_links[rows]
    _, far, strengths = links_to_groups(groups, rows, whole=True)
    nearest = None
    if len(far):
        best = int(np.lexsort((far, -strengths))[0])
        nearest = Nearest(int(far[best]), float(strengths[best]))
    weakest = None
    leaning: tuple[Lean, ...] = ()
    if len(rows) > 1:
        weakest = _weakest(groups, rows)
        leaning = _leaning(groups, rows, own)
    return Group(
        number=number,
        name=groups.names.get(number),
        size=len(rows),
        confirmed=number in groups.confirmed,
        cohesion=float(own.mean()),
        weakest=weakest,
        nearest=nearest,
        leaning=leaning,
    )


def _weakest(groups: Groups, rows: Longs) -> Link:
    row = rows[int(np.argmin(groups.own_links[rows]))]
    partner = _closest(groups.found.links, int(row), rows[rows != row])
    strength = float(groups.own_links[row])
    return Link(groups.ids[row].item(), groups.ids[partner].item(), strength)


def _closest(links: Links, row: int, rows: Longs) -> int:
    """Of some rows the one that a row is most alike."""
    return int(rows[int(np.argmax(links.directions[rows] @ links.directions[row]))])


def _leaning(groups: Groups, rows: Longs, own: Wide) -> tuple[Lean, ...]:
    places, far, strengths = links_to_groups(groups, rows, whole=False)
    stronger = strengths > own[places]
    best: dict[int, Lean] = {}
    for place, number, link in zip(
        places[stronger].tolist(), far[stronger].tolist(), strengths[stronger].tolist(), strict=True
    ):
        lean = Lean(groups.ids[rows[place]].item(), number, link)
        if place not in best or best[place].link < link:
            best[place] = lean
    return tuple(sorted(best.values(), key=lambda lean: -lean.link))


def candidates(groups: Groups, row: int, k: int) -> tuple[Nearest, ...]:
    """The groups that a row has the strongest links to."""
    _, far, strengths = links_to_groups(groups, np.array([row]), whole=False)
    order = np.lexsort((far, -strengths))[:k]
    return tuple(Nearest(int(far[at]), float(strengths[at])) for at in order)


def why(groups: Groups, one: int, other: int) -> Pair:
    """Why two rows are together or apart."""
    names = groups.ids[one].item(), groups.ids[other].item()
    same_group = groups.labels[one] == groups.labels[other]
    if one == other:
        return Pair(True, 1.0, (names[0],), f"{names[0]!r} is one row.")
    if same_group:
        rows = groups.rows(int(groups.labels[one]))
        path, strength = _strongest_path(groups.found.links, rows, one, other)
        through = tuple(groups.ids[row].item() for row in path)
        if len(path) == 2:
            text = f"{names[0]!r} and {names[1]!r} are linked directly ({strength:.2f})."
        elif path:
            inner = ", ".join(repr(value) for value in through[1:-1])
            text = (
                f"{names[0]!r} and {names[1]!r} are together through {inner}; the weakest link on "
                f"the way has {strength:.2f}."
            )
        else:
            text = f"{names[0]!r} and {names[1]!r} are together by what a person said or was given."
        return Pair(True, strength, through, text)
    number = int(groups.labels[other])
    _, far, strengths = links_to_groups(groups, groups.rows(int(groups.labels[one])), whole=True)
    at = np.flatnonzero(far == number)
    link = float(strengths[at[0]]) if len(at) else 0.0
    text = (
        f"{names[0]!r} and {names[1]!r} are apart: their groups have a link of {link:.2f}, and "
        f"groups end at about {groups.found.level:.2f} here."
        if groups.verdict.sure
        else f"{names[0]!r} and {names[1]!r} are apart: {groups.verdict.text}"
    )
    return Pair(False, link, (), text)


def _strongest_path(links: Links, rows: Longs, one: int, other: int) -> tuple[list[int], float]:
    """The way between two rows of a group whose weakest link is the strongest."""
    inside = set(rows.tolist())
    best = {one: 1.0}
    before: dict[int, int] = {}
    heap = [(-1.0, one)]
    while heap:
        strength, row = heapq.heappop(heap)
        if row == other:
            path = [other]
            while path[-1] != one:
                path.append(before[path[-1]])
            return path[::-1], -strength
        if -strength < best[row]:
            continue
        begin = int(links.similarities.indptr[row])
        end = int(links.similarities.indptr[row + 1])
        for entry in range(begin, end):
            far = int(links.similarities.indices[entry])
            through = min(-strength, float(links.similarities.values[entry]))
            if far in inside and through > best.get(far, 0.0):
                best[far] = through
                before[far] = row
                heapq.heappush(heap, (-through, far))
    return [], 0.0
