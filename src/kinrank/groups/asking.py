"""Questions worth asking: pairs of groups that may be one, and groups that may be two.

An answer is worth as many pairs of rows as it is expected to put right: the pairs between the two
sides, times the chance that what stands now is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinrank.groups.explaining import link_of
from kinrank.groups.reasons import Question
from kinrank.types import Longs

if TYPE_CHECKING:
    from kinrank.groups.groups import Groups

STEEPNESS = 4.0  # of the chance over the logarithm of link over level


def questions(groups: Groups, k: int) -> tuple[Question, ...]:
    """The first ``k`` questions, the one worth most first."""
    asked = _settled(groups)
    found = _between(groups, 4 * k + len(asked)) + _within(groups)
    found.sort(key=lambda question: (-question.worth, str(question.one_id), str(question.other_id)))
    fresh = [question for question in found if not _is_settled(question, asked)]
    return tuple(fresh[:k])


def chance_of(link: float, level: float) -> float:
    """That two clusters with this link are the same: a half where groups usually end."""
    if link <= 0:
        return 0.0
    return float(1 / (1 + (level / link) ** STEEPNESS))


def _settled(groups: Groups) -> dict[object, set[object]]:
    """Whom a person put apart from whom, by id."""
    apart: dict[object, set[object]] = {}
    for one, other in groups.corrections.agreed().apart:
        apart.setdefault(one, set()).add(other)
        apart.setdefault(other, set()).add(one)
    return apart


def _is_settled(question: Question, apart: dict[object, set[object]]) -> bool:
    others = set(question.parts[1])
    return any(not others.isdisjoint(apart.get(value, ())) for value in question.parts[0])


def _between(groups: Groups, most: int) -> list[Question]:
    """Pairs of groups, as far as any of their rows are linked."""
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
    level = groups.found.level
    chances = 1 / (1 + (level / np.maximum(strengths, 1e-9)) ** STEEPNESS)
    worth = chances * sizes[first] * sizes[second]
    best = np.lexsort((key, -worth))[:most]
    return [
        _question(
            groups,
            groups.rows(int(numbers[first[pair]])),
            groups.rows(int(numbers[second[pair]])),
            float(chances[pair]),
            float(worth[pair]),
        )
        for pair in best
    ]


def _within(groups: Groups) -> list[Question]:
    """Groups whose last merge was not sure."""
    tree = groups.tree
    n = tree.n_leaves
    below = _rows_below(tree.leaves)
    found = []
    for step in range(len(tree.children) - 1, -1, -1):
        node = n + step
        link = float(tree.links[node])
        if link > 2 * groups.found.level:
            continue
        left, right = (_leaves(tree.children, n, int(child)) for child in tree.children[step])
        number = groups.labels[below[left[0]][0]]
        if len(groups.rows(int(number))) != tree.sizes[node]:
            continue
        if groups.labels[below[right[0]][0]] != number or int(number) in groups.confirmed:
            continue
        one = np.concatenate([below[leaf] for leaf in left])
        other = np.concatenate([below[leaf] for leaf in right])
        if not (groups.labels[np.concatenate([one, other])] == number).all():
            continue
        chance = chance_of(link, groups.found.level)
        worth = (1 - chance) * len(one) * len(other)
        found.append(_question(groups, np.sort(one), np.sort(other), chance, worth))
    return found


def _rows_below(leaves: Longs) -> list[Longs]:
    order = np.argsort(leaves, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(leaves[order])) + 1)


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


def _question(groups: Groups, one: Longs, other: Longs, chance: float, worth: float) -> Question:
    """Show the row of each side that is nearest to the centre of its side."""
    shown = [_central(groups, rows) for rows in (one, other)]
    return Question(
        one_id=groups.ids[shown[0]].item(),
        other_id=groups.ids[shown[1]].item(),
        one=int(groups.labels[shown[0]]),
        other=int(groups.labels[shown[1]]),
        chance=chance,
        worth=worth,
        parts=(tuple(groups.ids[one].tolist()), tuple(groups.ids[other].tolist())),
    )


def _central(groups: Groups, rows: Longs) -> int:
    directions = groups.found.links.directions[rows]
    return int(rows[int(np.argmax(directions @ directions.sum(axis=0)))])
