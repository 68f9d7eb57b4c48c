"""The options of CAS: their ranges, the two variants, and sizes that follow from k1 and k2."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.options import check_options
from kinrank.stages.spectrum import extreme_value
from kinrank.types import SparseRows
from kinrank.validation import LARGEST, MOST_ROWS, check_choice

# What the authors' code computes and what the paper's text says.
_DIFFER: dict[str, tuple[Any, Any]] = {
    "beta": (0.0, 1e-3),
    "clusters": ("expanded", "expanded"),
    "self_counts": (False, True),
    "solver": ("iterate", "local"),
    "steps": (10, 10),
    "start": ("graph", "regularizer"),
    "guide": ("walk", "similarity"),
    "propagation": ("square", "transpose"),
    "fusion": ("squared", "euclidean"),
}
VARIANTS = ("authors", "paper")


def filled_options(cls: type, passed: dict[str, Any]) -> dict[str, Any]:
    """All options, with values for those that were not passed; an error about the first bad one."""
    column = VARIANTS.index(check_choice("variant", passed["variant"], VARIANTS))
    values = passed | {
        name: choices[column] for name, choices in _DIFFER.items() if passed[name] is None
    }
    values = check_options(cls, values)
    extra = 0 if values["self_counts"] else 1
    if values["k2"] > values["k1"] + extra:
        raise InvalidInputError(
            f"`k2` must be at most k1 (the neighbour set lies in the cluster), "
            f"got k2={values['k2']} and k1={values['k1']}."
        )
    if isinstance(values["regularizer"], str):
        check_choice("regularizer", values["regularizer"], ("identity", "graph"))
    return values | _derived_sizes(values)


def _derived_sizes(values: dict[str, Any]) -> dict[str, int]:
    """Sizes that were left out: straight lines through the authors' two settings.

    Those are k1=20: walk 25, kept 25 and k1=60: walk 70, kept 80; enhancement is k2 + 1 in both
    and the graph has the k2 - 1 nearest. The paper has k2 for the enhancement.
    """
    k1 = values["k1"]
    k2 = values["k2"]
    sizes = {
        "walk_k": max(k1 + 1, round(1.125 * k1 + 2.5)),
        "enhance_k": k2 if values["variant"] == "paper" else k2 + 1,
        "keep": max(k1, round(1.375 * k1 - 2.5)),
        "graph_k": max(k2 - 1, 1),
    }
    return {name: min(size, MOST_ROWS) for name, size in sizes.items() if values[name] is None}


def check_regularizer(regularizer: Any, n: int) -> str | SparseRows:
    """E as a name or as sparse rows; symmetric, non-negative, positive semi-definite."""
    if isinstance(regularizer, str):
        return regularizer
    shape = getattr(regularizer, "shape", None)
    if not hasattr(regularizer, "tocsr") or shape != (n, n):  # as scipy's have it
        raise InvalidInputError(
            f"`regularizer` must be 'identity', 'graph' or a sparse matrix of shape ({n}, {n}), "
            f"one row per query and gallery row, got {type(regularizer).__name__} {shape or ''}."
        )
    if regularizer.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"`regularizer` must hold real numbers, got dtype {regularizer.dtype}."
        )
    e = regularizer.tocsr().astype(np.float64)
    if not np.isfinite(e.data).all() or (e.data < 0).any():
        raise InvalidInputError("`regularizer` must be finite and non-negative, got other entries.")
    largest = float(np.max(e.data, initial=0))
    if not 1 / LARGEST <= largest <= LARGEST:  # in float32 there is room for products then
        raise InvalidInputError(
            f"`regularizer` must have a largest entry between {1 / LARGEST:.2g} and {LARGEST:.2g}, "
            f"got {largest:.2g}."
        )
    if abs(e - e.T).max() > 1e-6 * largest:
        raise InvalidInputError("`regularizer` must be symmetric, got a matrix that is not.")
    if _least_eigenvalue(e) < -1e-6 * largest:
        raise InvalidInputError(
            "`regularizer` must be positive semi-definite, got a negative eigenvalue."
        )
    return SparseRows.from_scipy(e)


def _least_eigenvalue(e: Any) -> float:
    diagonal = e.diagonal()
    if (2 * diagonal >= np.asarray(e.sum(axis=1)).ravel()).all():
        return 0.0  # diagonally dominant
    if e.shape[0] <= 512:
        return float(np.linalg.eigvalsh(e.toarray())[0])
    # A start that is not constant: the least eigenvector may have entries of sum 0.
    start = np.random.default_rng(0).normal(size=e.shape[0])
    return extreme_value(lambda x: e @ x, start, "SA")
