"""An order of the rows in which neighbours are near each other, so that stages find them in caches.

Rows are joined in groups by how strongly they draw each other, and groups follow one another
(``stages/layout.py`` calls these in turn).
Lists have the nearest rows of each row: (n, K) int32, nearest first, -1 for none.

``ptr, ids, pull``, ``groups`` in short : a symmetric sparse matrix: group g draws
    ids[ptr[g]:ptr[g + 1]], and is drawn by them, with ``pull``; (groups + 1,) int64, int32, float32
``starts, rows`` : group g has rows[starts[g]:starts[g + 1]]; (groups + 1,) int64, (n,) int32

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel


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


@filling
def count_drawn(lists, k, ptr):
    """How many rows each row draws when it and the first ``k`` of its list draw each other.

    Rows that list each other count twice.
    ptr : (n + 1,) int64 zeros; set to where the rows that a row draws begin
    """
    n = lists.shape[0]
    for row in range(n):
        for t in range(k):
            other = lists[row, t]
            if other >= 0 and other != row:
                ptr[row + 1] += 1
                ptr[other + 1] += 1
    for row in range(n):
        ptr[row + 1] += ptr[row]


@filling
def put_drawn(lists, k, next_slot, ids, pull):
    """The rows that each row draws, with their pull; the nearest draw most.

    Rows that list each other are there twice, which ``join_pairs`` sums. The pull is a whole
    number, so that sums are exact and two groups always agree about it.
    next_slot : (n + 1,) int64, where each row's begin, of ``count_drawn``; it moves on
    ids, pull : the output
    """
    for row in range(lists.shape[0]):
        for t in range(k):
            other = lists[row, t]
            if other >= 0 and other != row:
                ids[next_slot[row]] = other
                ids[next_slot[other]] = row
                pull[next_slot[row]] = k - t
                pull[next_slot[other]] = k - t
                next_slot[row] += 1
                next_slot[other] += 1


@inner
def strongest(group, ptr, ids, pull, is_free):
    """The free group that draws ``group`` most, of equal ones the first; -1 if none is free.

    is_free : (groups,) bool, which may be taken
    """
    best = np.int32(-1)
    most = np.float32(0)
    for e in range(ptr[group], ptr[group + 1]):
        other = ids[e]
        if is_free[other] and (pull[e] > most or (pull[e] == most and other < best)):
            best = other
            most = pull[e]
    return best


@filling
def find_pairs(ptr, ids, pull, is_free, mates):
    """Groups in pairs: of all pairs the one that draws most, then the next.

    From a group to the one that draws it most, and on from there: the pull grows on the way, until
    two draw each other most.
    is_free : (groups,) bool, True; none is at the end
    mates : (groups,) int32, each group itself; set to the other of its pair, where it has one
    """
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


@filling
def join_pairs(
    ptr,
    ids,
    pull,
    starts,
    rows,
    mates,
    joined_group,
    entry_of,
    out_ptr,
    out_ids,
    out_pull,
    out_starts,
    out_rows,
):
    """Every pair as one group, in the order of the first of both.

    mates : of ``find_pairs``; joined_group : (groups,) int32, the new number of each group
    entry_of : (new groups,) int64, -1: scratch, where each other group is in the row under way
    out_... : the groups joined, of the new size; ids and pull as long as before
    Returns how many of ``out_ids`` there are.
    """
    size = np.int64(0)
    n_rows = np.int64(0)
    out_ptr[0] = 0
    out_starts[0] = 0
    for first_old in range(mates.shape[0]):
        if mates[first_old] < first_old:
            continue
        group = joined_group[first_old]
        row_begin = size
        for old_group in (np.int64(first_old), np.int64(mates[first_old])):
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
    return size


@filling
def follow_groups(ptr, ids, pull, starts, rows, is_free, path, order):
    """The rows of all groups, each group behind one that draws it.

    Behind each comes the one that draws it most of those that are left; where none does, the way
    goes back to the group before.
    is_free : (groups,) bool, True; none is at the end; path : (groups,) int32 scratch
    order : (n,) int32, the output
    """
    n_ordered = np.int64(0)
    for start in range(path.shape[0]):
        path_length = np.int64(0)
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
