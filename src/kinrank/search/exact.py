"""Exact search by blockwise products: of every row among all rows, or of queries in a gallery.

Time O(n_queries n_gallery d), memory O(n_queries k) beside one tile of products. Many queries are
searched in tiles of products, few of them by all their values; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from kinrank import progress
from kinrank.kernels.lanes import LANES
from kinrank.kernels.scan import search_rows
from kinrank.kernels.search import dense_values, merge
from kinrank.ordering import ascending
from kinrank.parallel import Array, Out, Runner
from kinrank.search.stored import Stored, for_kernels, rows_between
from kinrank.search.tiles import BLOCK, band_rows, search_pairs, search_tiles, squared_norms
from kinrank.types import Floats, Ints, Longs, Neighbors

Measure = Literal["squared", "inner"]
_CELLS = 1 << 22  # of a dense block
_FEW = 12  # queries below which to read the gallery for each is quicker than products


def exact_neighbors(vectors: Stored, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, the row itself first and counted; 1 <= k <= n."""
    return exact_neighbors_and_more(vectors, k, 0, k, run)[0]


def search_range(
    vectors: Stored,
    norms: Floats,
    low: int,
    high: int,
    k: int,
    run: Runner,
    block: int | None = None,
) -> Neighbors:
    """The ``k`` nearest rows of rows low to high.

    norms : of ``squared_norms``; block : how many rows at most are searched together, of which the
        more the fewer products are computed twice
    """
    # One block at a time, which uses all threads.
    together = band_rows(k, len(vectors))
    alone = run.cut(together if block is None else min(block, together), 1)
    outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
    args = (vectors, low, norms, Runner(run.threads))
    return Neighbors(*alone.fill("neighbours", _search_rows, args, high - low, *outs))


def exact_neighbors_and_more(
    vectors: Stored,
    k: int,
    n_first: int,
    first_k: int,
    run: Any,
    search: Callable[..., Neighbors] = search_range,
) -> tuple[Neighbors, Neighbors]:
    """As ``exact_neighbors``, and lists of ``first_k`` >= k for the first ``n_first`` rows."""
    n = len(vectors)
    norms = squared_norms(vectors)
    with progress.stage("neighbours", n):
        if first_k == k:
            every = search(vectors, norms, 0, n, k, run)
            return every, every[:n_first]
        if n_first < _FEW:
            longer = _search_few(vectors, n_first, first_k)
        else:
            longer = search(vectors, norms, 0, n_first, first_k, run)
        rest = search(vectors, norms, n_first, n, k, run)
        return stacked(longer, rest, run), longer


def _search_few(vectors: Stored, count: int, k: int) -> Neighbors:
    """The ``k`` nearest rows of the first ``count``, by all their distances."""
    every = dense_search(vectors[:count], vectors)
    farthest = every.max(axis=1, initial=0)
    np.fill_diagonal(every, -1)  # before all others, whatever equals it
    order = np.array([ascending(row, k) for row in every], np.int32).reshape(count, k)
    return Neighbors(order, np.maximum(np.take_along_axis(every, order, axis=1), 0), farthest)


def _search_rows(
    low: int,
    high: int,
    vectors: Stored,
    start: int,
    norms: Floats,
    run: Runner,
    indices: Ints,
    values: Floats,
    farthest: Floats,
) -> None:
    """Lists of rows low to high of those from number ``start`` on."""
    search_pairs(
        vectors,
        norms,
        start + low,
        indices[low:high],
        values[low:high],
        farthest[low:high],
        run.threads,
    )


def _search_block(
    low: int,
    high: int,
    queries: Stored,
    gallery: Stored,
    norms: Floats,
    numbers: Ints,
    inner: bool,
    run: Runner,
    indices: Ints,
    values: Floats,
) -> None:
    """Queries in the gallery."""
    rows = rows_between(queries, low, high)
    search_tiles(
        rows,
        gallery,
        norms,
        indices[low:high],
        values[low:high],
        threads=run.threads,
        inner=inner,
        numbers=numbers,
    )


def stacked(longer: Neighbors, rest: Neighbors, run: Runner) -> Neighbors:
    """Lists of the first rows, cut to the length of the others, above those of the others."""
    if len(longer) == 0:
        return rest
    n = len(longer) + len(rest)
    return Neighbors(
        *run.fill(
            "neighbours",
            _stack_block,
            (longer, rest),
            n,
            Out(np.int32, rest.k),
            Out(np.float32, rest.k),
            Out(np.float32),
        )
    )


