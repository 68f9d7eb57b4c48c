"""Reciprocal neighbours R(i, k) and their expansion R*(i), for local clusters.

    R(i, k) = {j among the k nearest of i, and i among the k nearest of j}
    R*(i)   R(i, k1) joined with each R(c, k1 / 2), c in R(i, k1), of which more than two thirds lie
            in R(i, k1)

A list has the K nearest of a row, itself first and counted, -1 behind the end of a short one. An
overlay is lists, or rows, that stand in for stored ones while a query is computed
(``kernels/overlay.py``): overlay_row[row] is the one that does, -1 for none; query t has the
overlay rows groups[t] to groups[t + 1], which stand in for ``replaced``.

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import named_space, new_stamp, remove_last_overlay, switch_overlay
from kinrank.kernels.rows import enlarge, sort_ids


@inner
def holds(lists, row, k, wanted):
    """Whether row ``wanted`` is among the first ``k`` of list number ``row``, without a branch."""
    neighbors = lists[row]
    count = np.int32(0)
    for t in range(k):
        count += np.int32(neighbors[t] == wanted)
    return count > 0


@inner
def reciprocal_row(row, k, lists, over_lists, overlay_row, out, size):
    """R(row, k), written to ``out`` from entry ``size`` on; returns where it ends.

    lists, over_lists : (n, K) stored lists and (rows, K) those of the overlay
    overlay_row : (n + 2,) which overlay list stands in for that of a row, -1 for none
    """
    over = overlay_row[row]
    for t in range(k):
        other = over_lists[over, t] if over >= 0 else lists[row, t]
        if other < 0:
            break
        other_over = overlay_row[other]
        if other_over >= 0:
            mutual = holds(over_lists, other_over, k, row)
        else:
            mutual = holds(lists, other, k, row)
        if mutual:
            out[size] = other
            size += 1
    return size


@kernel
def reciprocal_rows(low, high, rows, row_groups, lists, groups, replaced, over_lists, k, workspace):
    """R(i, k) of rows[low:high], each ascending by row number.

    rows : int32, the rows that are wanted
    row_groups : (queries + 1,) wanted rows row_groups[t] to row_groups[t + 1] belong to query t,
        and see its overlay; empty without queries
    lists : (n, K) int32, K at least k; groups, replaced, over_lists : of the overlay
    workspace : of ``overlay.new_workspace``, for n rows; overlay_row is -1 before and after
    Returns pointers, (high - low + 1,), and the row numbers.
    """
    space = named_space(workspace)
    ptr = np.zeros(high - low + 1, np.int64)
    ids = np.empty((high - low) * k, np.int32)
    overlay_row = space.overlay_row
    size = np.int64(0)
    n_begun = np.int64(0)  # queries whose overlay was put in place
    for t in range(low, high):
        n_begun = switch_overlay(t, n_begun, row_groups, groups, replaced, overlay_row)
        begin = size
        size = reciprocal_row(rows[t], k, lists, over_lists, overlay_row, ids, size)
        sort_ids(ids, begin, size)
        ptr[t - low + 1] = size
    remove_last_overlay(n_begun, groups, replaced, overlay_row)
    return ptr, ids[:size].copy()


@inner
def join_half(begin, end, half_ids, full_stamp, joined_stamp, seen, stepped, out, size):
    """Join a half set to R*(i) if more than two thirds of it lie in R(i, k1).

    begin, end : the half set R(c, k1 / 2) is half_ids[begin:end]
    full_stamp : marks R(i, k1) in ``seen``; joined_stamp : marks what is joined in ``stepped``
    out : rows that are new are written from entry ``size`` on; returns where it ends
    """
    shared = 0
    for h in range(begin, end):
        shared += seen[half_ids[h]] == full_stamp
    if 3 * shared > 2 * (end - begin):
        for h in range(begin, end):
            if stepped[half_ids[h]] != joined_stamp:
                stepped[half_ids[h]] = joined_stamp
                out[size] = half_ids[h]
                size += 1
    return size


@kernel
def expanded_rows(low, high, ptr, members, row_groups, half, workspace):
    """R*(i): R(i, k1) with every half set that has more than two thirds of itself in it; ascending.

    For rows [low, high) of those that are wanted.
    ptr, members : R(i, k1) of the wanted rows, members[ptr[i]:ptr[i + 1]]
    row_groups : as in ``reciprocal_rows``
    half : R(i, k1 / 2) of all rows with its overlay, ``records.Rows``, whose values are not read
    workspace : of ``overlay.new_workspace``, for n rows; overlay_row is -1 before and after
    Returns pointers, (high - low + 1,), and the row numbers.
    """
    space = named_space(workspace)
    out_ptr = np.zeros(high - low + 1, np.int64)
    out_ids = np.empty(2 * (ptr[high] - ptr[low]) + 64, np.int32)
    overlay_row = space.overlay_row
    seen = space.seen
    stepped = space.stepped
    last_stamp = space.last_stamp
    half_groups = half.groups
    half_replaced = half.replaced
    half_ptr = half.ptr
    half_ids = half.ids
    over_ptr = half.over_ptr
    over_ids = half.over_ids
    size = np.int64(0)
    n_begun = np.int64(0)  # queries whose overlay was put in place
    for row in range(low, high):
        n_begun = switch_overlay(row, n_begun, row_groups, half_groups, half_replaced, overlay_row)
        row_begin = size
        full_stamp = new_stamp(last_stamp)
        joined_stamp = new_stamp(last_stamp)
        for e in range(ptr[row], ptr[row + 1]):
            seen[members[e]] = full_stamp
        for e in range(ptr[row], ptr[row + 1]):
            member = members[e]
            over = overlay_row[member]
            begin = over_ptr[over] if over >= 0 else half_ptr[member]
            end = over_ptr[over + 1] if over >= 0 else half_ptr[member + 1]
            if size + end - begin + 1 > out_ids.shape[0]:
                out_ids = enlarge(out_ids, size, size + end - begin + 1)
            if stepped[member] != joined_stamp:
                stepped[member] = joined_stamp
                out_ids[size] = member
                size += 1
            if over >= 0:
                size = join_half(
                    begin, end, over_ids, full_stamp, joined_stamp, seen, stepped, out_ids, size
                )
            else:
                size = join_half(
                    begin, end, half_ids, full_stamp, joined_stamp, seen, stepped, out_ids, size
                )
        sort_ids(out_ids, row_begin, size)
        out_ptr[row - low + 1] = size
    remove_last_overlay(n_begun, half_groups, half_replaced, overlay_row)
    return out_ptr, out_ids[:size].copy()
