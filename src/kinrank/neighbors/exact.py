"""The exact nearest rows of every row: time O(n^2 d), memory O(n k) beside one tile of products."""

from __future__ import annotations

import numpy as np

from kinrank import progress
from kinrank.neighbors.tiles import BLOCK, search_tiles, squared_norms
from kinrank.parallel import Array, Out, Runner
from kinrank.stored import Stored, rows_between
from kinrank.types import Floats, Ints, Neighbors


def exact_neighbors(vectors: Stored, k: int, run: Runner) -> Neighbors:
    """The ``k`` nearest rows of every row, the row itself first.

    Parameters
    ----------
    vectors : (n, d) float32, finite, or rows kept in float16
    k : length of the lists, the row itself counted; 1 <= k <= n

    Returns
    -------
    Neighbors
    """
    return exact_neighbors_and_more(vectors, k, 0, k, run)[0]


def exact_neighbors_and_more(
    vectors: Stored, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """As ``exact_neighbors``, and lists of ``first_k`` >= k for the first ``n_first`` rows."""
    n = len(vectors)
    norms = squared_norms(vectors)
    with progress.stage("neighbours", n):
        longer = search_range(vectors, norms, 0, n_first, first_k, run)
        rest = search_range(vectors, norms, n_first, n, k, run)
        return stacked(longer, rest, run), longer


def search_range(
    vectors: Stored, norms: Floats, low: int, high: int, k: int, run: Runner
) -> Neighbors:
    """The ``k`` nearest rows of rows low to high; norms : of ``squared_norms``."""
    # One block at a time, whose products and kernels use all threads.
    one = run.cut(BLOCK, 1)
    args = (low, vectors, norms, Runner(run.threads))
    outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
    return Neighbors(*one.fill("neighbours", _search_block, args, high - low, *outs))


def _search_block(
    low: int, high: int, start: int, vectors: Stored, norms: Floats, run: Runner,
    indices: Ints, distances: Floats, farthest: Floats,
) -> None:  # fmt: skip
    part, first = slice(low, high), start + low
    rows, out = rows_between(vectors, first, start + high), (indices[part], distances[part])
    search_tiles(
        rows, vectors, norms, *out, threads=run.threads, first=first, farthest=farthest[part]
    )


def stacked(longer: Neighbors, rest: Neighbors, run: Runner) -> Neighbors:
    """Lists of the first rows, cut to the length of the others, above those of the others."""
    if len(longer) == 0:
        return rest
    n = len(longer) + len(rest)
    outs = (Out(np.int32, rest.k), Out(np.float32, rest.k), Out(np.float32))
    return Neighbors(*run.fill("neighbours", _stack_block, (longer, rest), n, *outs))


def _stack_block(low: int, high: int, longer: Neighbors, rest: Neighbors, *outs: Array) -> None:
    first = len(longer)
    early, late = slice(low, min(high, first)), slice(max(low, first), high)
    moved = slice(late.start - first, max(late.stop - first, 0))
    for out, name in zip(outs, ("indices", "distances", "farthest"), strict=True):
        width = () if out.ndim == 1 else (slice(out.shape[1]),)
        if early.start < early.stop:
            out[early] = getattr(longer, name)[(early, *width)]
        if late.start < late.stop:
            out[late] = getattr(rest, name)[moved]
