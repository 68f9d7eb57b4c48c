"""Traversal of a graph from a query, best edge first (Explore-Exploit Graph Traversal).

Functions under ``kernel`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.heap import pop, push, unpacked
from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge


@kernel
def traversals(low, high, query_ids, query_weights, edges, threshold, n_wanted, out, counts):
    """For queries [low, high) the gallery rows in the order in which they are reached.

    query_ids, query_weights : (n_queries, k) int32 and float32, the edges from each query
    edges : the graph of the gallery, a sparse matrix ``ptr, ids, values``: row i has edges to
        ids[ptr[i]:ptr[i + 1]], with weights ``values``, larger is better
    threshold : in each step the best waiting edge is followed, and with it all others above this;
        then the edges of the rows so reached wait too
    n_wanted : how many rows to reach at most
    out : (n_queries, n_wanted) int32, the rows; counts : (n_queries,) how many; both are output
    """
    ptr = edges.ptr
    ids = edges.ids
    values = edges.values
    n = ptr.shape[0] - 1
    best = np.empty(n, np.float32)  # the weight of the best edge to each row so far
    done = np.empty(n, np.bool_)
    newest = np.empty(n, np.int32)  # rows that were reached last, whose edges come next
    heap = np.empty(256, np.int64)  # pairs of minus the weight and the row, see heap.py
    for row in range(low, high):
        best[:] = -np.inf
        done[:] = False
        n_reached = 0
        heap_size = np.int64(0)
        n_newest = -1  # the query itself
        while n_reached < n_wanted:
            for t in range(max(n_newest, 1)):
                n_edges = query_ids.shape[1]
                if n_newest >= 0:
                    n_edges = ptr[newest[t] + 1] - ptr[newest[t]]
                if heap_size + n_edges > heap.shape[0]:
                    heap = enlarge(heap, heap_size, heap_size + n_edges)
                for e in range(n_edges):
                    if n_newest < 0:
                        node = query_ids[row, e]
                        weight = query_weights[row, e]
                    else:
                        node = ids[ptr[newest[t]] + e]
                        weight = values[ptr[newest[t]] + e]
                    if not done[node] and weight > best[node]:
                        best[node] = weight
                        heap_size = push(heap, heap_size, -weight, node)
            n_newest = 0
            while heap_size > 0 and n_reached < n_wanted:
                minus, node = unpacked(heap[0])
                weight = -minus
                stale = done[node] or weight < best[node]  # was reached by a better edge meanwhile
                if not stale and n_newest > 0 and weight <= threshold:
                    break
                heap_size = pop(heap, heap_size)
                if not stale:
                    done[node] = True
                    out[row, n_reached] = node
                    n_reached += 1
                    newest[n_newest] = node
                    n_newest += 1
            if n_newest == 0:
                break
        counts[row] = n_reached
