"""One query against many rows: all exact distances, and the first k of them.

Vectors are (n, d), float32 or the bits of float16. A value is the squared Euclidean distance, or
minus the inner product: the smaller the nearer.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``helper`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, kernel
from kinrank.kernels.search import inner_product
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, select_rank, sort_heap, squared_distance

GROUPS = 1024  # of values, whose minima give a bound


@helper
def bound_of(values, rank):
    """A value that at least ``rank`` of ``values`` do not exceed; infinite where there are too few.

    It is the rank-th smallest of the minima of GROUPS groups of values.
    values : (n,) float32; rank : at least 1
    """
    if 2 * rank > GROUPS or values.shape[0] < 2 * GROUPS:
        return np.float32(np.inf)
    least = values[:GROUPS].copy()
    for begin in range(GROUPS, values.shape[0] - GROUPS + 1, GROUPS):
        part = values[begin : begin + GROUPS]
        for t in range(GROUPS):
            least[t] = part[t] if part[t] < least[t] else least[t]
    return select_rank(least, rank)


@helper
def first_values(values, ids, out_ids, out):
    """The smallest of ``values`` and their ids, ascending by (value, id).

    ids : of the values; empty where their positions are meant
    out_ids, out : (k,) int32 and float32, of which as many are written as there are values
    Returns how many are written, at most k.
    """
    k = out.shape[0]
    has_ids = ids.shape[0] > 0
    limit = bound_of(values, min(k, values.shape[0]))
    size = np.int64(0)
    for t in range(values.shape[0]):
        if values[t] <= limit:
            key = ids[t] if has_ids else np.int32(t)
            size = heap_offer(out, out_ids, size, k, values[t], key)
            if size == k:
                limit = min(limit, out[0])
    sort_heap(out, out_ids, size)
    return size


@kernel
def search_rows(low, high, queries, rows, numbers, inner, out_ids, out):
    """The nearest of ``rows`` to queries [low, high), ascending by (value, number).

    queries, rows : vectors
    numbers : (n,) int32, the number that stands for each row in results and in ties; empty where
        that is its position
    inner : by minus the inner product, not by the squared Euclidean distance
    out_ids, out : (n_queries, k) int32 and float32, k at most n, the output: numbers and values
    """
    values = np.empty(rows.shape[0], np.float32)
    buffer = np.empty(rows.shape[1], np.float32)
    for query in range(low, high):
        x = queries[query]
        for j in range(rows.shape[0]):
            y = row_of(rows, j, buffer)
            values[j] = -inner_product(x, y) if inner else squared_distance(x, y)
        first_values(values, numbers, out_ids[query], out[query])


@kernel
def search_cells(low, high, queries, rows, numbers, centres, ptr, members, probes, out_ids, out):
    """The nearest rows to queries [low, high) among those of the cells that are nearest to them.

    queries, rows : (n_queries, d), (n, d) float32; ascending by (squared distance, number)
    numbers : (n,) int32, the number that stands for each row in results and in ties
    centres : (cells, d); ptr, members : cell c has the rows members[ptr[c]:ptr[c + 1]]
    probes : how many cells are searched, or more until there are k rows
    out_ids, out : (n_queries, k) numbers and squared distances, the output
    """
    k = out.shape[1]
    n_cells = centres.shape[0]
    centre_distances = np.empty(n_cells, np.float32)
    cell_numbers = np.arange(n_cells).astype(np.int32)
    nearest_cells = np.empty(n_cells, np.int32)
    nearest_squared = np.empty(n_cells, np.float32)
    for query in range(low, high):
        x = queries[query]
        for c in range(n_cells):
            centre_distances[c] = squared_distance(x, centres[c])
        n_sorted = min(4 * probes, n_cells)  # rarely more cells are needed than these
        first_values(
            centre_distances, cell_numbers, nearest_cells[:n_sorted], nearest_squared[:n_sorted]
        )
        n_cells_used = 0
        n_rows = np.int64(0)
        while n_cells_used < n_cells and (n_cells_used < probes or n_rows < k):
            if n_cells_used == n_sorted:
                n_sorted = n_cells
                first_values(centre_distances, cell_numbers, nearest_cells, nearest_squared)
            n_rows += ptr[nearest_cells[n_cells_used] + 1] - ptr[nearest_cells[n_cells_used]]
            n_cells_used += 1
        ids = np.empty(n_rows, np.int32)
        values = np.empty(n_rows, np.float32)
        filled = 0
        for t in range(n_cells_used):
            for e in range(ptr[nearest_cells[t]], ptr[nearest_cells[t] + 1]):
                row = members[e]
                ids[filled] = numbers[row]
                values[filled] = squared_distance(x, rows[row])
                filled += 1
        first_values(values, ids, out_ids[query], out[query])


@kernel
def farthest_of(low, high, queries, rows, out):
    """The largest squared distance of queries [low, high) to any of ``rows``; out : the output."""
    buffer = np.empty(queries.shape[1], np.float32)
    for query in range(low, high):
        x = row_of(queries, query, buffer)
        largest = np.float32(0)
        for t in range(rows.shape[0]):
            largest = max(largest, squared_distance(x, rows[t]))
        out[query] = largest


@filling
def pair_distances(queries, owners, vectors, rows, out):
    """out[t] = the squared distance from queries[owners[t]] to vectors[rows[t]], for all t."""
    for t in range(owners.shape[0]):
        out[t] = squared_distance(queries[owners[t]], vectors[rows[t]])
