"""Traversal of a graph from a query, best edge first."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.rows import enlarge


@inner
def before(a, a_id, b, b_id):
    """Whether edge weight a comes first: the heavier, then the lower id."""
    return a > b or (a == b and a_id < b_id)


@inner
def push(weights, ids, size, weight, key):
    """Add to a heap whose first is the heaviest."""
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if not before(weight, key, weights[parent], ids[parent]):
            break
        weights[at], ids[at] = weights[parent], ids[parent]
        at = parent
    weights[at], ids[at] = weight, key


@inner
def pop(weights, ids, size):
    """Take the first from the heap."""
    weight, key = weights[size - 1], ids[size - 1]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and before(
            weights[child + 1], ids[child + 1], weights[child], ids[child]
        ):
            child += 1
        if not before(weights[child], ids[child], weight, key):
            break
        weights[at], ids[at] = weights[child], ids[child]
        at = child
    weights[at], ids[at] = weight, key


@kernel
def traversals(low, high, near, near_weights, ptr, ids, values, limit, out, counts):
    """For queries [low, high) the rows in the order in which they are reached.

    near, near_weights : (n_queries, k) edges of the query; ptr, ids, values : the gallery graph
    limit : the threshold; edges above it are followed before any below it
    """
    n, length = ptr.shape[0] - 1, out.shape[1]
    best, done = np.empty(n, np.float32), np.empty(n, np.bool_)
    fresh = np.empty(n, np.int32)
    heap, keys = np.empty(256, np.float32), np.empty(256, np.int32)
    for row in range(low, high):
        best[:] = -np.inf
        done[:] = False
        found = size = 0
        n_fresh = -1  # the query itself
        while found < length:
            for f in range(max(n_fresh, 1)):
                edges = near.shape[1] if n_fresh < 0 else ptr[fresh[f] + 1] - ptr[fresh[f]]
                if size + edges > heap.shape[0]:
                    heap = enlarge(heap, size, size + edges)
                    keys = enlarge(keys, size, size + edges)
                for e in range(edges):
                    if n_fresh < 0:
                        x, weight = near[row, e], near_weights[row, e]
                    else:
                        x, weight = ids[ptr[fresh[f]] + e], values[ptr[fresh[f]] + e]
                    if not done[x] and weight > best[x]:
                        best[x] = weight
                        push(heap, keys, size, weight, x)
                        size += 1
            n_fresh = 0
            while size > 0 and found < length:
                x, weight = keys[0], heap[0]
                stale = done[x] or weight < best[x]  # was reached by a better edge meanwhile
                if not stale and n_fresh > 0 and weight <= limit:
                    break
                pop(heap, keys, size)
                size -= 1
                if not stale:
                    done[x] = True
                    out[row, found] = x
                    found += 1
                    fresh[n_fresh] = x
                    n_fresh += 1
            if n_fresh == 0:
                break
        counts[row] = found
