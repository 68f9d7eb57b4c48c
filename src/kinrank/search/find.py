"""The nearest rows as the runner wants them: exactly, approximately, or by a way of its own."""

from __future__ import annotations

from typing import Any

from kinrank import progress
from kinrank.parallel import Runner
from kinrank.search.cells import CellSearch, cell_count, measured_recall
from kinrank.search.exact import (
    exact_neighbors_and_more,
    exact_search,
    search_range,
    stacked,
    without_own,
)
from kinrank.search.stored import Stored
from kinrank.search.tiles import squared_norms
from kinrank.types import Ints, Neighbors

FEW = 20_000  # rows up to which an approximate search is not worth its while


def find_neighbors_and_more(
    vectors: Stored, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """The ``k`` nearest rows of every row, itself first, and ``first_k`` >= k of the first rows.

    A runner that has ``neighbors`` is asked for them; otherwise ``run.search`` decides.
    """
    search: Any = getattr(run, "neighbors", None)
    if search is not None:
        lists: tuple[Neighbors, Neighbors] = search(vectors, k, n_first, first_k)
        return lists
    if run.search == "exact" or len(vectors) <= FEW or 4 * k > len(vectors):
        return exact_neighbors_and_more(vectors, k, n_first, first_k, run)
    return approximate_neighbors_and_more(vectors, k, n_first, first_k, run)


def approximate_neighbors_and_more(
    vectors: Stored, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """The same in cells; where the first rows, which are ranked for, are few, these are exact.

    The recall of the other rows is told to ``progress``.
    """
    n = len(vectors)
    cells = CellSearch(vectors, run)
    with progress.stage("neighbours", n):
        if _many(n_first, n, first_k):
            longer = cells.first(n_first, first_k, run)
        else:
            longer = search_range(vectors, squared_norms(vectors), 0, n_first, first_k, run)
        neighbors = stacked(longer, cells.rows(n_first, n, k, run), run)
    progress.tell("recall", measured_recall(vectors, neighbors, run, n_first))
    return neighbors, longer


def find_neighbors(vectors: Stored, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, itself first."""
    return find_neighbors_and_more(vectors, k, 0, k, run)[0]


def find_rows(
    queries: Stored, gallery: Stored, k: int, run: Runner, own: Ints | None = None
) -> Neighbors:
    """The ``k`` nearest gallery rows of each query; own : the row that it is, which is left out.

    Exactly, unless there are so many queries that it pays to prepare an approximate search.
    """
    if own is not None:
        more = find_rows(queries, gallery, min(k + 1, len(gallery)), run)
        return without_own(more, own, k)
    if run.search == "exact" or not _many(len(queries), len(gallery), k):
        return exact_search(queries, gallery, k, run)
    return CellSearch(gallery, run).search(queries, k, run)


def _many(n_queries: int, n: int, k: int) -> bool:
    """Whether so many queries are better searched approximately: to prepare that costs as much."""
    return n > FEW and n_queries > cell_count(n) and 4 * k < n
