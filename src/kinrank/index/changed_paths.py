"""The graph of shortest paths after a change: edges between rows that stay as they are, stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinrank.graph.matrix import take
from kinrank.index.build import sorted_edges
from kinrank.index.patch import Change, Mask, moved_rows, put, reached
from kinrank.parallel import Runner
from kinrank.stages.diverge import Divergence
from kinrank.types import Ints, SparseRows


def changed_paths(
    old: SparseRows, change: Change, affected: Mask, near: Ints,
    divergence: Callable[[Ints], Divergence], run: Runner,
) -> SparseRows:  # fmt: skip
    """The edges of all rows, shortest first.

    affected : (n,) rows with another row of F', or others among their nearest, and new ones
    near : (n, k) the nearest of every row, -1 for none
    divergence : of F', of which some rows are wanted
    """
    base, n = moved_rows(old, change)[0], len(near)
    owners, places = np.nonzero((affected[near] | affected[:, None]) & (near >= 0))
    others = near[owners, places]
    pattern = SparseRows.of_entries(owners, others, np.ones(len(owners), np.float32), n)
    wanted = np.unique(np.concatenate([owners, others])).astype(np.int32)
    fresh = divergence(wanted).pairs(pattern, run)
    rows = np.flatnonzero(affected | reached(affected, base) | (fresh.lengths > 0)).astype(np.int32)
    part = _joined(take(base, rows), affected, affected[rows], take(fresh, rows))
    return put(base, rows, sorted_edges(part, run))


def _joined(base: SparseRows, affected: Mask, whole: Mask, fresh: SparseRows) -> SparseRows:
    """Rows with the old edges that stay, and behind them those that were made.

    whole : of each row, whether none of its old ones stays
    """
    stays = ~(affected[base.indices] | whole[base.owners])
    owners = np.concatenate([base.owners[stays], fresh.owners])
    order = np.argsort(owners, kind="stable")
    ids = np.concatenate([base.indices[stays], fresh.indices])[order]
    data = np.concatenate([base.values[stays], fresh.values])[order]
    indptr = np.searchsorted(owners[order], np.arange(len(base) + 1))
    return SparseRows(indptr, ids, data, base.n_columns)
