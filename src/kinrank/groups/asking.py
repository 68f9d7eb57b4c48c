"""Questions worth asking: pairs of groups that may be one, and groups that may be two.

An answer is worth as many pairs of rows as it is expected to put right: the pairs between the two
sides, times the chance that what stands now is wrong.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kinrank.groups.explaining import link_of
from kinrank.groups.reasons import Question
from kinrank.types import Longs

if TYPE_CHECKING:
    from kinrank.groups.groups import Groups

STEEPNESS = 4.0  # of the chance over the logarithm of link over level


class Candidate(NamedTuple):
    """Two sides that a question could be about.

    one, other : their rows, ascending; chance : that they are the same; worth : of the answer
    """

    one: Longs
    other: Longs
    chance: float
    worth: float

    def order(self) -> tuple[float, int, int]:
        """The one worth most first, ties by rows."""
        return -self.worth, int(self.one[0]), int(self.other[0])


def questions(groups: Groups, k: int) -> tuple[Question, ...]:
    """The first ``k`` questions, the one worth most first."""
    answered = _Answered.of(groups)
    within = sorted(_within(groups), key=Candidate.order)
    every = heapq.merge(_between(groups), within, key=Candidate.order)
    fresh = (pair for pair in every if not answered.tells(pair.one, pair.other))
    return tuple(_question(groups, pair) for pair in islice(fresh, k))


def chance_of(link: float, level: float) -> float:
    """That two clusters with this link are the same: a half where groups usually end."""
    if link <= 0:
        return 0.0
    return float(1 / (1 + (level / link) ** STEEPNESS))


class _Answered(NamedTuple):
    """What a person said before.

    apart : whom each row is not the same as; together : which rows a row was put together with
    """

    apart: dict[int, set[int]]
    together: dict[int, set[int]]

    @classmethod
    def of(cls, groups: Groups) -> _Answered:
        agreed = groups.corrections.agreed()
        apart: dict[int, set[int]] = {}
        for pair in agreed.apart:
            rows = groups.rows_of(pair)
            if len(rows) == 2:
                apart.setdefault(rows[0], set()).add(rows[1])
                apart.setdefault(rows[1], set()).add(rows[0])
        together: dict[int, set[int]] = {}
        for members in agreed.together:
            whole = set(groups.rows_of(members))
            together.update(dict.fromkeys(whole, whole))
        return cls(apart, together)

    def tells(self, one: Longs, other: Longs) -> bool:
        """Whether any row of one side is known to be the same as one of the other, or not to be."""
        others = set(other.tolist())
        return any(
            not others.isdisjoint(known.get(row, ()))
            for row in one.tolist()
            for known in (self.apart, self.together)
        )


def _between(groups: Groups) -> Iterator[Candidate]:
    """Pairs of groups, as far as any of their rows are linked, in their order."""
    links = groups.found.links
    similarities = links.similarities
    numbers, inverse, sizes = np.unique(groups.labels, return_inverse=True, return_counts=True)
    one = inverse[similarities.owners]
    other = inverse[similarities.indices]
    across = one < other
    m = len(numbers)
    key, at = np.unique(one[across] * m + other[across], return_inverse=True)
    sums = np.bincount(at, similarities.values[across].astype(np.float64), len(key))
    centres = np.zeros((m, links.directions.shape[1]), np.float32)
    np.add.at(centres, inverse, links.directions)
    lengths = np.linalg.norm(centres, axis=1)
    centres /= np.where(lengths > 0, lengths, 1)[:, None]
    first = key // m
    second = key % m
    cosines = np.concatenate(
        [
            np.einsum(
                "ij,ij->i", centres[first[low : low + 4096]], centres[second[low : low + 4096]]
            )
            for low in range(0, len(key), 4096)
        ]
        or [np.empty(0)]
    ).astype(np.float64)
    strengths = link_of(
        sums, sizes[first].astype(np.float64), sizes[second].astype(np.float64), cosines
    )
    chances = 1 / (1 + (groups.found.level / np.maximum(strengths, 1e-9)) ** STEEPNESS)
    worth = chances * sizes[first] * sizes[second]
    first_rows = np.full(m, len(inverse))
    np.minimum.at(first_rows, inverse, np.arange(len(inverse)))
    for pair in np.lexsort((first_rows[second], first_rows[first], -worth)):
        yield Candidate(
            groups.rows(int(numbers[first[pair]])),
            groups.rows(int(numbers[second[pair]])),
            float(chances[pair]),
            float(worth[pair]),
        )


def _within(groups: Groups) -> Iterator[Candidate]:
    """Groups whose last merge was not sure."""
    tree = groups.tree
    n = tree.n_leaves
    below = _rows_below(tree.leaves)
    for step in range(len(tree.children) - 1, -1, -1):
        node = n + step
        link = float(tree.links[node])
        if link > 2 * groups.found.level:
            continue
        number = int(groups.labels[below[_first_leaf(tree.children, n, node)][0]])
        if len(groups.rows(number)) != tree.sizes[node] or number in groups.confirmed:
            continue
        one, other = (
            np.sort(np.concatenate([below[leaf] for leaf in _leaves(tree.children, n, int(child))]))
            for child in tree.children[step]
        )
        if not (groups.labels[np.concatenate([one, other])] == number).all():
            continue
        chance = chance_of(link, groups.found.level)
        yield Candidate(one, other, chance, (1 - chance) * len(one) * len(other))


def _rows_below(leaves: Longs) -> list[Longs]:
    order = np.argsort(leaves, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(leaves[order])) + 1)


def _first_leaf(children: Longs, n: int, node: int) -> int:
    """One of the leaves below a node."""
    while node >= n:
        node = int(children[node - n, 0])
    return node


def _leaves(children: Longs, n: int, node: int) -> list[int]:
    """The leaves below a node."""
    waiting = [node]
    leaves = []
    while waiting:
        top = waiting.pop()
        if top < n:
            leaves.append(top)
        else:
            waiting += children[top - n].tolist()
    return leaves


def _question(groups: Groups, pair: Candidate) -> Question:
    """Show the row of each side that is nearest to the centre of its side."""
    shown = [_central(groups, rows) for rows in (pair.one, pair.other)]
    return Question(
        one_id=groups.ids[shown[0]].item(),
        other_id=groups.ids[shown[1]].item(),
        one=int(groups.labels[shown[0]]),
        other=int(groups.labels[shown[1]]),
        chance=pair.chance,
        worth=pair.worth,
        parts=(tuple(groups.ids[pair.one].tolist()), tuple(groups.ids[pair.other].tolist())),
    )


def _central(groups: Groups, rows: Longs) -> int:
    directions = groups.found.links.directions[rows]
    return int(rows[int(np.argmax(directions @ directions.sum(axis=0)))])
