"""Reciprocal neighbours and their expansion."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge, sort_ids


@kernel
def reciprocal_rows(low, high, lists, k):
    """For rows [low, high) the j of the first ``k`` whose first ``k`` hold the row; sorted.

    lists : (n, K) int32, nearest first, -1 behind the end of a shorter one; K at least k
    Returns lengths, indices.
    """
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty((high - low) * k, np.int32)
    at = np.int64(0)
    for row in range(low, high):
        begin = at
        for a in range(k):
            other = lists[row, a]
            if other < 0:
                break
            for b in range(k):
                if lists[other, b] == row:
                    ids[at] = other
                    at += 1
                    break
        sort_ids(ids, begin, at)
        lengths[row - low] = at - begin
    return lengths, ids[:at].copy()


@kernel
def reciprocal_some(low, high, rows, lists, k):
    """As ``reciprocal_rows``, for rows[low:high]."""
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty((high - low) * k, np.int32)
    at = 0
    for t in range(low, high):
        found = reciprocal_rows(rows[t], rows[t] + 1, lists, k)[1]
        ids[at : at + found.shape[0]] = found
        at += found.shape[0]
        lengths[t - low] = found.shape[0]
    return lengths, ids[:at].copy()


@kernel
def expanded_rows(low, high, ptr, members, half_ptr, half_members):
    """R*(i): R(i) with every half set that has more than two thirds of itself in R(i); sorted.

    ptr, members : R(i, k1) of the rows asked for; half_ptr, half_members : R(i, k1 / 2) of all.
    Returns lengths, indices.
    """
    n = half_ptr.shape[0] - 1
    inside = np.full(n, -1, np.int32)
    taken = np.full(n, -1, np.int32)
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty(2 * (ptr[high] - ptr[low]) + 64, np.int32)
    at = np.int64(0)
    for row in range(low, high):
        begin = at
        for e in range(ptr[row], ptr[row + 1]):
            inside[members[e]] = row
        for e in range(ptr[row], ptr[row + 1]):
            other = members[e]
            size = half_ptr[other + 1] - half_ptr[other]
            if at + size + 1 > ids.shape[0]:
                ids = enlarge(ids, at, at + size + 1)
            if taken[other] != row:
                taken[other] = row
                ids[at] = other
                at += 1
            shared = 0
            for h in range(half_ptr[other], half_ptr[other + 1]):
                shared += inside[half_members[h]] == row
            if 3 * shared > 2 * size:
                for h in range(half_ptr[other], half_ptr[other + 1]):
                    if taken[half_members[h]] != row:
                        taken[half_members[h]] = row
                        ids[at] = half_members[h]
                        at += 1
        sort_ids(ids, begin, at)
        lengths[row - low] = at - begin
    return lengths, ids[:at].copy()
