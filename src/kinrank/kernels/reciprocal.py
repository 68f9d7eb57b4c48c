"""Reciprocal neighbours and their expansion."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import enter_at, leave_last, named_space, tick
from kinrank.kernels.rows import enlarge, sort_ids


@inner
def holds(lists, row, k, wanted):
    """Whether ``wanted`` is among the first ``k`` of a row's list; a loop without a branch."""
    neighbors = lists[row]
    count = np.int32(0)
    for t in range(k):
        count += np.int32(neighbors[t] == wanted)
    return count > 0


@inner
def reciprocal_row(row, k, lists, over_lists, overlaid, out, at):
    """The j of the first ``k`` of a row whose first ``k`` hold the row, written from out[at] on.

    lists, over_lists : stored lists and those of the overlay; overlaid : see ``records.Space``
    Returns where they end.
    """
    over = overlaid[row]
    for t in range(k):
        other = over_lists[over, t] if over >= 0 else lists[row, t]
        if other < 0:
            break
        other_over = overlaid[other]
        if other_over >= 0:
            mutual = holds(over_lists, other_over, k, row)
        else:
            mutual = holds(lists, other, k, row)
        if mutual:
            out[at] = other
            at += 1
    return at


@kernel
def reciprocal_rows(low, high, rows, row_groups, lists, groups, replaced, over_lists, k, workspace):
    """R(i, k) of rows[low:high], sorted.

    row_groups : which of the rows belong to each query, or none
    lists, over_lists : (n, K) int32, nearest first, -1 behind the end of a shorter one; K at
        least k
    groups, replaced : of the overlay, see ``records.Lists``
    Returns pointers, indices.
    """
    space = named_space(workspace)
    ptr = np.zeros(high - low + 1, np.int64)
    ids = np.empty((high - low) * k, np.int32)
    overlaid = space.overlaid
    at = np.int64(0)
    query = np.int64(0)
    for t in range(low, high):
        query = enter_at(t, query, row_groups, groups, replaced, overlaid)
        begin = at
        at = reciprocal_row(rows[t], k, lists, over_lists, overlaid, ids, at)
        sort_ids(ids, begin, at)
        ptr[t - low + 1] = at
    leave_last(query, groups, replaced, overlaid)
    return ptr, ids[:at].copy()


@inner
def join_half(begin, end, half_ids, inside, joined, seen, stepped, out, at):
    """Join a half set, entries [begin, end), if more than two thirds of it are in R(i).

    inside : the stamp of R(i) in ``seen``; joined : that of the result in ``stepped``
    The rows that are new are written from out[at] on. Returns where they end.
    """
    shared = 0
    for h in range(begin, end):
        shared += seen[half_ids[h]] == inside
    if 3 * shared > 2 * (end - begin):
        for h in range(begin, end):
            if stepped[half_ids[h]] != joined:
                stepped[half_ids[h]] = joined
                out[at] = half_ids[h]
                at += 1
    return at


@kernel
def expanded_rows(low, high, ptr, members, row_groups, half, workspace):
    """R*(i): R(i) with every half set that has more than two thirds of itself in R(i); sorted.

    ptr, members : R(i, k1) of the rows that are wanted; row_groups : which of them belong to each
        query, or none
    half : R(i, k1 / 2) of all rows, see ``records.Rows``
    Returns pointers, indices.
    """
    space = named_space(workspace)
    out_ptr = np.zeros(high - low + 1, np.int64)
    out_ids = np.empty(2 * (ptr[high] - ptr[low]) + 64, np.int32)
    overlaid = space.overlaid
    seen = space.seen
    stepped = space.stepped
    clock = space.clock
    half_groups = half.groups
    half_replaced = half.replaced
    half_ptr = half.ptr
    half_ids = half.ids
    over_ptr = half.over_ptr
    over_ids = half.over_ids
    at = np.int64(0)
    query = np.int64(0)
    for row in range(low, high):
        query = enter_at(row, query, row_groups, half_groups, half_replaced, overlaid)
        row_begin = at
        inside = tick(clock)
        joined = tick(clock)
        for e in range(ptr[row], ptr[row + 1]):
            seen[members[e]] = inside
        for e in range(ptr[row], ptr[row + 1]):
            member = members[e]
            over = overlaid[member]
            begin = over_ptr[over] if over >= 0 else half_ptr[member]
            end = over_ptr[over + 1] if over >= 0 else half_ptr[member + 1]
            if at + end - begin + 1 > out_ids.shape[0]:
                out_ids = enlarge(out_ids, at, at + end - begin + 1)
            if stepped[member] != joined:
                stepped[member] = joined
                out_ids[at] = member
                at += 1
            if over >= 0:
                at = join_half(begin, end, over_ids, inside, joined, seen, stepped, out_ids, at)
            else:
                at = join_half(begin, end, half_ids, inside, joined, seen, stepped, out_ids, at)
        sort_ids(out_ids, row_begin, at)
        out_ptr[row - low + 1] = at
    leave_last(query, half_groups, half_replaced, overlaid)
    return out_ptr, out_ids[:at].copy()
