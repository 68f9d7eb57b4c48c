"""One query against many rows: all exact distances, and the first k of them."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, kernel
from kinrank.kernels.search import inner_product
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, select_rank, sort_heap, squared_distance

GROUPS = 1024


@helper
def bound_of(values, rank):
    """A value that at least ``rank`` of ``values`` do not exceed: the rank-th group minimum."""
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
    """The smallest values and their ids, ascending by (value, id); returns how many there are.

    ids : of the values; empty where their positions are meant
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
    """The nearest rows of queries [low, high) among all, ascending by (value, number).

    numbers : (n,) the number of each row, or empty where that is its position
    inner : by minus the inner product, not by the squared Euclidean distance
    out_ids, out : (n_queries, k) numbers and values
    """
    values = np.empty(rows.shape[0], np.float32)
    space = np.empty(rows.shape[1], np.float32)
    for at in range(low, high):
        x = queries[at]
        for j in range(rows.shape[0]):
            y = row_of(rows, j, space)
            values[j] = -inner_product(x, y) if inner else squared_distance(x, y)
        first_values(values, numbers, out_ids[at], out[at])


@kernel
def search_cells(low, high, queries, rows, numbers, centres, ptr, members, probes, out_ids, out):
    """The nearest rows of queries [low, high) among those of the cells that are nearest to them.

    numbers : (n,) the number of each row, for the result and for ties
    centres, ptr, members : the centres of the cells, and the rows of each
    probes : how many cells, or more until there are k rows
    """
    k = out.shape[1]
    n_cells = centres.shape[0]
    to_centres = np.empty(n_cells, np.float32)
    order = np.arange(n_cells).astype(np.int32)
    nearest = np.empty(n_cells, np.int32)
    nearest_d = np.empty(n_cells, np.float32)
    for at in range(low, high):
        x = queries[at]
        for c in range(n_cells):
            to_centres[c] = squared_distance(x, centres[c])
        n_sorted = min(4 * probes, n_cells)  # rarely more cells are needed than these
        first_values(to_centres, order, nearest[:n_sorted], nearest_d[:n_sorted])
        count = 0
        size = np.int64(0)
        while count < n_cells and (count < probes or size < k):
            if count == n_sorted:
                n_sorted = n_cells
                first_values(to_centres, order, nearest, nearest_d)
            size += ptr[nearest[count] + 1] - ptr[nearest[count]]
            count += 1
        ids = np.empty(size, np.int32)
        values = np.empty(size, np.float32)
        filled = 0
        for t in range(count):
            for e in range(ptr[nearest[t]], ptr[nearest[t] + 1]):
                row = members[e]
                ids[filled] = numbers[row]
                values[filled] = squared_distance(x, rows[row])
                filled += 1
        first_values(values, ids, out_ids[at], out[at])


@kernel
def farthest_of(low, high, queries, rows, out):
    """The largest squared distance of queries [low, high) to any row."""
    space = np.empty(queries.shape[1], np.float32)
    for at in range(low, high):
        x = row_of(queries, at, space)
        largest = np.float32(0)
        for t in range(rows.shape[0]):
            largest = max(largest, squared_distance(x, rows[t]))
        out[at] = largest


@filling
def pair_distances(queries, owners, vectors, rows, out):
    """Squared distances from queries[owners[t]] to vectors[rows[t]]."""
    for t in range(owners.shape[0]):
        out[t] = squared_distance(queries[owners[t]], vectors[rows[t]])
