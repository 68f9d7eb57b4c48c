"""Local clusters: which rows a row may share similarity with.

N(i, k)    the k nearest rows of i, i itself counted
R(i, k)    {j in N(i, k) with i in N(j, k)}: reciprocal neighbours
R*(i)      R(i, k1) joined with each R(c, k1 / 2), c in R(i, k1), of which more than two thirds
lie in R(i, k1)
xi[i]      R(i, k2): confident neighbours
C[i]       the local cluster: R*(i), R(i, k1) or N(i, k1)

Sets are returned as ``SparseRows`` without values: row i has the members of the set of i. ``lists``
has the K nearest rows of each of n rows, itself first, -1 behind the end: (n, K) int32. ``run``
computes blocks of rows on threads, or in files (``kinrank.parallel.Runner``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinrank.kernels import reciprocal as kernels
from kinrank.kernels.lists import sorted_lists
from kinrank.kernels.overlay import NO_GROUPS, free_workspace, plain_rows
from kinrank.parallel import ALONE, Out, Runner
from kinrank.stages.parameters import StageParameters
from kinrank.types import Floats, Ints, Longs, SparseRows


def regular(ids: Ints, data: Floats | None, n_columns: int) -> SparseRows:
    """A sparse matrix from arrays whose rows have the same number of entries.

    ids, data : (n, k) columns, and values or None; columns of -1, with which lists that are too
        short begin or end, are left out
    """
    n, k = ids.shape
    if k and (ids[:, 0].min(initial=0) < 0 or ids[:, -1].min(initial=0) < 0):
        filled = ids >= 0
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(filled.sum(axis=1), out=indptr[1:])
        return SparseRows(indptr, ids[filled], None if data is None else data[filled], n_columns)
    indptr = k * np.arange(n + 1, dtype=np.int64)
    flat = None if data is None else data.reshape(-1)
    return SparseRows(indptr, ids.reshape(-1), flat, n_columns)


def nearest(lists: Ints, k: int, run: Runner = ALONE, rows: Ints | None = None) -> SparseRows:
    """N(i, k) of all rows, or of those in ``rows``, which ascend; members of a set ascend."""
    n = len(lists)
    k = min(k, lists.shape[1])
    if rows is not None:
        lists = lists[rows]
    ids = run.fill("clusters", sorted_lists, (lists, 0, k), len(lists), Out(np.int32, k))
    return regular(ids, None, n)


def reciprocal(lists: Ints, k: int, run: Runner, rows: Ints | None = None) -> SparseRows:
    """R(i, k) of all rows, or of those in ``rows``, which ascend; members of a set ascend."""
    n = len(lists)
    k = min(k, lists.shape[1])
    if rows is None:
        rows = np.arange(n, dtype=np.int32)
    return run.rows("clusters", _reciprocal_rows, (rows, lists, k), len(rows), n)


def expand(full: SparseRows, half: SparseRows, run: Runner) -> SparseRows:
    """R* from ``full``, R(i, k1) of all rows or of some, and ``half``, R(i, k1 / 2) of all.

    How much of a half set lies inside is measured on R(i, k1) before any joining.
    """
    args = (full.indptr, full.indices, half.indptr, half.indices)
    return run.rows("clusters", _expanded_rows, args, len(full), len(half))


def expanded(lists: Ints, k: int, half_k: int, run: Runner) -> SparseRows:
    """R* of all rows, from the ``k`` nearest and, for half sets, the ``half_k`` nearest."""
    return expand(reciprocal(lists, k, run), reciprocal(lists, half_k, run), run)


def local_clusters(
    lists: Ints,
    parameters: StageParameters,
    half: SparseRows | None,
    run: Runner,
    rows: Ints | None = None,
) -> SparseRows:
    """C of all rows, or of ``rows``, as ``parameters.clusters`` says.

    half : R(i, k1 / 2) of all rows where C is R*, else None
    rows : ascending
    """
    if parameters.clusters == "knn":
        return nearest(lists, parameters.cluster_k, run, rows)
    full = reciprocal(lists, parameters.cluster_k, run, rows)
    if parameters.clusters == "reciprocal":
        return full
    assert half is not None
    return expand(full, half, run)


def _reciprocal_rows(
    low: int, high: int, rows: Ints, lists: Ints, k: int
) -> tuple[npt.NDArray[np.int64], Ints]:
    """``reciprocal`` of rows[low:high]: what ``run`` calls for each block.

    Returns the sizes of the sets, (high - low,) int64, and the members of all sets one behind the
    other, each set ascending.
    """
    no_overlay_rows = rows[:0]
    no_overlay_lists = lists[:0]
    with free_workspace(len(lists)) as workspace:
        indptr, ids = kernels.reciprocal_rows(
            low,
            high,
            rows,
            NO_GROUPS,
            lists,
            NO_GROUPS,
            no_overlay_rows,
            no_overlay_lists,
            k,
            workspace,
        )
    return np.diff(indptr), ids


def _expanded_rows(
    low: int, high: int, ptr: Longs, members: Ints, half_ptr: Longs, half_members: Ints
) -> tuple[npt.NDArray[np.int64], Ints]:
    """``expand`` of rows [low, high): what ``run`` calls for each block.

    ptr, members : R(i, k1) of these and other rows; half_ptr, half_members : R(i, k1 / 2) of all
    Returns the sizes of the sets, (high - low,) int64, and the members of all sets one behind the
    other.
    """
    half = plain_rows(half_ptr, half_members, np.empty(0, np.float32))
    with free_workspace(len(half_ptr) - 1) as workspace:
        indptr, ids = kernels.expanded_rows(low, high, ptr, members, NO_GROUPS, half, workspace)
    return np.diff(indptr), ids
