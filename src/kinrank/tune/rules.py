"""From what a collection looks like to parameters, each with its reason.

Every rule is one threshold in a gap between collections that gain by an option and those that
lose; ``benchmarks/tune.py`` shows both, with thresholds found on other collections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError, shown
from kinrank.parallel import Runner
from kinrank.projection.powers import FLOOR
from kinrank.registry import make_method
from kinrank.search.blas import one_blas_thread
from kinrank.tune.look import FAR, FEW, NEAR, Look, contrast, unit_rows
from kinrank.tune.views import Evidence
from kinrank.types import Floats

HUBS, COMMON = 1.1, 0.1  # from where on what all rows share makes hubs
MANY_HUBS = 1.7  # from where on taking out the mean helps, and paths lead astray through hubs
CLEARER = 1.35  # how much farther neighbours stand out where whitening is worth its noise
WHITENED = 500  # rows that this is seen from
SAME_NORM = 0.01  # how far norms of unit vectors may differ; half precision makes them
LARGE = 0.7  # what is left of ``together`` from NEAR to FAR where groups are large
LARGE_ROWS = 20 * FAR  # with fewer, FAR rows are a large part of all, and means of few stay noisy
HALF = 0.25  # the power of half-whitening
# What rankings by two halves of the features have first must gain as much by re-ranking, or the
# original distance keeps a larger share.
STEPS = ((-0.02, 0.7), (0.02, 0.5))
FEW_ROWS = 1500  # in more, regions are a small part of all, and what they say is too uncertain

# The sizes for neighbourhoods that are small, of the usual size, and large.
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "cas": ({"k1": 10, "k2": 3, "enhance_k": 6}, {"k1": 20}, {"k1": 40}),
    "kreciprocal": ({"k1": 10, "k2": 3}, {"k1": 20}, {"k1": 40}),
    "alphaqe": ({"kqe": 5}, {"kqe": 5}, {"kqe": 20}),
    "rdp": ({"k1": 10}, {"k1": 10}, {"k1": 10}),
    "ecn": ({"k1": 10}, {"k1": 20}, {"k1": 40}),
    "gnn": ({"k1": 20}, {"k1": 20}, {"k1": 20}),
}
_NOISE = "Whitening lets noise of weak directions in; a mean over more rows takes it out."


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
    method: str, fixed: dict[str, Any], seen: Look, evidence: Evidence, vectors: Floats,
    random: np.random.Generator, run: Runner,
) -> Choice:  # fmt: skip
    """All rules in their order; vectors : (n, d) of the collection."""
    choice = Choice(dict(fixed))
    if "whiten" not in fixed:
        power, reason = whitening_power(seen, vectors, random, run)
        choice.add(reason, whiten=power)
    size, reason = neighborhood(seen)
    if method == "cas" and choice.params["whiten"] and size > 0:
        choice.add(_NOISE, k2=4, enhance_k=8)
    for sizes in SIZES[method][size:]:
        if fits(method, {**sizes, **choice.params}):
            choice.add(reason, **sizes)
            break
    if method == "cas":
        _options_of_cas(choice, seen, evidence)
    return choice


def fits(method: str, params: dict[str, Any]) -> bool:
    """Whether the parameters go together; some may be given by a user."""
    try:
        make_method(method, **params)
    except InvalidInputError:
        return False
    return True


def whitening_power(
    seen: Look, vectors: Floats, random: np.random.Generator, run: Runner
) -> tuple[float | None, str]:
    """The power of the whitening that suits the rows, or None."""
    if seen.hubness <= HUBS or seen.common <= COMMON:
        return None, (
            f"No rows crowd the lists of all others (hubness {seen.hubness:.1f}), or they have "
            f"little in common ({seen.common:.0%} of the similarity of neighbours): vectors are "
            "taken as they are."
        )
    norms = np.linalg.norm(vectors[:: max(1, len(vectors) // 1000)], axis=1)
    if np.ptp(norms) > SAME_NORM * norms.max():
        return None, "Vectors differ in length, which whitening would not keep."
    share = (
        f"{seen.common:.0%} of the similarity of neighbours is common to all rows, and some rows "
        f"crowd the lists of others (hubness {seen.hubness:.1f})"
    )
    clearer = contrast_gain(vectors, random, run) if seen.rows >= LARGE_ROWS else 0.0
    if clearer > CLEARER:
        return HALF, (
            f"{share}: half-whitening takes this out, and neighbours stand out {clearer:.1f} "
            "times as far from chance."
        )
    if seen.hubness > MANY_HUBS:
        return 0.0, f"{share}: the mean of all rows is taken out."
    return None, f"{share}, but not much: vectors are taken as they are."


def contrast_gain(vectors: Floats, random: np.random.Generator, run: Runner) -> float:
    """How much larger ``Look.contrast`` of some rows is when they are half-whitened."""
    rows = vectors[np.sort(random.permutation(len(vectors))[:WHITENED])]
    plain = contrast(rows, random, run)
    if plain <= 0:
        return 0.0
    with one_blas_thread(wait=True):  # of so few rows, threads would wait for each other
        whitened = half_whitened(rows)
    return contrast(unit_rows(whitened), random, run) / plain


def half_whitened(rows: Floats) -> Floats:
    """Half-whitened rows but for their lengths, in float32 and on other axes."""
    centred = rows - rows.mean(axis=0)
    if len(rows) >= rows.shape[1]:
        variances, axes = np.linalg.eigh(centred.T @ centred / len(rows))
        turned = centred @ axes
    else:  # the same from the smaller matrix of products
        variances, axes = np.linalg.eigh(centred @ centred.T / len(rows))
        turned = axes * np.sqrt(np.maximum(variances, 0) * len(rows))
    variances = np.maximum(variances, 0)
    return np.asarray(turned * (variances + FLOOR * variances[-1]) ** -HALF, np.float32)


def neighborhood(seen: Look) -> tuple[int, str]:
    """0 for small neighbourhoods, 1, or 2 for large ones."""
    together, mutual = seen.together, seen.mutual
    if seen.small_groups:
        return 0, (
            f"{mutual[FEW]:.0%} of the rows are among the {FEW} nearest of their {FEW}rd "
            f"neighbour, but only {mutual[NEAR]:.0%} among the {NEAR} nearest of their {NEAR}th: "
            "groups have few rows."
        )
    if FAR not in together or seen.rows < LARGE_ROWS:
        return 1, f"There are only {seen.rows:,} rows, so that neighbourhoods stay small."
    shares = (
        f"A row shares {together[NEAR]:.0%} of its {NEAR} nearest with its {NEAR}th neighbour, and "
        f"{together[FAR]:.0%} of its {FAR} nearest with its {FAR}th"
    )
    if together[FAR] > LARGE * together[NEAR]:
        return 2, f"{shares}: groups are large."
    return 1, f"{shares}: groups end before."


def _options_of_cas(choice: Choice, seen: Look, evidence: Evidence) -> None:
    if seen.hubness > MANY_HUBS and seen.common > COMMON and not choice.params["whiten"]:
        choice.add(
            f"Paths would lead through the rows that crowd all lists (hubness {seen.hubness:.1f}).",
            geodesic=False,
        )
    choice.add(
        "Paths from neighbour to neighbour find rows that one step does not reach; they gain in "
        "most collections and lose little in others.",
        geodesic=True,
    )
    share = next((share for least, share in STEPS if evidence.agreed < least), None)
    if share is not None and seen.rows <= FEW_ROWS:
        choice.add(
            "What rankings by two halves of the features agree on gains "
            f"{100 * evidence.agreed:.1f} points of average precision by re-ranking, which is "
            "little: the original distance keeps a larger share.",
            omega=share,
        )
    if not choice.params["geodesic"] and choice.params.get("k1", 0) >= FAR:
        choice.add("Large groups say more than single distances.", omega=0.1)
