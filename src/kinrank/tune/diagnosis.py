"""What a collection looks like to a re-ranker, and whether that will help.

Who has partners, and how many, is read from gaps in sorted distances that chance does not make.
Where rows lie without any groups, the ball around a row that reaches its k-th neighbour grows as a
Poisson process: with D the dimension, k D log(d_{k+1} / d_k) is exponential of mean 1, for every k
and independently (Rényi). A group around the row ends in a gap that is far larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinrank.parallel import Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.types import Floats

LEVEL = 0.01  # how often a row without a group is thought to have one
LEAST_LIST = 4
LIST = 512  # rows that are looked at around each; groups of up to half of it can be seen
MOST_ROWS, FEWEST_ROWS = 2000, 128  # whose lists are looked at
WORK = 5e10  # multiplications that this may cost: as many as a search in 20,000 rows of 128
HUB_K = 10  # lists in which occurrences are counted, as in the literature on hubs
HUB_ROWS = 5000  # among which
# Chance gives LEVEL of all rows a group; a collection must have five times as many to have some.
ENOUGH = 5 * LEVEL
CLEAR, LEAST = 4.0, 0.01  # standard errors, and a result in a hundred
MOST = 0.5  # of many results, beyond what chance gives


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


def _spacings(squared: Floats) -> npt.NDArray[np.float64]:
    """k log(d_{k+1} / d_k), (m, K - 1); copies of a row count as very near."""
    floor = 1e-12 * max(float(np.max(squared)), np.finfo(np.float64).tiny)
    logs = 0.5 * np.log(np.maximum(squared.astype(np.float64), floor))
    spacings: npt.NDArray[np.float64] = np.arange(1, squared.shape[1]) * np.diff(logs, axis=1)
    return spacings


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """A collection before it is ranked again.

    Attributes
    ----------
    cluster_sizes : 10th, 50th and 90th percentile of the size of the groups that rows belong to;
        zeros when there is no group
    singletons : share of rows without any partner, as far as gaps in the distances show. Groups
        that fade into each other have no gap, so that it is an upper bound.
    hubness : skewness of how often a row is among the 10 nearest of others; 0 is none, above 2 a
        few rows are in very many lists. Of a sample of large collections.
    intrinsic_dimension : of the space between the groups
    helps : whether re-ranking is expected to help
    reason : why, in a sentence
    """

    cluster_sizes: tuple[int, int, int]
    singletons: float
    hubness: float
    intrinsic_dimension: float
    helps: bool
    reason: str

    @property
    def verdict(self) -> str:
        """Either "will help" or "will not help"."""
        return "will help" if self.helps else "will not help"


def look(vectors: Floats, random: np.random.Generator, run: Runner) -> tuple[Groups, float]:
    """Groups in a collection, and its hubness.

    vectors : (n, d), n large enough for lists of LEAST_LIST; a sample of the rows is looked at
    """
    n, width = vectors.shape
    count = int(np.clip(WORK / (n * width), FEWEST_ROWS, MOST_ROWS))
    rows = np.sort(random.choice(n, min(count, n), replace=False))
    length = max(LEAST_LIST, min(LIST, n // 4))
    nearest = exact_search(np.ascontiguousarray(vectors[rows]), vectors, length + 1, run)
    # The row itself is among those at no distance at all: the first column, whoever stands there.
    groups = find_groups(nearest.values[:, 1:])
    return groups, hubness(vectors, random.spawn(1)[0], run)


def hubness(vectors: Floats, random: np.random.Generator, run: Runner) -> float:
    """Skewness of the number of lists that each row is in.

    Rows of a large collection are sampled, and searched among each other: lists of a few rows in
    all others hold hardly any row more than once, and say nothing of a third moment.
    """
    if len(vectors) > HUB_ROWS:
        vectors = vectors[np.sort(random.choice(len(vectors), HUB_ROWS, replace=False))]
    lists = exact_neighbors(vectors, min(HUB_K + 1, len(vectors)), run).indices[:, 1:]
    counts = np.bincount(lists.ravel(), minlength=len(vectors)).astype(np.float64)
    spread = counts.std()
    return float(np.mean((counts - counts.mean()) ** 3) / spread**3) if spread > 0 else 0.0


@dataclass(frozen=True)
class Evidence:
    """Agreement of both halves of the features, by the method and by plain search.

    more, error : how much more they agree on the first few results, and its standard error
    before, after : agreement on as many results as a neighbourhood has
    chance : what that would be for results in random order
    """

    more: float
    error: float
    before: float
    after: float
    chance: float

    @property
    def clear(self) -> bool:
        """Whether the method brings both halves together, on few results or on most of many.

        What is alone, or has one partner only, moves apart.
        """
        few = self.more > max(CLEAR * self.error, LEAST)
        many = self.after > max(self.before, self.chance + MOST * (1 - self.chance))
        return few or many


def judge(groups: Groups, hubs: float, evidence: Evidence) -> Diagnosis:
    """The verdict."""
    grouped = groups.grouped >= ENOUGH
    return Diagnosis(
        cluster_sizes=groups.spread(),
        singletons=groups.alone,
        hubness=hubs,
        intrinsic_dimension=groups.dimension,
        helps=grouped or evidence.clear,
        reason=_reason(groups, grouped, evidence),
    )


def _reason(groups: Groups, grouped: bool, evidence: Evidence) -> str:
    if grouped:
        return (
            f"{groups.grouped:.0%} of the rows lie in groups of three or more, about "
            f"{groups.size:.0f} rows each, so that neighbours confirm each other."
        )
    if evidence.clear:
        return (
            "Groups fade into each other without a gap, but both halves of the features agree "
            "more after re-ranking than before."
        )
    pairs = 1 - groups.alone - groups.grouped
    if pairs >= ENOUGH:
        return (
            f"{groups.alone:.0%} of the rows have no partner and {pairs:.0%} only one: there is "
            "nobody else to confirm a neighbour, and re-ranking mostly moves strangers up."
        )
    return (
        f"{groups.alone:.0%} of the rows have no partner in the collection: neighbours of "
        "neighbours are strangers, and re-ranking moves them up by chance."
    )
