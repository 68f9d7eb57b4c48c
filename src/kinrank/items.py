"""Several pictures of one item: one ranking for the item, by the mean distance of its pictures.

A row that is not allowed for one of the pictures is no result of the item.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.filters import empty_ranking
from kinrank.types import Floats, Longs, Ranking
from kinrank.validation import as_labels

# The queries that are pictures of each item; items in the order of their first picture.
Pictures: TypeAlias = list[Longs]


def pictures_of_items(items: Any, n_queries: int) -> Pictures:
    """The pictures of each item; items : which item each query is a picture of."""
    labels = as_labels("items", items, n_queries, "queries")
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    return [np.flatnonzero(codes == code) for code in np.argsort(first)]


def mean_ranking(whole: Ranking, pictures: Pictures, n_gallery: int, k: int) -> Ranking:
    """The first ``k`` rows of each item; whole : whole rankings of all pictures."""
    ranking = empty_ranking(len(pictures), k)
    for item, queries in enumerate(pictures):
        total = np.zeros(n_gallery)
        for query in queries:
            distances = np.full(n_gallery, np.inf)  # of rows that are not listed
            is_listed = whole.indices[query] >= 0
            distances[whole.indices[query, is_listed]] = whole.distances[query, is_listed]
            total += distances
        means = (total / len(queries)).astype(np.float32)
        put_nearest(ranking, item, np.arange(n_gallery), means)
    return ranking


def put_nearest(ranking: Ranking, at: int, rows: npt.NDArray[Any], distances: Floats) -> None:
    """Write the nearest of ``rows``, ascending numbers, into line ``at`` of a ranking.

    Rows at infinity are left out.
    """
    from kinrank.ordering import ascending  # with numba, which `import kinrank` leaves out

    order = ascending(distances, ranking.k)
    order = order[np.isfinite(distances[order])]
    ranking.indices[at, : len(order)] = rows[order]
    ranking.distances[at, : len(order)] = distances[order]
