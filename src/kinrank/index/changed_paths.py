"""The graph of shortest paths after a change: edges between rows that stay as they are, stay."""

from __future__ import annotations

import numpy as np

from kinrank.index.patch import Change, Mask, moved_rows, put, reached
from kinrank.parallel import Runner
from kinrank.stages.divergence import shortest_edges
from kinrank.stages.sparse import take
from kinrank.types import Ints, SparseRows


def affected_pairs(affected: Mask, near: Ints) -> SparseRows:
    """The pairs of a row and one of its nearest of which one is affected; all values are 1.

    affected : (n,) rows with another row of F', or others among their nearest, and new ones
    near : (n, k) the nearest of every row, -1 for none
    """
    owners, columns = np.nonzero((affected[near] | affected[:, None]) & (near >= 0))
    values = np.ones(len(owners), np.float32)
    return SparseRows.of_entries(owners, near[owners, columns], values, len(near))


def rows_of_pairs(pairs: SparseRows) -> Ints:
    """All rows that are in a pair, ascending."""
    return np.unique(np.concatenate([pairs.owners, pairs.indices])).astype(np.int32)


def changed_paths(
    old: SparseRows, change: Change, affected: Mask, fresh: SparseRows, run: Runner
) -> SparseRows:
    """The edges of all rows, shortest first.

    affected : (n,) rows of which no old edge stays
    fresh : d' on the pairs of which one is affected
    """
    moved, _ = moved_rows(old, change)
    is_changed = affected | reached(affected, moved) | (fresh.lengths > 0)
    rows = np.flatnonzero(is_changed).astype(np.int32)
    stay = _staying_edges(take(moved, rows), affected, affected[rows])
    return put(moved, rows, shortest_edges(stay, take(fresh, rows), run))


def _staying_edges(edges: SparseRows, affected: Mask, is_affected: Mask) -> SparseRows:
    """Without edges to affected rows, or from them; is_affected : of each row of ``edges``."""
    stays = ~(affected[edges.indices] | is_affected[edges.owners])
    indptr = np.concatenate([[0], np.cumsum(stays)])[edges.indptr]
    return SparseRows(indptr, edges.indices[stays], edges.values[stays], edges.n_columns)
