"""The nearest rows as the runner wants them: exactly, approximately, or by a way of its own."""

from __future__ import annotations

from typing import Any

from kinrank.neighbors.exact import exact_neighbors_and_more
from kinrank.neighbors.search import Found, Measure, exact_search
from kinrank.parallel import Runner
from kinrank.types import Floats, Neighbors


def find_neighbors_and_more(
    vectors: Floats, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """The ``k`` nearest rows of every row, itself first, and ``first_k`` >= k of the first rows.

    A runner that has ``neighbors`` is asked for them; otherwise ``run.search`` decides.
    """
    own: Any = getattr(run, "neighbors", None)
    if own is not None:
        found: tuple[Neighbors, Neighbors] = own(vectors, k, n_first, first_k)
        return found
    if run.search == "approximate":
        from kinrank.neighbors.approximate import approximate_neighbors_and_more

        return approximate_neighbors_and_more(vectors, k, n_first, first_k, run)
    return exact_neighbors_and_more(vectors, k, n_first, first_k, run)


def find_neighbors(vectors: Floats, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, itself first."""
    return find_neighbors_and_more(vectors, k, 0, k, run)[0]


def find_rows(
    queries: Floats, gallery: Floats, k: int, run: Runner, measure: Measure = "squared"
) -> Found:
    """The ``k`` nearest gallery rows of each query.

    Exactly, unless there are so many queries that it pays to prepare an approximate search.
    """
    if run.search == "approximate" and measure == "squared":
        from kinrank.neighbors.approximate import approximate_search, pays_for

        if pays_for(len(queries), len(gallery), k):
            return approximate_search(queries, gallery, k, run)
    return exact_search(queries, gallery, k, run, measure)
