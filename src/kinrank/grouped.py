"""Ranking inside groups: each is a collection of its own, with a graph of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.filters import Filter, empty_ranking, filter_of
from kinrank.types import Ranking
from kinrank.validation import as_labels, as_matrix, check_int, reduce_k

# Ranks some queries over some rows, or over themselves if there are none; the first k; a filter.
Rank = Callable[[Any, Any, int, Filter | None], Ranking]


def rank_groups(
    rank: Rank, queries: Any, gallery: Any, groups: Any, k: int | None, allowed: Any, exclude: Any
) -> Ranking:
    """The rows of a query's group, ranked as if there were no others.

    groups : one value for each query and one for each gallery row; one for each row, where they ask
        each other
    """
    asked = as_matrix("queries" if gallery is not None else "vectors", queries)
    rows = asked if gallery is None else as_matrix("gallery", gallery)
    of_queries, of_rows = _values(groups, len(asked), None if gallery is None else len(rows))
    own = gallery is None
    sizes = np.unique(of_rows, return_counts=True)[1]
    most = int(sizes.max()) - own
    k = most if k is None else reduce_k("k", check_int("k", k, 1), len(rows) - own, "gallery rows")
    filtered = filter_of(len(asked), len(rows), allowed, exclude)
    found = empty_ranking(len(asked), k)
    for value in np.unique(of_queries):
        some, members = np.flatnonzero(of_queries == value), np.flatnonzero(of_rows == value)
        count = min(k, len(members) - own)
        if count < 1:  # nobody to find
            continue
        part = None if filtered is None else filtered.part(some, members, own=own)
        ranked = rank(asked[some], None if own else rows[members], count, part)
        # By the numbers that rows have in the whole.
        found.indices[some, : ranked.k] = np.where(ranked.indices >= 0, members[ranked.indices], -1)
        found.distances[some, : ranked.k] = ranked.distances
    return found


def _values(groups: Any, n_queries: int, n_rows: int | None) -> tuple[npt.NDArray[Any], ...]:
    """The group of each query and of each gallery row."""
    if n_rows is None:
        of = as_labels("groups", groups, n_queries, "rows", "biuUS")
        return of, of
    if not isinstance(groups, (tuple, list)) or len(groups) != 2:
        raise InvalidInputError(
            "`groups` must be two lists, one value for each query and one for each gallery row, "
            f"got {type(groups).__name__}."
        )
    of_queries = as_labels("groups[0]", groups[0], n_queries, "queries", "biuUS")
    of_rows = as_labels("groups[1]", groups[1], n_rows, "gallery rows", "biuUS")
    if _kind(of_queries) != _kind(of_rows):
        raise InvalidInputError(
            f"`groups` must have values of one kind, got {_kind(of_queries)} for queries and "
            f"{_kind(of_rows)} for the gallery."
        )
    return of_queries, of_rows


def _kind(labels: npt.NDArray[Any]) -> str:
    """What labels are; bytes are never equal to text."""
    return {"U": "text", "S": "bytes"}.get(labels.dtype.kind, "whole numbers")
