"""Reciprocal neighbours and their expansion."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import Rows, begins, ended, named_space, tick
from kinrank.kernels.rows import enlarge, sort_ids


@inner
def holds(lists, row, k, wanted):
    """Whether a row is among the first ``k`` of a list; all are looked at, several at a time."""
    own = lists[row]
    count = np.int32(0)
    for t in range(k):
        count += np.int32(own[t] == wanted)
    return count > 0


@inner
def reciprocal_row(row, k, lists, over, place, out, at):
    """The j of the first ``k`` of a row whose first ``k`` hold the row; returns where they end."""
    own = place[row]
    for a in range(k):
        other = over[own, a] if own >= 0 else lists[row, a]
        if other < 0:
            break
        theirs = place[other]
        if holds(over, theirs, k, row) if theirs >= 0 else holds(lists, other, k, row):
            out[at] = other
            at += 1
    return at


@kernel
def reciprocal_rows(low, high, rows, groups, lists, over_groups, over_names, over, k, space):
    """R(i, k) of rows[low:high], sorted.

    lists, over : (n, K) int32, nearest first, -1 behind the end of a shorter one; K at least k
    groups : which of the rows belong to each query, or none
    Returns pointers, indices.
    """
    space = named_space(space)
    ptr = np.zeros(high - low + 1, np.int64)
    ids = np.empty((high - low) * k, np.int32)
    place = space.place
    at = np.int64(0)
    query = np.int64(0)
    for t in range(low, high):
        query = begins(t, query, groups, over_groups, over_names, place)
        begin = at
        at = reciprocal_row(rows[t], k, lists, over, place, ids, at)
        sort_ids(ids, begin, at)
        ptr[t - low + 1] = at
    ended(query, over_groups, over_names, place)
    return ptr, ids[:at].copy()


@inner
def join_half(begin, end, half, inside, taken, seen, stepped, out, at):
    """Join a half set that has more than two thirds of itself inside; returns where it ends."""
    shared = 0
    for h in range(begin, end):
        shared += seen[half[h]] == inside
    if 3 * shared > 2 * (end - begin):
        for h in range(begin, end):
            if stepped[half[h]] != taken:
                stepped[half[h]] = taken
                out[at] = half[h]
                at += 1
    return at


@kernel
def expanded_rows(low, high, ptr, members, groups, half, space):
    """R*(i): R(i) with every half set that has more than two thirds of itself in R(i); sorted.

    ptr, members : R(i, k1) of the rows that are wanted; half : R(i, k1 / 2) of all, see Rows
    Returns pointers, indices.
    """
    half = Rows(*half)
    space = named_space(space)
    out_ptr = np.zeros(high - low + 1, np.int64)
    ids = np.empty(2 * (ptr[high] - ptr[low]) + 64, np.int32)
    place = space.place
    seen = space.seen
    stepped = space.stepped
    clock = space.clock
    half_groups = half.groups
    half_names = half.names
    half_ptr = half.ptr
    half_ids = half.ids
    over_ptr = half.over_ptr
    over_ids = half.over_ids
    at = query = np.int64(0)
    for row in range(low, high):
        query = begins(row, query, groups, half_groups, half_names, place)
        begin = at
        inside = tick(clock)
        taken = tick(clock)
        for e in range(ptr[row], ptr[row + 1]):
            seen[members[e]] = inside
        for e in range(ptr[row], ptr[row + 1]):
            other = members[e]
            over = place[other]
            first = over_ptr[over] if over >= 0 else half_ptr[other]
            last = over_ptr[over + 1] if over >= 0 else half_ptr[other + 1]
            if at + last - first + 1 > ids.shape[0]:
                ids = enlarge(ids, at, at + last - first + 1)
            if stepped[other] != taken:
                stepped[other] = taken
                ids[at] = other
                at += 1
            if over >= 0:
                at = join_half(first, last, over_ids, inside, taken, seen, stepped, ids, at)
            else:
                at = join_half(first, last, half_ids, inside, taken, seen, stepped, ids, at)
        sort_ids(ids, begin, at)
        out_ptr[row - low + 1] = at
    ended(query, half_groups, half_names, place)
    return out_ptr, ids[:at].copy()
