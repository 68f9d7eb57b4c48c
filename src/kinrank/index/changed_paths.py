"""The graph of shortest paths after a change: edges between rows that stay as they are, stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinrank.index.patch import Change, Mask, moved_rows, put, reached
from kinrank.parallel import Runner
from kinrank.stages.divergence import Divergence, shortest_edges
from kinrank.stages.sparse import take
from kinrank.types import Ints, SparseRows


def changed_paths(
    old: SparseRows,
    change: Change,
    affected: Mask,
    near: Ints,
    divergence: Callable[[Ints], Divergence],
    run: Runner,
) -> SparseRows:
    """The edges of all rows, shortest first.

    affected : (n,) rows with another row of F', or others among their nearest, and new ones
    near : (n, k) the nearest of every row, -1 for none
    divergence : of F', of which some rows are wanted
    """
    base = moved_rows(old, change)[0]
    n = len(near)
    owners, columns = np.nonzero((affected[near] | affected[:, None]) & (near >= 0))
    others = near[owners, columns]
    pattern = SparseRows.of_entries(owners, others, np.ones(len(owners), np.float32), n)
    wanted = np.unique(np.concatenate([owners, others])).astype(np.int32)
    fresh = divergence(wanted).pairs(pattern, run)
    rows = np.flatnonzero(affected | reached(affected, base) | (fresh.lengths > 0)).astype(np.int32)
    stay = _staying(take(base, rows), affected, affected[rows])
    return put(base, rows, shortest_edges(stay, take(fresh, rows), run))


def _staying(base: SparseRows, affected: Mask, whole: Mask) -> SparseRows:
    """The old edges that stay; whole : of each row, whether none does."""
    stays = ~(affected[base.indices] | whole[base.owners])
    indptr = np.concatenate([[0], np.cumsum(stays)])[base.indptr]
    return SparseRows(indptr, base.indices[stays], base.values[stays], base.n_columns)