def _stack_block(low: int, high: int, longer: Neighbors, rest: Neighbors, *outs: Array) -> None:
    first = len(longer)
    early = slice(low, min(high, first))
    late = slice(max(low, first), high)
    moved = slice(late.start - first, max(late.stop - first, 0))
    for out, name in zip(outs, ("indices", "distances", "farthest"), strict=True):
        width = () if out.ndim == 1 else (slice(out.shape[1]),)
        if early.start < early.stop:
            out[early] = getattr(longer, name)[(early, *width)]
        if late.start < late.stop:
            out[late] = getattr(rest, name)[moved]


def exact_search(
    queries: Stored,
    gallery: Stored,
    k: int,
    run: Runner,
    measure: Measure = "squared",
    own: Ints | None = None,
    numbers: Ints | None = None,
) -> Neighbors:
    """The ``k`` nearest gallery rows of each query, 1 <= k <= len(gallery).

    measure : "inner" gives minus the inner products in place of squared distances
    own : the row that each query is, which is left out; there may then be one fewer
    numbers : (n,) what gallery rows go by, a permutation: ties go to the lower, the result and
        ``own`` tell it; None where that is their position
    """
    if own is not None:
        more = exact_search(
            queries, gallery, min(k + 1, len(gallery)), run, measure, numbers=numbers
        )
        return without_own(more, own, k)
    n = len(queries)
    inner = measure == "inner"
    numbers = np.empty(0, np.int32) if numbers is None else numbers
    indices = np.empty((n, k), np.int32)
    values = np.empty((n, k), np.float32)
    if 4 * k > len(gallery):
        positions = np.argsort(numbers)
        few(run, n, len(gallery)).map(
            "search",
            lambda low, high: _search_all(
                low, high, queries, gallery, measure, positions, indices, values
            ),
            n,
        )
    elif n < _FEW:
        vectors = queries[:]
        rows = for_kernels(gallery)
        Runner(run.threads, 1).map(
            "search",
            lambda low, high: search_rows(
                low, high, vectors, rows, numbers, inner, indices, values
            ),
            n,
        )
    else:
        norms = squared_norms(gallery)
        Runner(1, BLOCK).map(
            "search",
            lambda low, high: _search_block(
                low, high, queries, gallery, norms, numbers, inner, run, indices, values
            ),
            n,
        )
    return Neighbors(indices, values)


def without_own(found: Neighbors, own: Ints, k: int) -> Neighbors:
    """At most ``k`` rows of each query, the one that it is left out."""
    others = np.argsort(found.indices == own[:, None], axis=1, kind="stable")
    others = others[:, : min(k, found.indices.shape[1] - 1)]
    indices = np.ascontiguousarray(np.take_along_axis(found.indices, others, axis=1))
    return Neighbors(indices, np.take_along_axis(found.distances, others, axis=1))


def _search_all(
    low: int,
    high: int,
    queries: Stored,
    gallery: Stored,
    measure: Measure,
    positions: Longs,
    indices: Ints,
    values: Floats,
) -> None:
    """The lists of queries low to high, in which most rows are.

    positions : (n,) the gallery row of each number, or nothing where that is the number
    """
    k = indices.shape[1]
    for row, found in enumerate(dense_search(queries[low:high], gallery, measure), start=low):
        every = found[positions] if len(positions) else found
        indices[row] = order = ascending(every, k)
        values[row] = every[order]


def search_pieces(queries: Floats, pieces: Iterable[Floats], k: int, run: Runner) -> Neighbors:
    """As ``exact_search``, of a gallery that is read a piece at a time; at most all its rows."""
    n = len(queries)
    first = 0
    best = Neighbors(np.empty((n, 0), np.int32), np.empty((n, 0), np.float32))
    for piece in pieces:
        more = exact_search(queries, piece, min(k, len(piece)), run)
        args = (best.indices, best.distances, more.indices + np.int32(first), more.distances)
        first += len(piece)
        best = Neighbors(
            *Runner(run.threads).fill(
                "search",
                merge,
                args,
                n,
                Out(np.int32, min(k, first)),
                Out(np.float32, min(k, first)),
            )
        )
    return best


def dense_search(queries: Floats, gallery: Stored, measure: Measure = "squared") -> Floats:
    """All values of a few queries, (n_queries, n_gallery); for blocks only."""
    out = np.empty((len(queries), len(gallery)), np.float32)
    dense_values(0, len(queries), queries, for_kernels(gallery), measure == "inner", out)
    return out


def few(run: Runner, n_rows: int, n_columns: int, together: int = 1) -> Runner:
    """A runner whose dense blocks of ``n_columns`` stay near the caches.

    together : rows that cost no more than one of them
    """
    size = max(1, min(_CELLS // n_columns, -(-n_rows // (4 * run.threads))))
    size = max(size, min(together, -(-n_rows // run.threads)))
    # A multiple of the lanes that kernels work in, as long as every thread has work.
    return Runner(run.threads, -(-size // LANES) * LANES if size > LANES // 2 else size)
