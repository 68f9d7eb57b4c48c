"""From what a collection looks like to parameters, each with its reason.

A rule is a fact about the collection and what follows from it. ``benchmarks/tune.py`` shows what
the choices are worth, beside the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError, shown
from kinrank.projection.kinds import LEARNT
from kinrank.projection.projection import Projection
from kinrank.registry import make_method
from kinrank.tune.agreement import GAIN, VAST, UnderMap
from kinrank.tune.look import FAR, FEW, FIRST, NEAR, Look
from kinrank.tune.views import Evidence
from kinrank.types import Floats

# Rows from which on a map can be learnt: with fewer, chance teaches more than the collection does.
LEARNT_ROWS = 800
LASTING = 0.97  # lists of a hundred are shared hardly less than lists of forty: groups go on
# Rows from which on that is looked at: of fewer, lists of a hundred are so large a part that rows
# have much of them in common by chance.
VAST_ROWS = 1500
CONFIRMED = 0.9  # below, what queries find is confirmed less than what gallery rows find
STRANGERS_SHARE = 0.7  # the share of the original distance then
# Times the dimension near a row that rows fill farther away: more, and they lie on no surface.
SURFACES = 1.15
LARGE = 0.7  # what is left of ``together`` from NEAR to FAR where groups are large
SMALL = 0.25  # loss of ``mutual`` from FEW to NEAR that only small groups have
# Two of a kind: so many rows are the nearest of their nearest, and so many times less are mutual
# at rank FEW.
COUPLES = 0.6
STRANGERS = 1.6
ALMOST_ALL = 0.9  # the share of the original distance then
HUBS = 1.7  # from where on taking out the mean helps
COMMON = 0.1  # of the similarity of neighbours that makes hubs where all rows share it
# What rankings by two halves of the features have first must gain as much by re-ranking, or the
# original distance keeps a larger share.
SHARES = ((-0.02, 0.7), (0.02, 0.5))
SAME_NORM = 0.01  # how far norms of unit vectors may differ; half precision makes them

SIZE_NAMES = ("few", "usual", "large", "learnt", "surface", "vast")
# Sizes for groups of a few rows, for usual and for large ones; where a map was learnt, there along
# surfaces, and there for groups of hundreds.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "cas": {
        "few": {"k1": 10, "k2": 3, "enhance_k": 6},
        "usual": {"k1": 20},
        "large": {"k1": 40},
        "learnt": {"k1": 40, "k2": 4, "enhance_k": 8},
        "surface": {"k1": 40, "k2": 3, "enhance_k": 8},
        "vast": {"k1": 100, "k2": 6, "enhance_k": 8},
    },
    "kreciprocal": {
        "few": {"k1": 10, "k2": 3},
        "usual": {"k1": 20},
        "large": {"k1": 40},
        "learnt": {"k1": 20},
        "surface": {"k1": 20},
        "vast": {"k1": 40},
    },
    "alphaqe": {
        "few": {"kqe": 5},
        "usual": {"kqe": 5},
        "large": {"kqe": 20},
        "learnt": {"kqe": 5},
        "surface": {"kqe": 5},
        "vast": {"kqe": 20},
    },
    "rdp": {size: {"k1": 10} for size in SIZE_NAMES},
    "ecn": {
        "few": {"k1": 10},
        "usual": {"k1": 20},
        "large": {"k1": 40},
        "learnt": {"k1": 20},
        "surface": {"k1": 20},
        "vast": {"k1": 40},
    },
    "gnn": {size: {"k1": 20} for size in SIZE_NAMES},
}


@dataclass
class Choice:
    """Parameters and why they were chosen; what a user fixed stays as it is."""

    params: dict[str, Any]
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, **values: Any) -> None:
        """Take values of parameters that are still open; the first of them has the reason."""
        new = {name: value for name, value in values.items() if name not in self.params}
        self.params |= new
        if new:
            self.reasons[next(iter(new))] = reason


def check_tunable(method: object) -> None:
    """Raise unless the parameters of ``method`` can be chosen."""
    if not isinstance(method, str) or method not in SIZES:
        raise InvalidInputError(
            f"`method` must be one that can be tuned ({', '.join(sorted(SIZES))}), "
            f"got {shown(method)}."
        )


def choose(
    method: str,
    fixed: dict[str, Any],
    seen: Look,
    mapped: UnderMap,
    evidence: Evidence,
    vectors: Floats,
) -> Choice:
    """All rules in their order; vectors : (n, d) of the collection, queries first."""
    choice = Choice(dict(fixed))
    if "whiten" not in fixed:
        kind, reason = choose_map(seen, vectors, mapped)
        choice.add(reason, whiten=kind)
    learnt = is_learnt(choice.params["whiten"])
    size, reason = choose_size(seen, mapped, learnt=learnt)
    sizes = SIZES[method][size]
    if fits(method, {**sizes, **choice.params}):  # what a user fixed may forbid them
        choice.add(reason, **sizes)
    if method == "cas":
        follow_paths, reason = choose_paths(seen, mapped)
        choice.add(reason, geodesic=follow_paths)
        share, reason = choose_share(seen, evidence, mapped)
        if share is not None:
            choice.add(reason, omega=share)
    return choice


def is_learnt(whiten: Any) -> bool:
    """Whether ``whiten`` is a map that was learnt, or is to be, from pairs."""
    kind = whiten.kind if isinstance(whiten, Projection) else whiten
    return kind in LEARNT


def fits(method: str, params: dict[str, Any]) -> bool:
    """Whether the parameters go together; some may be given by a user."""
    try:
        make_method(method, **params)
    except InvalidInputError:
        return False
    return True


def can_be_learnt_from(seen: Look, vectors: Floats) -> bool:
    """Whether a map could be learnt from the collection at all."""
    return seen.rows >= LEARNT_ROWS and not differ_in_length(vectors) and not two_of_a_kind(seen)


def differ_in_length(vectors: Floats) -> bool:
    """Whether vectors have norms of their own, which a projection would not keep."""
    norms = np.linalg.norm(vectors[:: max(1, len(vectors) // 1000)], axis=1)
    return bool(np.ptp(norms) > SAME_NORM * norms.max())


def choose_map(seen: Look, vectors: Floats, mapped: UnderMap) -> tuple[str | float | None, str]:
    """The projection that suits the rows, or None, and why."""
    if differ_in_length(vectors):
        return None, "Vectors differ in length, which a projection would not keep."
    if two_of_a_kind(seen):
        return None, f"{_couples(seen)}, and two rows teach nothing about a third."
    if seen.rows < LEARNT_ROWS:
        too_little = f"{seen.rows:,} rows are too few to learn a projection from"
    else:
        agree = (
            "Under a projection learnt from this collection, neighbours confirm each other "
            f"{mapped.gain:.2f} times as often"
        )
        if mapped.gain > GAIN:
            return "views", (
                f"{agree}: it has found what groups differ in. Half-whitened vectors stand beside "
                "it."
            )
        too_little = f"{agree}, which is little (below {GAIN})"
    if many_hubs(seen):
        return 0.0, (f"{too_little}. But {_hubs(seen)}: the mean of all rows is taken out.")
    if seen.rows >= LEARNT_ROWS and not on_surfaces(seen):
        return 0.0, (
            f"{too_little}. {_dimensions(seen)}: the mean of all rows is taken out, which says "
            "nothing of any group."
        )
    return None, f"{too_little}: vectors are taken as they are."


def choose_size(seen: Look, mapped: UnderMap, *, learnt: bool) -> tuple[str, str]:
    """The name of sizes in ``SIZES``, and why; learnt : whether the rows get a learnt map."""
    together = seen.together
    mutual = seen.mutual
    if learnt:
        if mapped.lasting >= LASTING and seen.rows >= VAST_ROWS:
            return "vast", (
                f"Under the projection, a row shares {mapped.lasting:.2f} times as much of its "
                f"{VAST} nearest with its {VAST}th neighbour as of its {FAR} nearest with its "
                f"{FAR}th: groups have hundreds of rows."
            )
        if on_surfaces(seen):
            return "surface", (
                "A learnt projection lets rows of one kind come near; along surfaces a row is sure "
                "of the next ones only."
            )
        return "learnt", (
            "A learnt projection lets rows of one kind come near; a mean over more rows takes out "
            "the noise that whitening lets in."
        )
    if small_groups(seen):
        return "few", (
            f"{mutual[FEW]:.0%} of the rows are among the {FEW} nearest of their {FEW}rd "
            f"neighbour, but only {mutual[NEAR]:.0%} among the {NEAR} nearest of their {NEAR}th: "
            "groups have few rows."
        )
    if FAR not in together or seen.rows < LEARNT_ROWS:
        return "usual", f"There are only {seen.rows:,} rows, so that neighbourhoods stay small."
    shares = (
        f"A row shares {together[NEAR]:.0%} of its {NEAR} nearest with its {NEAR}th neighbour, and "
        f"{together[FAR]:.0%} of its {FAR} nearest with its {FAR}th"
    )
    if together[FAR] > LARGE * together[NEAR]:
        return "large", f"{shares}: groups are large."
    return "usual", f"{shares}: groups end before."


def choose_paths(seen: Look, mapped: UnderMap) -> tuple[bool, str]:
    """Whether to follow shortest paths, and why."""
    if queries_are_strangers(mapped):
        return False, (f"{_strangers(mapped)}: paths through the gallery would begin anywhere.")
    if seen.rows >= LEARNT_ROWS:
        if on_surfaces(seen):
            return True, f"{_dimensions(seen)}: they lie along surfaces, which paths can follow."
        return False, f"{_dimensions(seen)}: they lie on no surface that paths could follow."
    if many_hubs(seen):
        return False, f"Paths would lead astray: {_hubs(seen)}."
    return True, (
        "Paths from neighbour to neighbour find rows that one step does not reach; in small "
        "collections they gain more often than they lose."
    )


def choose_share(seen: Look, evidence: Evidence, mapped: UnderMap) -> tuple[float | None, str]:
    """The share of the original distance, or None for the usual one, and why."""
    if two_of_a_kind(seen):
        return ALMOST_ALL, f"{_couples(seen)}, so that nobody is there to confirm them."
    if queries_are_strangers(mapped):
        return STRANGERS_SHARE, (
            f"{_strangers(mapped)}, and the original distance keeps a larger share."
        )
    if seen.rows >= LEARNT_ROWS:
        return None, ""
    for least, share in SHARES:
        if evidence.agreed < least:
            return share, (
                "What rankings by two halves of the features agree on gains "
                f"{100 * evidence.agreed:.1f} points of average precision by re-ranking, which is "
                "little: the original distance keeps a larger share."
            )
    return None, ""


def queries_are_strangers(mapped: UnderMap) -> bool:
    """Whether queries are of another kind than the gallery, as questions are beside answers."""
    return mapped.confirmed < CONFIRMED


def small_groups(seen: Look) -> bool:
    """Whether rows lie in groups of a few: the first neighbours are mutual, later ones not."""
    return NEAR in seen.mutual and seen.mutual[FEW] - seen.mutual[NEAR] > SMALL


def two_of_a_kind(seen: Look) -> bool:
    """Whether rows come in couples: the first neighbour is mutual, and later ones are not."""
    first = seen.mutual[FIRST]
    return first > COUPLES and first > STRANGERS * seen.mutual[FEW]


def on_surfaces(seen: Look) -> bool:
    """Whether rows fill no more dimensions farther away than near a row."""
    return seen.wide_dimension < SURFACES * seen.near_dimension


def many_hubs(seen: Look) -> bool:
    """Whether some rows are in very many lists because all rows have something in common."""
    return seen.hubness > HUBS and seen.common > COMMON


def _dimensions(seen: Look) -> str:
    return (
        f"Rows fill {seen.near_dimension:.0f} dimensions near a row and "
        f"{seen.wide_dimension:.0f} farther away"
    )


def _strangers(mapped: UnderMap) -> str:
    return (
        f"What queries find confirms itself {mapped.confirmed:.2f} times as often as what rows of "
        "the gallery find: queries are of another kind"
    )


def _hubs(seen: Look) -> str:
    return (
        f"{seen.common:.0%} of the similarity of neighbours is common to all rows, and some rows "
        f"crowd the lists of others (hubness {seen.hubness:.1f})"
    )


def _couples(seen: Look) -> str:
    return (
        f"{seen.mutual[FIRST]:.0%} of the rows are the nearest of their nearest, but only "
        f"{seen.mutual[FEW]:.0%} among the {FEW} nearest of their {FEW}rd: rows come in couples"
    )
