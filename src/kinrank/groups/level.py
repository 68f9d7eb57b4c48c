"""At which level groups end: where two halves of the directions find the same groups.

Halves see the collection as if by two networks. Groups that both find are there; groups that one
finds alone are chance. The level is the one with the greatest agreement (adjusted Rand index, times
the share of rows that are in groups of two and more) there and at the levels beside it, less what
it differs from the usual level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.groups.links import (
    LONG,
    PROJECTED,
    Links,
    linked,
    ranked,
    similarities,
    unit_rows,
)
from kinrank.groups.tree import USUAL_LEVEL, Tree, cut_tree, grow_tree
from kinrank.methods.cas import CASMethod
from kinrank.metrics.grouping import adjusted_rand
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.types import Floats, Longs

LEVELS = (0.07, 0.085, 0.1, 0.12, 0.14, 0.17, 0.2, 0.23, 0.26, 0.3, 0.34, 0.38, 0.43, 0.5)
ENOUGH = 0.85  # agreement beyond which more says nothing
COST = 0.06  # agreement that a level must gain for each e-fold away from the usual one
SPLITS = 2  # pairs of halves
WIDEST = 256  # directions of a half
LEAST_ROWS = 64  # with fewer there is nothing to learn from
LEVEL_OF_FEW = 0.5  # instead: lists that hold all rows make links stronger
MOST_ROWS = 3000  # of a larger collection, whole regions are looked at
REGION = 250  # rows of a region
BLOCK = 8192  # rows that are made ready at a time
SURE = 0.6  # agreement above which groups are there
UNKNOWN = 0.35  # and below which they are not


class Level(NamedTuple):
    """The chosen level, and the agreement there; None where there are too few rows to tell."""

    level: float
    agreement: float | None


def choose_level(
    vectors: Floats,
    threads: int | None,
    arrays: Arrays = IN_MEMORY,
    method: CASMethod = PROJECTED,
) -> Level:
    """The level at which two halves of the directions agree.

    method : how each half is ranked
    arrays : where arrays lie that are as long as the vectors
    """
    if len(vectors) < LEAST_ROWS or vectors.shape[1] < 2:
        return Level(LEVEL_OF_FEW, None)
    rows = vectors[_sample(vectors, arrays)]
    centred = unit_rows(rows - rows.mean(axis=0))
    agreements = np.zeros(len(LEVELS))
    for split in range(SPLITS):
        one, other = (_tree(half, method, threads) for half in _halves(centred, split))
        for at, level in enumerate(LEVELS):
            agreements[at] += _agreement(cut_tree(one, level), cut_tree(other, level)) / SPLITS
    away = np.abs(np.log(np.array(LEVELS) / USUAL_LEVEL))
    around = np.pad(agreements, 1, mode="edge")
    smoothed = (around[:-2] + 2 * agreements + around[2:]) / 4
    best = int(np.argmax(np.minimum(smoothed, ENOUGH) - COST * away))
    return Level(LEVELS[best], float(agreements[best]))


def _agreement(one: Longs, other: Longs) -> float:
    """The adjusted Rand index of two groupings times the share of rows in groups."""
    shares = [_in_groups(nodes) for nodes in (one, other)]
    return max(adjusted_rand(one, other), 0.0) * (shares[0] + shares[1]) / 2


def _in_groups(nodes: Longs) -> float:
    _, inverse, counts = np.unique(nodes, return_inverse=True, return_counts=True)
    return float((counts[inverse] > 1).mean())


def _sample(vectors: Floats, arrays: Arrays) -> npt.NDArray[np.int64]:
    """All rows, or whole regions of many: the nearest rows of some keep their groups together."""
    n = len(vectors)
    if n <= MOST_ROWS:
        return np.arange(n)
    random = np.random.default_rng(0)
    taken = np.zeros(n, np.bool_)
    mean = vectors.mean(axis=0)
    unit = arrays.empty(vectors.shape, np.float32)
    for low in range(0, n, BLOCK):
        unit[low : low + BLOCK] = unit_rows(vectors[low : low + BLOCK] - mean)
    for row in random.permutation(n):
        if int(taken.sum()) >= MOST_ROWS:
            break
        if taken[row]:
            continue
        near = unit @ unit[row]
        taken[np.argpartition(-near, REGION)[:REGION]] = True
    return np.flatnonzero(taken)


def _halves(rows: Floats, seed: int) -> tuple[Floats, Floats]:
    """Two halves of the directions, on random other axes."""
    width = rows.shape[1]
    half = min(width // 2, WIDEST)
    random = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(random.normal(size=(width, 2 * half)))
    turned = (rows @ axes.astype(np.float32)).astype(np.float32)
    first = turned[:, :half]
    second = turned[:, half:]
    return unit_rows(first - first.mean(axis=0)), unit_rows(second - second.mean(axis=0))


def _tree(rows: Floats, method: CASMethod, threads: int | None) -> Tree:
    n = len(rows)
    execution = Execution(Runner.of(threads))
    pairs = linked(ranked(method, rows, min(LONG, n - 1), execution), execution.runner)
    return grow_tree(Links(similarities(pairs), rows, ()))
