"""Whether a map is worth having, seen from pairs that it was not learnt from.

The rows are cut in two. A map is learnt from the pairs of one half; for pairs of the other the rank
of the partner is compared, under the map and in the vectors as they are. Where vectors know nothing
of kinds the pairs are chance, and a map learnt from some does not bring the others nearer.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.projection.arrays import Wide, unit
from kinrank.projection.learning import Coordinates, learnt_matrix
from kinrank.projection.pairs import Pairs
from kinrank.types import Longs

Mask: TypeAlias = npt.NDArray[np.bool_]

TRIED = 600  # pairs whose ranks are compared
FEWEST = 20  # pairs of each half that say anything
MARGIN = 0.3  # by which the mean logarithm of the rank may grow: pairs were found by nearness


class Evidence(NamedTuple):
    """Whether to use the map; the mean logarithms of partners' ranks before and under it."""

    better: bool
    before: float
    after: float
    reason: str


def brings_nearer(rows: Wide, centred: Wide, space: Coordinates, pairs: Pairs) -> Evidence:
    """Whether a map learnt from half of the rows brings partners of the other half nearer.

    rows : unit rows as they came; centred : unit rows around their mean, which ``space`` is of
    """
    random = np.random.default_rng(0)
    learnt = random.random(len(rows)) < 0.5
    teaching = pairs.among(learnt)
    held = pairs.among(~learnt)
    if min(len(teaching), len(held)) < FEWEST:
        reason = f"{len(pairs)} pairs are too few to learn from some and try the map on others."
        return Evidence(False, 0.0, 0.0, reason)
    matrix = learnt_matrix(space, teaching)
    if not len(matrix):
        reason = "No direction tells kinds apart: partners differ as any two rows."
        return Evidence(False, 0.0, 0.0, reason)
    share = held.weight**2 / (held.weight**2).sum()  # the most certain ones
    tried = random.choice(len(held), min(TRIED, int((share > 0).sum())), replace=False, p=share)
    first = held.first[tried]
    second = held.second[tried]
    before = mean_log_rank(rows, ~learnt, first, second)
    after = mean_log_rank(np.asarray(unit(centred @ matrix.T)), ~learnt, first, second)
    reason = (
        f"Partners that were held back are at rank {np.exp(after):.1f} under the learnt map and at "
        f"{np.exp(before):.1f} without it (geometric means)."
    )
    return Evidence(after <= before + MARGIN, before, after, reason)


def mean_log_rank(rows: Wide, others: Mask, first: Longs, second: Longs) -> float:
    """The mean logarithm of the rank of ``second`` among the ``others`` of ``first``."""
    similarity = rows[first] @ rows[others].T
    partner = np.einsum("ij,ij->i", rows[first], rows[second])
    ranks = (similarity > partner[:, None] + 1e-9).sum(axis=1)  # the row itself is before all
    return float(np.log(np.maximum(ranks, 1)).mean())
