"""An order of the rows in which neighbours are near each other."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel


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
                if not seen[other]:
                    seen[other] = True
                    order[count] = other
                    count += 1
            for at in range(count - 1, first - 1, -1):
                waiting[size] = order[at]
                size += 1
    return order
