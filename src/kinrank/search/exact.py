"""Exact search by blockwise products: of every row among all rows, or of queries in a gallery.

Time O(n_queries n_gallery d), memory O(n_queries k) beside one tile of products. Many queries are
searched in tiles of products, few of them by all their values; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kinrank import progress
from kinrank.kernels.lanes import LANES
from kinrank.kernels.scan import search_rows
from kinrank.kernels.search import dense_values, merge
from kinrank.ordering import ascending
from kinrank.parallel import Out, Runner
from kinrank.search.stored import Stored, for_kernels, rows_between
from kinrank.search.tiles import BLOCK, band_rows, search_pairs, search_tiles, squared_norms
from kinrank.types import Floats, Ints, Longs, Neighbors

Measure = Literal["squared", "inner"]
_CELLS = 1 << 22  # of a dense block
_FEW = 12  # queries below which to read the gallery for each is quicker than products


def exact_neighbors(vectors: Stored, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, the row itself first and counted; 1 <= k <= n."""
    return ExactSearch(vectors, run).neighbors(k)


@dataclass(frozen=True, eq=False)
class ExactSearch:
    """All rows are compared.

    block : how many rows at most are searched together, of which the more the fewer products are
        computed twice; None is what is quickest
    """

    vectors: Stored
    run: Runner
    block: int | None = None

    def search(self, queries: Stored, k: int) -> Neighbors:
        """See Searcher."""
        return exact_search(queries, self.vectors, k, self.run)

    def neighbors(self, k: int) -> Neighbors:
        """See RowSearcher."""
        return self.neighbors_and_more(k, 0, k)[0]

    def neighbors_and_more(self, k: int, n_first: int, first_k: int) -> tuple[Neighbors, Neighbors]:
        """See RowSearcher."""
        n = len(self.vectors)
        norms = squared_norms(self.vectors)
        with progress.stage("neighbours", n):
            if first_k == k:
                neighbors = self.search_range(norms, 0, n, k)
                return neighbors, neighbors[:n_first]
            if n_first < _FEW:
                longer_lists = _search_few(self.vectors, n_first, first_k)
            else:
                longer_lists = self.search_range(norms, 0, n_first, first_k)
            others = self.search_range(norms, n_first, n, k)
            return stacked(longer_lists, others, self.run), longer_lists

    def search_range(self, norms: Floats, low: int, high: int, k: int) -> Neighbors:
        """The ``k`` nearest rows of rows low to high; norms : ``squared_norms`` of all rows."""
        blocks = self.run
        threads = 1
        if blocks.workers is None:  # one block at a time, which uses all threads
            together = band_rows(k, len(self.vectors))
            blocks = blocks.cut(together if self.block is None else min(self.block, together), 1)
            threads = self.run.threads
        args = (self.vectors, low, norms, Runner(threads))
        outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
        return Neighbors(*blocks.fill("neighbours", search_pairs, args, high - low, *outs))


def _search_few(vectors: Stored, count: int, k: int) -> Neighbors:
    """The ``k`` nearest rows of the first ``count``, by all their distances."""
    distances = dense_search(vectors[:count], vectors)
    farthest = distances.max(axis=1, initial=0)
    np.fill_diagonal(distances, -1)  # before all others, even those that equal it
    order = np.array([ascending(row, k) for row in distances], np.int32).reshape(count, k)
    nearest = np.take_along_axis(distances, order, axis=1)
    return Neighbors(order, np.maximum(nearest, 0), farthest)


def stacked(longer_lists: Neighbors, others: Neighbors, run: Runner) -> Neighbors:
    """One Neighbors: ``longer_lists``, of the first rows, cut to others.k, then ``others``."""
    if len(longer_lists) == 0:
        return others
    n = len(longer_lists) + len(others)
    outs = (Out(np.int32, others.k), Out(np.float32, others.k), Out(np.float32))
    return Neighbors(*run.fill("neighbours", _stack_block, (longer_lists, others), n, *outs))


def _stack_block(
    low: int,
    high: int,
    longer_lists: Neighbors,
    others: Neighbors,
    indices: Ints,
    distances: Floats,
    farthest: Floats,
) -> None:
    """Rows [low, high) of ``stacked``, copied from ``longer_lists`` or from ``others``.

    longer_lists : of the first rows, cut to k here; others : of the rows behind them
    indices, distances, farthest : (n, k), (n, k), (n,), of which these rows are written
    """
    n_first = len(longer_lists)
    k = indices.shape[1]
    if low < n_first:
        early = slice(low, min(high, n_first))
        indices[early] = longer_lists.indices[early, :k]
        distances[early] = longer_lists.distances[early, :k]
        farthest[early] = longer_lists.farthest[early]
    if high > n_first:
        late = slice(max(low, n_first), high)
        source = slice(late.start - n_first, late.stop - n_first)
        indices[late] = others.indices[source]
        distances[late] = others.distances[source]
        farthest[late] = others.farthest[source]


