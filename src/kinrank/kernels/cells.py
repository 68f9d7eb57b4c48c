"""Rows of one cell against those of the cells around it."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

LOOKED = 64  # entries of a list that are compared with others: of very long ones enough


@filling
def merge_lists(low, high, n_own, a_rows, a_ids, a, b_rows, b_ids, b, out_ids, out):
    """Two lists of each row as one, by (distance, number), each number once.

    n_own : how many of the first columns are the row itself
    a_rows, b_rows : where the lists of output rows lie in a_ids, a and b_ids, b
    """
    k = out.shape[1]
    for row in range(low, high):
        x = a_rows[row]
        y = b_rows[row]
        s = n_own
        t = n_own
        for at in range(n_own):
            out_ids[row, at] = a_ids[x, at]
            out[row, at] = a[x, at]
        for at in range(n_own, k):
            # A list may end in -1 and infinity; there are never more than k of both together.
            use_a = s < k and a_ids[x, s] >= 0
            use_b = t < k and b_ids[y, t] >= 0
            if not use_a and not use_b:
                out_ids[row, at] = -1
                out[row, at] = np.float32(np.inf)
                continue
            same = use_a and use_b and a_ids[x, s] == b_ids[y, t]
            if use_a and use_b and not same:
                use_a = a[x, s] < b[y, t] or (a[x, s] == b[y, t] and a_ids[x, s] < b_ids[y, t])
            if use_a:
                out_ids[row, at] = a_ids[x, s]
                out[row, at] = a[x, s]
                s += 1
                t += 1 if same else 0
            else:
                out_ids[row, at] = b_ids[y, t]
                out[row, at] = b[y, t]
                t += 1


@kernel
def reverse_lists(low, high, position, lists, is_new, out, out_is_new):
    """Rows that list one of [low, high) without being in its list, those with the best ranks.

    position, lists, is_new : as in ``refine_lists``
    out : (n, R) rows in the order of cells, -1 behind the last; out_is_new : whether the row is a
        new entry of their lists
    """
    n, k = lists.shape
    counts = np.zeros(high - low, np.int32)
    for row in range(low, high):
        for t in range(out.shape[1]):
            out[row, t] = -1
            out_is_new[row, t] = 0
    for t in range(1, k):
        for row in range(n):
            if lists[row, t] < 0:
                continue
            other = position[lists[row, t]]
            if other < low or other >= high or counts[other - low] == out.shape[1]:
                continue
            mutual = False
            for u in range(1, k):
                if lists[other, u] == lists[row, 0]:
                    mutual = True
                    break
            if not mutual:
                at = counts[other - low]
                out[other, at] = row
                out_is_new[other, at] = is_new[row, t]
                counts[other - low] = at + 1


@kernel
def refine_lists(
    low,
    high,
    vectors,
    position,
    lists,
    list_d,
    is_new,
    reverse,
    reverse_is_new,
    out_ids,
    out,
    out_is_new,
):
    """Rows [low, high): the nearest among a row's list, those who list it, and the lists of both.

    vectors, lists, list_d : in the order of cells, a row first in its own list, which holds numbers
    position : (n,) where the row of each number is in that order
    is_new, reverse_is_new : which entries were found the last time; pairs of two others were
        compared before
    reverse : (n, R) of ``reverse_lists``
    out_is_new : which entries of out_ids were not in the list
    """
    n, k = lists.shape
    width = reverse.shape[1]
    looked = min(k, LOOKED)
    seen = np.full(n, -1, np.int32)
    best = np.empty(k, np.float32)
    keys = np.empty(k, np.int32)
    x_space = np.empty(vectors.shape[1], np.float32)
    y_space = np.empty(vectors.shape[1], np.float32)
    for row in range(low, high):
        x = row_of(vectors, row, x_space)
        seen[row] = row
        size = np.int64(0)
        for t in range(1, k):
            if lists[row, t] >= 0:
                seen[position[lists[row, t]]] = row
                size = heap_offer(best, keys, size, k - 1, list_d[row, t], lists[row, t])
        for t in range(1 - width, looked):
            if t > 0:
                if lists[row, t] < 0:
                    break
                other = position[lists[row, t]]
                entry_is_new = is_new[row, t]
            else:
                other = reverse[row, -t]
                entry_is_new = reverse_is_new[row, -t]
                if other < 0:
                    continue
            for u in range(0 if t <= 0 else 1, looked):
                number = lists[other, u]
                if number < 0:
                    break
                if not entry_is_new and not is_new[other, u]:
                    continue
                candidate = position[number]
                if seen[candidate] != row:
                    seen[candidate] = row
                    d = squared_distance(x, row_of(vectors, candidate, y_space))
                    size = heap_offer(best, keys, size, k - 1, d, number)
        sort_heap(best, keys, size)
        out_ids[row, 0] = lists[row, 0]
        out[row, 0] = 0
        out_is_new[row, 0] = 0
        for t in range(1, k):
            filled = t <= size
            number = keys[t - 1] if filled else np.int32(-1)
            was_listed = False
            for u in range(1, k):
                if lists[row, u] == number:
                    was_listed = True
                    break
            out_ids[row, t] = number
            out_is_new[row, t] = not was_listed
            out[row, t] = best[t - 1] if filled else np.float32(np.inf)
