"""Several pictures of one thing: one ranking by the mean of their distances.

A row that is not allowed for one of the pictures is no answer to the thing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.filters import empty_ranking
from kinrank.ordering import ascending
from kinrank.types import Floats, Longs, Ranking
from kinrank.validation import as_array

Things: TypeAlias = list[Longs]  # the queries of each, things in the order of their first query


def things_of(of: Any, n_queries: int) -> Things:
    """The queries that show each thing; of : whose picture each query is."""
    array = as_array("of", of)
    if array.shape != (n_queries,) or array.dtype.kind not in "biuU":
        raise InvalidInputError(
            f"`of` must be a whole number or text for each of the {n_queries} queries, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    _, first, codes = np.unique(array, return_index=True, return_inverse=True)
    return [np.flatnonzero(codes == code) for code in np.argsort(first)]


def mean_ranking(whole: Ranking, things: Things, n_gallery: int, k: int) -> Ranking:
    """The first ``k`` rows of each thing by the mean of whole rankings of its pictures."""
    found = empty_ranking(len(things), k)
    for row, queries in enumerate(things):
        values = mean_distances(whole, queries, n_gallery)
        put_nearest(found, row, np.arange(n_gallery), values)
    return found


def mean_distances(whole: Ranking, queries: Longs, n_gallery: int) -> Floats:
    """The mean distance of some queries to every gallery row; infinite where one has it not."""
    total = np.zeros(n_gallery)
    for query in queries:
        distances = np.full(n_gallery, np.inf)
        listed = whole.indices[query] >= 0
        distances[whole.indices[query, listed]] = whole.distances[query, listed]
        total += distances
    return (total / len(queries)).astype(np.float32)


def put_nearest(found: Ranking, row: int, rows: npt.NDArray[Any], values: Floats) -> None:
    """The first of ``rows``, ascending numbers, with finite values into one row of a ranking."""
    order = ascending(values, found.k)
    order = order[np.isfinite(values[order])]
    found.indices[row, : len(order)], found.distances[row, : len(order)] = (
        rows[order],
        values[order],
    )
