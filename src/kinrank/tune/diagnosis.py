"""The verdict: what a collection looks like, and whether re-ranking will help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.tune.look import NEAR, Look
from kinrank.tune.views import Evidence

# Fitted to collections with labels (`benchmarks/tune.py verdict`): for and against, and the
# logarithm of the gain in points.
BETTER = 2.2
SURE = 0.46
ALREADY = 1.4
LARGEST = 10.0  # standard errors that count
# What rows without groups gain by chance: average precision, standard errors, share of rows.
TRIFLE = 0.008
CHANCE = 2.0
LUCKY = 0.2
AGREED = 0.41
TOGETHER = -2.67
LEAST = 2.75
_FEW = "Rows lie in close groups of a few, which are nearest to each other and to nobody else."
_FIRM = "Rows have so many neighbours in common with their neighbours that they must lie in groups."


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """A collection before it is ranked again.

    Attributes
    ----------
    cluster_sizes : 10th, 50th and 90th percentile of how many rows belong together, the row itself
        counted, as re-ranking groups them
    singletons : share of rows that nothing belongs to
    hubness : skewness of how often a row is among the 10 nearest of others; 0 is none, above 2 a
        few rows are in very many lists. Of a sample of large collections.
    common : mean similarity of random rows over that of close neighbours; near 1, all rows are
        alike
    better : share of rows whose results get better by re-ranking, less those whose get worse,
        as two halves of the features judge each other
    helps : whether re-ranking is expected to help
    reason : why, in words
    """

    cluster_sizes: tuple[int, int, int]
    singletons: float
    hubness: float
    common: float
    better: float
    helps: bool
    reason: str

    @property
    def verdict(self) -> str:
        """Either "will help" or "will not help"."""
        return "will help" if self.helps else "will not help"


def judge(seen: Look, evidence: Evidence) -> Diagnosis:
    """The verdict."""
    sizes = evidence.sizes
    low, middle, high = np.percentile(sizes, [10, 50, 90])
    votes = BETTER * evidence.better + SURE * _sureness(evidence) + ALREADY
    lucky = evidence.better < LUCKY and _sureness(evidence) < CHANCE
    helps = bool(votes > 0 and not (lucky and evidence.gained <= TRIFLE))
    reason = _reason(evidence, helps, round(middle))
    if seen.small_groups or (seen.firm_groups and not helps):
        helps = True
        reason = _FEW if seen.small_groups else _FIRM
    return Diagnosis(
        cluster_sizes=(round(low), round(middle), round(high)),
        singletons=float(np.mean(sizes == 1)),
        hubness=seen.hubness,
        common=seen.common,
        better=evidence.better,
        helps=helps,
        reason=reason,
    )


def expected_gain(seen: Look, evidence: Evidence) -> float:
    """Gain of mean average precision, from 0 to 1, where re-ranking helps.

    Where lists have much in common anyway, there is less to gain.
    """
    together = TOGETHER * seen.together.get(NEAR, 0.0)
    agreed = evidence.agreed
    grown = float(np.sign(agreed) * np.log1p(100 * abs(agreed)))
    logarithm = AGREED * grown + together + LEAST
    return min(float(np.exp(logarithm)) / 100, 1.0)


def _sureness(evidence: Evidence) -> float:
    """How many standard errors what both rankings agree on has gained, within bounds."""
    error = max(evidence.agreed_error, 0.002)
    return float(np.clip(evidence.agreed / error, -LARGEST, LARGEST))


def _reason(evidence: Evidence, helps: bool, size: int) -> str:
    tested = "Ranked by one half of the features and judged by the other, "
    more, less = ("better", "worse") if evidence.better >= 0 else ("worse", "better")
    balance = f"{abs(evidence.better):.0%} more rows get {more} than {less} results by re-ranking"
    if helps:
        return f"{tested}{balance}; about {size} rows belong together."
    if abs(evidence.gained) <= TRIFLE:
        return (
            f"{tested}results are as good before re-ranking as after: there are no groups whose "
            "rows confirm each other."
        )
    return (
        f"{tested}{balance}, and what was found before moves down: neighbours of neighbours are "
        "mostly strangers here."
    )
