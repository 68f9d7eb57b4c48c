"""An order of the rows in which neighbours are near each other, so that stages find them in caches.

Rows are joined in groups by how strongly they draw each other, and groups follow one another.
Lists have the nearest rows of each row: (n, K) int32, nearest first, -1 for none.

Functions under ``kernel`` are called from Python, those under ``helper`` and ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.kernels.jit import helper, inner, kernel


class Groups(NamedTuple):
    """Rows in groups, and how strongly these draw each other.

    ptr, ids, pull : a symmetric sparse matrix: group g draws ids[ptr[g]:ptr[g + 1]], and is drawn
        by them, with ``pull``; nothing draws itself
    starts, rows : group g has rows[starts[g]:starts[g + 1]]
    """

    ptr: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]
    pull: npt.NDArray[np.float32]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]


@kernel
def rows_around(starts, lists, k, in_ptr, in_ids, most_rows):
    """The first ``most_rows`` rows that are reached from the rows ``starts``, in few steps first.

    A step leads to the first ``k`` of a row's list, and to the rows in whose lists it is:
    in_ids[in_ptr[i]:in_ptr[i + 1]] of row i
    Returns (m,) int32, the starts first.
    """
    seen = np.zeros(lists.shape[0], np.bool_)
    reached = np.empty(max(most_rows, starts.shape[0]), np.int32)
    size = 0
    visited = 0
    for row in starts:
        reached[size] = row
        seen[row] = True
        size += 1
    while visited < size < most_rows:
        row = reached[visited]
        visited += 1
        begin = in_ptr[row]
        count = in_ptr[row + 1] - in_ptr[row]
        for t in range(k + count):
            other = lists[row, t] if t < k else in_ids[begin + t - k]
            if other >= 0 and not seen[other] and size < most_rows:
                seen[other] = True
                reached[size] = other
                size += 1
    return reached[:size]


@helper
def single_rows(lists, k):
    """A group of every row: it and the first ``k`` of its list draw each other, the nearest most.

    Rows that list each other are there twice, which ``joined`` sums. The pull is a whole number, so
    that sums are exact and two groups always agree about it. Returns ``Groups``.
    """
    n = lists.shape[0]
    ptr = np.zeros(n + 1, np.int64)
    for row in range(n):
        for t in range(k):
            other = lists[row, t]
            if other >= 0 and other != row:
                ptr[row + 1] += 1
                ptr[other + 1] += 1
    for row in range(n):
        ptr[row + 1] += ptr[row]
    next_slot = ptr.copy()
    ids = np.empty(ptr[n], np.int32)
    pull = np.empty(ptr[n], np.float32)
    for row in range(n):
        for t in range(k):
            other = lists[row, t]
            if other >= 0 and other != row:
                ids[next_slot[row]] = other
                ids[next_slot[other]] = row
                pull[next_slot[row]] = k - t
                pull[next_slot[other]] = k - t
                next_slot[row] += 1
                next_slot[other] += 1
    return Groups(ptr, ids, pull, np.arange(n + 1), np.arange(n).astype(np.int32))


@inner
def strongest(group, ptr, ids, pull, is_free):
    """The free group that draws ``group`` most, of equal ones the first; -1 if none is free.

    ptr, ids, pull : of ``Groups``; is_free : (groups,) bool, which may be taken
    """
    best = np.int32(-1)
    most = np.float32(0)
    for e in range(ptr[group], ptr[group + 1]):
        other = ids[e]
        if is_free[other] and (pull[e] > most or (pull[e] == most and other < best)):
            best = other
            most = pull[e]
    return best


@helper
def pairs(groups):
    """Groups in pairs: of all pairs the one that draws most, then the next.

    From a group to the one that draws it most, and on from there: the pull grows on the way, until
    two draw each other most.
    Returns for each group the other of its pair, or itself; (groups,) int32.
    """
    ptr = groups.ptr
    ids = groups.ids
    pull = groups.pull
    mates = np.arange(ptr.shape[0] - 1).astype(np.int32)
    is_free = np.ones(mates.shape[0], np.bool_)
    for start in range(mates.shape[0]):
        while is_free[start]:
            group = np.int32(start)
            other = strongest(group, ptr, ids, pull, is_free)
            while other >= 0:
                back = strongest(other, ptr, ids, pull, is_free)
                if back == group:
                    break
                group = other
                other = back
            is_free[group] = False
            if other >= 0:
                is_free[other] = False
                mates[group] = other
                mates[other] = group
    return mates


@helper
def joined(groups, mates):
    """Every pair as one group, in the order of the first of both; mates : of ``pairs``.

    Returns ``Groups``.
    """
    ptr, ids, pull, starts, rows = groups
    count = np.int64(0)
    joined_group = np.empty(mates.shape[0], np.int32)
    for group in range(mates.shape[0]):
        if mates[group] >= group:
            joined_group[group] = count
            joined_group[mates[group]] = count
            count += 1
    out_ptr = np.zeros(count + 1, np.int64)
    out_starts = np.zeros(count + 1, np.int64)
    out_ids = np.empty_like(ids)
    out_pull = np.empty_like(pull)
    out_rows = np.empty_like(rows)
    entry_of = np.full(count, -1)  # where each other group is in the row under way
    size = 0
    n_rows = 0
    for first_old in range(mates.shape[0]):
        if mates[first_old] < first_old:
            continue
        group = joined_group[first_old]
        row_begin = size
        for old_group in (first_old, np.int64(mates[first_old])):
            for e in range(ptr[old_group], ptr[old_group + 1]):
                other = joined_group[ids[e]]
                if other == group:
                    continue
                if entry_of[other] < row_begin:
                    entry_of[other] = size
                    out_ids[size] = other
                    out_pull[size] = 0
                    size += 1
                out_pull[entry_of[other]] += pull[e]
            for t in range(starts[old_group], starts[old_group + 1]):
                out_rows[n_rows] = rows[t]
                n_rows += 1
            if mates[first_old] == first_old:
                break
        out_ptr[group + 1] = size
        out_starts[group + 1] = n_rows
    return Groups(out_ptr, out_ids[:size].copy(), out_pull[:size].copy(), out_starts, out_rows)


@kernel
def near_order(lists, k, times):
    """All rows in an order in which the first ``k`` of each list are near it; (n,) int32.

    Rows are joined in pairs, these in pairs again, ``times`` in all. Then groups follow each other:
    behind each comes the one that draws it most of those that are left; where none does, the way
    goes back to the group before.
    """
    groups = single_rows(lists, k)
    groups = joined(groups, np.arange(lists.shape[0]).astype(np.int32))
    for _ in range(times):
        groups = joined(groups, pairs(groups))
    ptr, ids, pull, starts, rows = groups
    count = ptr.shape[0] - 1
    order = np.empty_like(rows)
    path = np.empty(count, np.int32)
    is_free = np.ones(count, np.bool_)
    n_ordered = 0
    for start in range(count):
        path_length = 0
        group = np.int32(start) if is_free[start] else np.int32(-1)
        while group >= 0 or path_length > 0:
            if group >= 0:
                is_free[group] = False
                path[path_length] = group
                path_length += 1
                for t in range(starts[group], starts[group + 1]):
                    order[n_ordered] = rows[t]
                    n_ordered += 1
            group = strongest(path[path_length - 1], ptr, ids, pull, is_free)
            if group < 0:
                path_length -= 1
    return order
