"""Ranking inside groups: each group is a collection of its own, with a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.filters import Filter
from kinrank.types import Longs, Ranking
from kinrank.validation import as_labels

Labels = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Group:
    """Queries and gallery rows of one group.

    queries, rows : numbers in the whole; row_filter : which of these rows may be results
    n_results : how many rows a query can find
    """

    queries: Longs
    rows: Longs
    row_filter: Filter | None
    n_results: int

    def put(self, ranked: Ranking, whole: Ranking) -> None:
        """Write the ranking of the group into that of all queries, under their row numbers."""
        indices = np.where(ranked.indices >= 0, self.rows[ranked.indices], -1)
        whole.indices[self.queries, : ranked.k] = indices
        whole.distances[self.queries, : ranked.k] = ranked.distances


def split_groups(
    query_labels: Labels, row_labels: Labels, row_filter: Filter | None, *, among_themselves: bool
) -> Iterator[Group]:
    """The groups that have a query and a row to find.

    among_themselves : the queries are the gallery rows
    """
    for label in np.unique(query_labels):
        queries = np.flatnonzero(query_labels == label)
        rows = np.flatnonzero(row_labels == label)
        n_results = len(rows) - among_themselves
        if n_results < 1:
            continue
        inside = None
        if row_filter is not None:
            inside = row_filter.restricted(queries, rows)
        yield Group(queries, rows, inside, n_results)


def group_labels(groups: Any, n_queries: int, n_rows: int | None) -> tuple[Labels, Labels]:
    """The group of each query and of each gallery row, checked.

    n_rows : None where the queries are the gallery; ``groups`` is then one list
    """
    if n_rows is None:
        labels = as_labels("groups", groups, n_queries, "rows", "biuUS")
        return labels, labels
    if not isinstance(groups, (tuple, list)) or len(groups) != 2:
        raise InvalidInputError(
            "`groups` must be two lists, one value for each query and one for each gallery row, "
            f"got {type(groups).__name__}."
        )
    query_labels = as_labels("groups[0]", groups[0], n_queries, "queries", "biuUS")
    row_labels = as_labels("groups[1]", groups[1], n_rows, "gallery rows", "biuUS")
    if _kind(query_labels) != _kind(row_labels):
        raise InvalidInputError(
            f"`groups` must have values of one kind, got {_kind(query_labels)} for queries and "
            f"{_kind(row_labels)} for the gallery."
        )
    return query_labels, row_labels


def largest_group(row_labels: Labels, *, among_themselves: bool) -> int:
    """The most rows that any query can find."""
    sizes = np.unique(row_labels, return_counts=True)[1]
    return int(sizes.max()) - among_themselves


def _kind(labels: Labels) -> str:
    """What labels are; bytes are never equal to text."""
    return {"U": "text", "S": "bytes"}.get(labels.dtype.kind, "whole numbers")
