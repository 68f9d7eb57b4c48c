"""Traversal of a graph from a query, best edge first."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.heap import pop, push, unpacked
from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge


@kernel
def traversals(low, high, near, near_weights, csr, limit, length, out, counts):
    """For queries [low, high) the rows in the order in which they are reached.

    near, near_weights : (n_queries, k) edges of the query; csr : the gallery graph
    limit : the threshold; edges above it are followed before any below it
    length : how many rows to reach at most
    """
    ptr, ids, values = csr
    n = ptr.shape[0] - 1
    best = np.empty(n, np.float32)
    done = np.empty(n, np.bool_)
    fresh = np.empty(n, np.int32)
    heap = np.empty(256, np.int64)  # minus weights, rows
    for row in range(low, high):
        best[:] = -np.inf
        done[:] = False
        found = 0
        size = np.int64(0)
        n_fresh = -1  # the query itself
        while found < length:
            for f in range(max(n_fresh, 1)):
                edges = near.shape[1] if n_fresh < 0 else ptr[fresh[f] + 1] - ptr[fresh[f]]
                if size + edges > heap.shape[0]:
                    heap = enlarge(heap, size, size + edges)
                for e in range(edges):
                    if n_fresh < 0:
                        x = near[row, e]
                        weight = near_weights[row, e]
                    else:
                        x = ids[ptr[fresh[f]] + e]
                        weight = values[ptr[fresh[f]] + e]
                    if not done[x] and weight > best[x]:
                        best[x] = weight
                        size = push(heap, size, -weight, x)
            n_fresh = 0
            while size > 0 and found < length:
                minus, x = unpacked(heap[0])
                weight = -minus
                stale = done[x] or weight < best[x]  # was reached by a better edge meanwhile
                if not stale and n_fresh > 0 and weight <= limit:
                    break
                size = pop(heap, size)
                if not stale:
                    done[x] = True
                    out[row, found] = x
                    found += 1
                    fresh[n_fresh] = x
                    n_fresh += 1
            if n_fresh == 0:
                break
        counts[row] = found
