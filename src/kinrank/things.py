"""Several pictures of one thing: one ranking by the mean of their distances.

A row that is not allowed for one of the pictures is no answer to the thing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.filters import empty_ranking
from kinrank.ordering import ascending
from kinrank.types import Floats, Longs, Ranking
from kinrank.validation import as_labels

Things: TypeAlias = list[Longs]  # the queries of each, things in the order of their first query


def things_of(of: Any, n_queries: int) -> Things:
    """The queries that show each thing; of : whose picture each query is."""
    labels = as_labels("of", of, n_queries, "queries")
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    return [np.flatnonzero(codes == code) for code in np.argsort(first)]


def mean_ranking(whole: Ranking, things: Things, n_gallery: int, k: int) -> Ranking:
    """The first ``k`` rows of each thing by the mean of whole rankings of its pictures."""
    found = empty_ranking(len(things), k)
    for row, queries in enumerate(things):
        total = np.zeros(n_gallery)
        for query in queries:
            distances = np.full(n_gallery, np.inf)  # of rows that are not listed
            listed = whole.indices[query] >= 0
            distances[whole.indices[query, listed]] = whole.distances[query, listed]
            total += distances
        values = (total / len(queries)).astype(np.float32)
        put_nearest(found, row, np.arange(n_gallery), values)
    return found


def put_nearest(found: Ranking, row: int, rows: npt.NDArray[Any], values: Floats) -> None:
    """The first of ``rows``, ascending numbers, with finite values into one row of a ranking."""
    order = ascending(values, found.k)
    order = order[np.isfinite(values[order])]
    found.indices[row, : len(order)] = rows[order]
    found.distances[row, : len(order)] = values[order]
