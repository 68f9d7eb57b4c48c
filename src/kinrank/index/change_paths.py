"""The graph of shortest paths after a change: edges between unaffected rows stay as they are.

The graph (``State.paths``) has the divergence d' on pairs of rows of which one is among the
``geodesic_k`` nearest of the other; the edges of a row ascend. A row is *affected* if its encoding
F' or its nearest rows changed, or if it is new. All masks and row numbers are those after the
change.
"""

from __future__ import annotations

import numpy as np

from kinrank.index.change_rows import Change, Mask, moved_rows, rows_that_hold, with_rows
from kinrank.parallel import Runner
from kinrank.stages.divergence import edges_of_both
from kinrank.stages.sparse import take
from kinrank.types import Ints, SparseRows


def affected_pairs(is_affected: Mask, nearest: Ints) -> SparseRows:
    """The pairs of a row and one of its nearest of which at least one is affected.

    is_affected : (n,)
    nearest : (n, geodesic_k) the nearest of every row, -1 for none

    Returns a pattern (n, n) whose values are all 1.
    """
    in_pair = (is_affected[nearest] | is_affected[:, None]) & (nearest >= 0)
    owners, columns = np.nonzero(in_pair)
    values = np.ones(len(owners), np.float32)
    return SparseRows.of_entries(owners, nearest[owners, columns], values, len(nearest))


def rows_of_pairs(pairs: SparseRows) -> Ints:
    """All rows that are in a pair, ascending."""
    return np.unique(np.concatenate([pairs.owners, pairs.indices])).astype(np.int32)


def changed_paths(
    old_paths: SparseRows, change: Change, is_affected: Mask, new_edges: SparseRows, run: Runner
) -> SparseRows:
    """The graph after a change, (n_new, n_new), the edges of a row ascending.

    old_paths : the graph before the change, (n_old, n_old)
    is_affected : (n_new,) rows of which no old edge stays
    new_edges : d' on ``affected_pairs``, both ways
    """
    moved, _ = moved_rows(old_paths, change)
    is_changed = is_affected | rows_that_hold(is_affected, moved) | (new_edges.lengths > 0)
    rows = np.flatnonzero(is_changed).astype(np.int32)
    staying = _edges_of_unaffected(take(moved, rows), is_affected, is_affected[rows])
    return with_rows(moved, rows, edges_of_both(staying, take(new_edges, rows), run))


def _edges_of_unaffected(
    edges: SparseRows, is_affected: Mask, owner_is_affected: Mask
) -> SparseRows:
    """The edges without those to affected rows, or from them.

    is_affected : (n,) of all rows; owner_is_affected : (len(edges),) of the rows of ``edges``
    """
    stays = ~(is_affected[edges.indices] | owner_is_affected[edges.owners])
    indptr = np.concatenate([[0], np.cumsum(stays)])[edges.indptr]
    return SparseRows(indptr, edges.indices[stays], edges.values[stays], edges.n_columns)
