"""An order of the rows in which neighbours are near each other."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel


@kernel
def rows_around(starts, lists, k, in_ptr, in_ids, most):
    """The first ``most`` rows that are reached from some, (m,) int32, in few steps first.

    A step leads to the first ``k`` of a row's list, and to the rows in whose lists it is:
    in_ptr, in_ids : these
    """
    seen = np.zeros(lists.shape[0], np.bool_)
    found = np.empty(max(most, starts.shape[0]), np.int32)
    size = at = 0
    for row in starts:
        found[size], seen[row] = row, True
        size += 1
    while at < size < most:
        row = found[at]
        at += 1
        begin, count = in_ptr[row], in_ptr[row + 1] - in_ptr[row]
        for t in range(k + count):
            other = lists[row, t] if t < k else in_ids[begin + t - k]
            if other >= 0 and not seen[other] and size < most:
                seen[other] = True
                found[size] = other
                size += 1
    return found[:size]


@kernel
def walk_order(lists, k):
    """All rows, each soon after the one whose first ``k`` it is among; (n,) int32.

    A row brings all of its neighbours that are not there yet, and the nearest of them comes next:
    a cluster is told to its end before the next begins, as a search that widened would not do.
    """
    n = lists.shape[0]
    order, waiting = np.empty(n, np.int32), np.empty(n, np.int32)
    seen = np.zeros(n, np.bool_)
    count = 0
    for start in range(n):
        if seen[start]:
            continue
        seen[start] = True
        order[count], waiting[0] = start, start
        count += 1
        size = 1
        while size > 0:
            size -= 1
            row, first = waiting[size], count
            for t in range(k):
                other = lists[row, t]
                if other >= 0 and not seen[other]:
                    seen[other] = True
                    order[count] = other
                    count += 1
            for at in range(count - 1, first - 1, -1):
                waiting[size] = order[at]
                size += 1
    return order
