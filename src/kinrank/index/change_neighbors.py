"""The neighbour lists of all rows after a change of the gallery: exact, without a whole new search.

Rows that go leave the lists, rows that come enter them where they are near enough. A list that lost
a row is searched again, as nobody knows which row follows its last one.

Lists are (n, K) int32 rows, the row itself first, with squared distances; ``change_rows`` says what
``Change`` and the old and new numbers of rows are. ``run`` says how many threads work, and changes
no result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kinrank.index.change_rows import Change, Mask
from kinrank.kernels import change as kernels
from kinrank.kernels.scan import farthest_of
from kinrank.parallel import Runner
from kinrank.search.exact import exact_search
from kinrank.search.tiles import SLACK
from kinrank.types import Floats, Ints, Neighbors

_TILE = 1 << 24  # products that are in memory at a time


def changed_neighbors(old: Neighbors, vectors: Floats, change: Change, run: Runner) -> Neighbors:
    """The lists of all rows after a change, (n_new, K), and the largest distance of each.

    old, vectors : the lists (n_old, K) and the vectors (n_old, d) before the change
    """
    lists, is_broken = _without_removed(old, vectors, change, run)
    n_kept = change.n_kept
    n = len(change.order)
    if n > n_kept:
        lists = _with_new(lists, change, run)
    rows = np.concatenate([np.flatnonzero(is_broken), np.arange(n_kept, n)]).astype(np.int32)
    if len(rows):
        lists.indices[rows], lists.distances[rows] = _search(change, rows, lists.k, run)
    return lists


def _without_removed(
    old: Neighbors, vectors: Floats, change: Change, run: Runner
) -> tuple[Neighbors, Mask]:
    """The lists of the rows that stay, without those that go.

    old, vectors : the lists and the vectors of all rows before the change

    Returns lists under new numbers, -1 for a row that went, and (n_kept,) which lists are broken
    and have to be searched again.
    """
    kept = change.kept
    removed = change.removed
    indices = change.renumbered(old.indices[kept])
    lists = Neighbors(indices, old.distances[kept].copy(), old.farthest[kept].copy())
    is_broken: Mask = np.any(indices < 0, axis=1)
    if len(removed) == 0:
        return lists, is_broken
    lost_farthest = np.zeros(len(old), np.bool_)
    for block in _product_blocks(vectors, vectors[removed], len(old)):
        _mark_lost_farthest(block, vectors, removed, old.farthest, lost_farthest, run)
    rows = np.flatnonzero(lost_farthest[kept])
    lists.farthest[rows] = _farthest(change.vectors[rows], change.vectors, run)
    return lists, is_broken


def _mark_lost_farthest(
    block: _ProductBlock,
    vectors: Floats,
    removed: Ints,
    farthest: Floats,
    lost_farthest: Mask,
    run: Runner,
) -> None:
    """Mark in ``lost_farthest``, (n_old,), the rows of a block whose farthest row may have gone.

    block : products of old rows with the removed ones
    vectors, farthest : (n_old, d) and (n_old,) of all old rows, their largest squared distances
    removed : the old numbers of the removed rows
    """
    norms = _squared_norms(vectors)
    rounding = _rounding(vectors)
    block.runner(run).map(
        "neighbours",
        lambda low, high: kernels.mark_lost_farthest(
            block.start + low,
            block.start + high,
            block.start,
            block.products,
            norms,
            removed,
            rounding,
            farthest,
            lost_farthest,
        ),
        len(block.products),
    )


def _with_new(lists: Neighbors, change: Change, run: Runner) -> Neighbors:
    """The lists of the rows that stay with new rows in them, (n_new, K).

    lists : of the rows that stay. Those of new rows are left as they are, to be searched; their
    largest distances are there.
    """
    n_kept = change.n_kept
    n = len(change.order)
    vectors = change.vectors
    new_vectors = vectors[n_kept:]
    indices = np.empty((n, lists.k), np.int32)
    distances = np.empty((n, lists.k), np.float32)
    indices[:n_kept] = lists.indices
    distances[:n_kept] = lists.distances
    farthest = np.concatenate([lists.farthest, np.zeros(n - n_kept, np.float32)])
    longer = Neighbors(indices, distances, farthest)
    largest = []  # of each range of rows: for each new row the largest distance, and whose it is
    for block in _product_blocks(vectors, new_vectors, n_kept):
        largest += _admit_new(block, longer, change, run)
    if largest:  # unless no row stays
        largest_squared = np.stack([squared for squared, _ in largest])
        farthest_rows = np.stack([rows for _, rows in largest])
        farthest_row = farthest_rows[largest_squared.argmax(axis=0), np.arange(n - n_kept)]
        difference = new_vectors - vectors[farthest_row]  # products are rounded: compute it again
        farthest[n_kept:] = np.einsum("ij,ij->i", difference, difference)
    farthest[n_kept:] = np.maximum(farthest[n_kept:], _farthest(new_vectors, new_vectors, run))
    return longer


def _admit_new(
    block: _ProductBlock, lists: Neighbors, change: Change, run: Runner
) -> list[tuple[Floats, Ints]]:
    """Let new rows enter the lists of a block of rows that stay, which are changed in place.

    block : products of rows that stay with the new ones; lists : of all rows after the change

    Returns for each range of the block, and each new row, the largest squared distance by products
    and the row at that distance, both (n_added,).
    """
    vectors = change.vectors
    norms = _squared_norms(vectors)
    rounding = _rounding(vectors)
    return block.runner(run).map(
        "neighbours",
        lambda low, high: kernels.admit_rows(
            block.start + low,
            block.start + high,
            block.start,
            change.n_kept,
            block.products,
            vectors,
            norms,
            rounding,
            change.order,
            lists.indices,
            lists.distances,
            lists.farthest,
        ),
        len(block.products),
    )


def _search(change: Change, rows: Ints, k: int, run: Runner) -> tuple[Ints, Floats]:
    """The lists of some rows by a search of all rows: the row itself first, ties by index.

    rows : their new numbers; k : the length of a list, the row itself counted
    Returns new numbers and squared distances, both (len(rows), k).
    """
    others = exact_search(
        change.vectors[rows],
        change.vectors,
        k - 1,
        run,
        own_rows=change.order[rows],
        numbers=change.order,
    )
    to_itself = np.zeros((len(rows), 1), np.float32)
    return (
        np.concatenate([rows[:, None], change.position[others.indices]], axis=1),
        np.concatenate([to_itself, others.distances], axis=1),
    )


def _squared_norms(vectors: Floats) -> Floats:
    """(n,) |x|^2 of each vector."""
    norms: Floats = np.einsum("ij,ij->i", vectors, vectors)
    return norms


def _rounding(vectors: Floats) -> np.float32:
    """How far |x|^2 + |y|^2 - 2 xy may be off as products are rounded, over |x|^2 + |y|^2."""
    return np.float32(SLACK * math.sqrt(vectors.shape[1]))


def _farthest(queries: Floats, vectors: Floats, run: Runner) -> Floats:
    """(n_queries,) the largest squared distance from each query to a vector."""
    farthest = np.empty(len(queries), np.float32)
    run.map("farthest", farthest_of, len(queries), queries, vectors, farthest)
    return farthest


class _ProductBlock(NamedTuple):
    """Dot products of some rows, which follow each other, with other rows.

    start : the number of the first row
    products : (n_rows, n_others) float32
    """

    start: int
    products: Floats

    def runner(self, run: Runner) -> Runner:
        """The same threads, each with one range of the rows of the block."""
        return Runner(run.threads, -(-len(self.products) // run.threads))


def _product_blocks(rows: Floats, others: Floats, n: int) -> Iterator[_ProductBlock]:
    """The products of the first ``n`` rows with others, a block at a time in the same memory."""
    size = max(1, min(n, _TILE // max(1, len(others))))
    tile = np.empty((size, len(others)), np.float32)
    for start in range(0, n, size):
        products = tile[: min(size, n - start)]
        np.dot(rows[start : start + len(products)], others.T, out=products)
        yield _ProductBlock(start, products)
