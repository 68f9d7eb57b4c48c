"""What is tuned, for each method: one size by a curve, the rest one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinrank.errors import InvalidInputError

SIZES = (5, 8, 12, 20, 30, 45, 60, 90)
# A larger share of the original distance (omega, lambda_value) is not tried: it makes both halves
# alike whether it is right or not.


@dataclass(frozen=True)
class ParamGrid:
    """The parameters of a method that are worth choosing.

    size : the parameter that matters most, a number of neighbours; values : what is tried
    rest : the others and what is tried, each at the chosen size
    quick : what makes trials cheaper and hardly moves a result; not part of the choice
    """

    size: str
    values: tuple[int, ...]
    rest: Mapping[str, tuple[Any, ...]]
    quick: Mapping[str, Any] = field(default_factory=dict)


PARAM_GRIDS = {
    "cas": ParamGrid(
        "k1", SIZES,
        # The first two share all stages with the default before them.
        {
            "geodesic": (False, True), "omega": (0.1, 0.3), "k2": (3, 5, 8),
            "variant": ("authors", "paper"),
        },
        {"tol": 1e-3},
    ),
    "kreciprocal": ParamGrid("k1", SIZES, {"k2": (3, 6, 10), "lambda_value": (0.1, 0.3)}),
    "alphaqe": ParamGrid("kqe", (2, 3, 5, 8, 12, 20, 30, 48), {"alpha": (1.0, 3.0, 5.0)}),
    "rdp": ParamGrid("k1", SIZES, {"sigma": (0.3, 0.5, 1.0)}),
    "ecn": ParamGrid("k1", SIZES, {"t": (1, 3, 5), "q": (4, 8, 12)}),
    "gnn": ParamGrid("k1", SIZES, {"k2": (4, 7, 10)}),
}  # fmt: skip


def param_grid(method: str) -> ParamGrid:
    """What is tuned of ``method``."""
    if method not in PARAM_GRIDS:
        raise InvalidInputError(
            f"`method` must be one that can be tuned ({', '.join(sorted(PARAM_GRIDS))}), "
            f"got {method!r}."
        )
    return PARAM_GRIDS[method]
