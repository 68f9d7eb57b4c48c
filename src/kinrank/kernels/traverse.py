"""Traversal of a graph from a query, best edge first."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.heap import pop, push, unpacked
from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge


@kernel
def traversals(low, high, query_ids, query_weights, edges, limit, length, out, counts):
    """For queries [low, high) the rows in the order in which they are reached.

    query_ids, query_weights : (n_queries, k) the edges of each query
    edges : the gallery graph, see ``Csr``
    limit : the threshold; edges above it are followed before any below it
    length : how many rows to reach at most
    out : (n_queries, length) the rows; counts : (n_queries,) how many
    """
    ptr = edges.ptr
    ids = edges.ids
    values = edges.values
    n = ptr.shape[0] - 1
    best = np.empty(n, np.float32)  # the weight of the best edge to each row so far
    done = np.empty(n, np.bool_)
    newest = np.empty(n, np.int32)  # rows that were reached last, whose edges come next
    heap = np.empty(256, np.int64)  # minus weights, rows
    for row in range(low, high):
        best[:] = -np.inf
        done[:] = False
        n_reached = 0
        size = np.int64(0)
        n_newest = -1  # the query itself
        while n_reached < length:
            for f in range(max(n_newest, 1)):
                n_edges = query_ids.shape[1]
                if n_newest >= 0:
                    n_edges = ptr[newest[f] + 1] - ptr[newest[f]]
                if size + n_edges > heap.shape[0]:
                    heap = enlarge(heap, size, size + n_edges)
                for e in range(n_edges):
                    if n_newest < 0:
                        x = query_ids[row, e]
                        weight = query_weights[row, e]
                    else:
                        x = ids[ptr[newest[f]] + e]
                        weight = values[ptr[newest[f]] + e]
                    if not done[x] and weight > best[x]:
                        best[x] = weight
                        size = push(heap, size, -weight, x)
            n_newest = 0
            while size > 0 and n_reached < length:
                minus, x = unpacked(heap[0])
                weight = -minus
                stale = done[x] or weight < best[x]  # was reached by a better edge meanwhile
                if not stale and n_newest > 0 and weight <= limit:
                    break
                size = pop(heap, size)
                if not stale:
                    done[x] = True
                    out[row, n_reached] = x
                    n_reached += 1
                    newest[n_newest] = x
                    n_newest += 1
            if n_newest == 0:
                break
        counts[row] = n_reached
