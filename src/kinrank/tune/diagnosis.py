"""The verdict: what a collection looks like, and whether re-ranking will help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinrank.index.auto_parameters import UNSURE
from kinrank.tune.look import NEAR, Look
from kinrank.tune.rules import small_groups, two_of_a_kind
from kinrank.tune.views import Evidence

WILL_HELP = "will help"
WILL_NOT_HELP = "will not help"

# Fitted to collections with labels (`benchmarks/tune.py verdict`): votes for and against.
BETTER = 2.2  # for the share of rows that get better results
SURE = 0.46  # for each standard error of what both halves agree on
ALREADY = 1.4
LARGEST = 10.0  # standard errors that count
DOUBT = 1.0  # votes below which, for or against, nothing is said
# What rows without groups gain by chance: average precision, standard errors, share of rows.
TRIFLE = 0.008
CHANCE = 2.0
LUCKY = 0.2
# Average precision below which one half knows hardly anything of what the other groups: that
# nothing is gained says nothing then.
STRANGE = 0.1
# Share of rows and average precision below which a gain is too little to count on.
FEW_BETTER = 0.15
SLIGHT = 0.016
FIRM = 0.45  # of ``together`` at NEAR; without groups it is below 0.4 in any dimension above 3
# The logarithm of the gain in points.
AGREED = 0.41
TOGETHER = -2.67
LEAST = 2.75


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
    verdict : whether re-ranking is expected to help: "will help", "will not help" or "unsure"
    reason : why, in words
    """

    cluster_sizes: tuple[int, int, int]
    singletons: float
    hubness: float
    common: float
    better: float
    verdict: str
    reason: str


def judge(seen: Look, evidence: Evidence) -> Diagnosis:
    """What the collection looks like, and the verdict."""
    sizes = evidence.sizes
    low, middle, high = np.percentile(sizes, [10, 50, 90])
    verdict, reason = _verdict(seen, evidence, round(middle))
    return Diagnosis(
        cluster_sizes=(round(low), round(middle), round(high)),
        singletons=float(np.mean(sizes == 1)),
        hubness=seen.hubness,
        common=seen.common,
        better=evidence.better,
        verdict=verdict,
        reason=reason,
    )


def _verdict(seen: Look, evidence: Evidence, size: int) -> tuple[str, str]:
    """The verdict and why; size : how many rows belong together."""
    if two_of_a_kind(seen):
        return UNSURE, (
            "Rows come in couples: the nearest of a row has it as its own nearest, and nobody else "
            "is there to confirm it."
        )
    if small_groups(seen):
        return WILL_HELP, (
            "Rows lie in close groups of a few, which are nearest to each other and to nobody else."
        )
    votes = for_and_against(evidence)
    by_chance = gained_by_chance(evidence)
    if seen.together.get(NEAR, 0.0) > FIRM and (votes < DOUBT or by_chance):
        return WILL_HELP, (
            "Rows have so many neighbours in common with their neighbours that they must lie in "
            "groups."
        )
    tested = "Ranked by one half of the features and judged by the other, "
    if evidence.before < STRANGE and (by_chance or votes <= -DOUBT):
        return UNSURE, (
            f"{tested}hardly anything is found, before re-ranking as after: each half is too noisy "
            "to tell of the whole."
        )
    if by_chance:
        return WILL_NOT_HELP, (
            f"{tested}results are as good before re-ranking as after: there are no groups whose "
            "rows confirm each other."
        )
    change = "better than worse" if evidence.better >= 0 else "worse than better"
    balance = f"{abs(evidence.better):.0%} more rows get {change} results by re-ranking"
    slight = evidence.better < FEW_BETTER and evidence.gained < SLIGHT
    if abs(votes) < DOUBT or (votes > 0 and slight):
        return UNSURE, f"{tested}{balance}, which is too little to tell."
    if votes > 0:
        return WILL_HELP, f"{tested}{balance}; about {size} rows belong together."
    return WILL_NOT_HELP, (
        f"{tested}{balance}, and what was found before moves down: neighbours of neighbours are "
        "mostly strangers here."
    )


def for_and_against(evidence: Evidence) -> float:
    """Votes for re-ranking, less those against it."""
    return BETTER * evidence.better + SURE * sureness(evidence) + ALREADY


def gained_by_chance(evidence: Evidence) -> bool:
    """Whether as little is gained as by rows without groups."""
    return (
        evidence.better < LUCKY and sureness(evidence) < CHANCE and abs(evidence.gained) <= TRIFLE
    )


def sureness(evidence: Evidence) -> float:
    """How many standard errors what both rankings agree on has gained, within bounds."""
    error = max(evidence.agreed_error, 0.002)
    return float(np.clip(evidence.agreed / error, -LARGEST, LARGEST))


def expected_gain(seen: Look, evidence: Evidence) -> float:
    """Gain of mean average precision, from 0 to 1, where re-ranking helps.

    Where lists have much in common anyway, there is less to gain.
    """
    together = TOGETHER * seen.together.get(NEAR, 0.0)
    agreed = evidence.agreed
    grown = float(np.sign(agreed) * np.log1p(100 * abs(agreed)))
    logarithm = AGREED * grown + together + LEAST
    return min(float(np.exp(logarithm)) / 100, 1.0)
