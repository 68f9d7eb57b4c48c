"""Gaps in sorted distances that chance does not make: who has partners, and how many.

Where rows lie without any groups, the ball around a row that reaches its k-th neighbour grows as a
Poisson process: with D the dimension, k D log(d_{k+1} / d_k) is exponential of mean 1, for every k
and independently (Rényi). A group around the row ends in a gap that is far larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.types import Floats

LEVEL = 0.01  # how often a row without a group is thought to have one
LEAST_LIST = 4

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groups:
    """What the gaps say.

    dimension : intrinsic dimension beyond the groups, from the far half of the lists
    partners : (m,) how many rows are in the group of each row, itself not counted; 0 is alone
    """

    dimension: float
    partners: npt.NDArray[np.int64]

    @property
    def alone(self) -> float:
        """The share of rows without a partner."""
        return float(np.mean(self.partners == 0))

    @property
    def grouped(self) -> float:
        """The share of rows with two partners or more, so that neighbours can tell something."""
        return float(np.mean(self.partners > 1))

    @property
    def size(self) -> float | None:
        """The geometric mean size of groups of three and more, the row itself counted."""
        sizes = 1 + self.partners[self.partners > 1]
        return float(np.exp(np.mean(np.log(sizes)))) if len(sizes) else None

    def spread(self) -> tuple[int, int, int]:
        """10th, 50th and 90th percentile of the sizes of all groups; zeros when there is none."""
        sizes = 1 + self.partners[self.partners > 0]
        if len(sizes) == 0:
            return 0, 0, 0
        low, middle, high = np.percentile(sizes, [10, 50, 90])
        return round(low), round(middle), round(high)


def find_groups(squared: Floats) -> Groups:
    """From lists of squared distances.

    squared : (m, K) ascending, the row itself left out, K at least LEAST_LIST
    """
    spacings = _spacings(squared)
    far = spacings.shape[1] // 2
    mean = float(np.mean(spacings[:, far:]))
    dimension = 1 / mean if mean > 0 else np.inf
    # Where all far rows are equally far there is no dimension; any gap before them counts.
    tested = spacings[:, :far] * min(dimension, 1e9)
    limit = np.log(far / LEVEL)  # the largest of ``far`` exponentials, at that level
    partners = np.where(tested.max(axis=1) > limit, tested.argmax(axis=1) + 1, 0)
    return Groups(dimension, partners)


def _spacings(squared: Floats) -> Values:
    """k log(d_{k+1} / d_k), (m, K - 1); copies of a row count as very near."""
    floor = 1e-12 * max(float(np.max(squared)), np.finfo(np.float64).tiny)
    logs = 0.5 * np.log(np.maximum(squared.astype(np.float64), floor))
    spacings: Values = np.arange(1, squared.shape[1]) * np.diff(logs, axis=1)
    return spacings