def exact_search(
    queries: Stored,
    gallery: Stored,
    k: int,
    run: Runner,
    measure: Measure = "squared",
    own_rows: Ints | None = None,
    numbers: Ints | None = None,
) -> Neighbors:
    """The ``k`` nearest gallery rows of each query, 1 <= k <= len(gallery).

    measure : "inner" gives minus the inner products in place of squared distances
    own_rows : the row that each query is, which is left out; there may then be one fewer
    numbers : (n,) int32, a permutation, the number that stands for each gallery row in results, in
        ties and in ``own_rows``; None where that is its position
    """
    if own_rows is not None:
        more = exact_search(
            queries, gallery, min(k + 1, len(gallery)), run, measure, numbers=numbers
        )
        return without_own_rows(more, own_rows, k)
    n = len(queries)
    inner = measure == "inner"
    numbers = np.empty(0, np.int32) if numbers is None else numbers
    indices = np.empty((n, k), np.int32)
    values = np.empty((n, k), np.float32)
    if 4 * k > len(gallery):
        args = (queries, gallery, measure, np.argsort(numbers), indices, values)
        dense_blocks(run, n, len(gallery)).map("search", _sort_all, n, *args)
    elif n < _FEW:
        rows = (queries[:], for_kernels(gallery), numbers, inner)
        Runner(run.threads, 1).map("search", search_rows, n, *rows, indices, values)
    elif run.workers is not None:
        task = (queries, gallery, squared_norms(gallery), numbers, inner, 1)
        in_memory = Runner(run.threads, run.block_size, run.workers)
        outs = (Out(np.int32, k), Out(np.float32, k))
        return Neighbors(*in_memory.fill("search", _search_block, task, n, *outs))
    else:
        whole = (queries, gallery, squared_norms(gallery), numbers, inner, run.threads)
        Runner(1, BLOCK).map("search", _search_block, n, *whole, indices, values)
    return Neighbors(indices, values)


def _search_block(
    low: int,
    high: int,
    queries: Stored,
    gallery: Stored,
    norms: Floats,
    numbers: Ints,
    inner: bool,
    threads: int,
    indices: Ints,
    values: Floats,
) -> None:
    """The lists of queries [low, high), by tiles; arguments as in ``exact_search``."""
    search_tiles(
        rows_between(queries, low, high),
        gallery,
        norms,
        indices[low:high],
        values[low:high],
        threads=threads,
        inner=inner,
        numbers=numbers,
    )


def without_own_rows(neighbors: Neighbors, own_rows: Ints, k: int) -> Neighbors:
    """At most ``k`` rows of each query, the one that it is left out."""
    is_own = neighbors.indices == own_rows[:, None]
    others = np.argsort(is_own, axis=1, kind="stable")
    others = others[:, : min(k, neighbors.indices.shape[1] - 1)]
    indices = np.ascontiguousarray(np.take_along_axis(neighbors.indices, others, axis=1))
    return Neighbors(indices, np.take_along_axis(neighbors.distances, others, axis=1))


def _sort_all(
    low: int,
    high: int,
    queries: Stored,
    gallery: Stored,
    measure: Measure,
    positions: Longs,
    indices: Ints,
    values: Floats,
) -> None:
    """The lists of queries [low, high), in which most rows are, by sorting all values.

    positions : (n,) the position of the gallery row that each number stands for; empty where that
        is the number
    indices, values : (n_queries, k), of which lines [low, high) are written
    """
    k = indices.shape[1]
    distances = dense_search(queries[low:high], gallery, measure)
    for row, row_distances in enumerate(distances, start=low):
        by_number = row_distances[positions] if len(positions) else row_distances
        order = ascending(by_number, k)
        indices[row] = order
        values[row] = by_number[order]


def search_pieces(queries: Floats, pieces: Iterable[Floats], k: int, run: Runner) -> Neighbors:
    """As ``exact_search``, of a gallery that is read a piece at a time; at most all its rows."""
    n = len(queries)
    first = 0
    best = Neighbors(np.empty((n, 0), np.int32), np.empty((n, 0), np.float32))
    for piece in pieces:
        more = exact_search(queries, piece, min(k, len(piece)), run)
        args = (best.indices, best.distances, more.indices + np.int32(first), more.distances)
        first += len(piece)
        length = min(k, first)
        outs = (Out(np.int32, length), Out(np.float32, length))
        best = Neighbors(*Runner(run.threads).fill("search", merge, args, n, *outs))
    return best


def dense_search(queries: Floats, gallery: Stored, measure: Measure = "squared") -> Floats:
    """All values of a few queries, (n_queries, n_gallery); for blocks only."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    dense_values(0, len(queries), queries, for_kernels(gallery), measure == "inner", out)
    return out


def dense_blocks(run: Runner, n_rows: int, n_columns: int, together: int = 1) -> Runner:
    """A runner whose blocks of ``n_columns`` values a row stay near the caches.

    together : how many rows cost the caller no more than one of them; blocks have at least so many
        if there are enough for each thread
    """
    size = max(1, min(_CELLS // n_columns, -(-n_rows // (4 * run.threads))))
    size = max(size, min(together, -(-n_rows // run.threads)))
    # Rounded up to the lanes that kernels work in, where it is more than half of them.
    return Runner(run.threads, -(-size // LANES) * LANES if size > LANES // 2 else size)
