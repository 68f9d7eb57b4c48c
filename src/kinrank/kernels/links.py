"""Links between rows: from lists of results to similarities, and what is computed over them.

A sparse matrix is ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]], ascending,
and the values in the same places (CSR).

Functions under ``kernel`` and ``filling`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, kernel
from kinrank.kernels.lists import sort_pairs
from kinrank.kernels.merging import product
from kinrank.kernels.rows import sort_ids


@kernel
def listed_links(low, high, indices, distances, least):
    """The results of rows [low, high) as a sparse matrix of distances, without the row itself.

    indices, distances : (n, k) int32 and float32, the results of each row, nearest first, -1 for
        none; a row that is not among its own results has one more than others, and loses the last
    least : the similarity, 1 less the distance, that a link must have more of
    Returns the length of each row, and the columns and distances of all of them.
    """
    k = indices.shape[1]
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty((high - low) * k, np.int32)
    values = np.empty((high - low) * k, np.float32)
    size = 0
    for row in range(low, high):
        begin = size
        for t in range(k):
            other = indices[row, t]
            is_link = other >= 0 and other != row and size - begin < k - 1
            if is_link and 1.0 - np.float64(distances[row, t]) > least:
                ids[size] = other
                values[size] = distances[row, t]
                size += 1
        sort_pairs(ids[begin:size], values[begin:size])
        lengths[row - low] = size - begin
    return lengths, ids[:size].copy(), values[:size].copy()


@kernel
def nearer_rows(low, high, a_ptr, a_ids, a_values, b_ptr, b_ids, b_values):
    """Rows [low, high) of a matrix with the entries of two, the lesser value where both have one.

    Returns the length of each row, and the columns and values of all of them.
    """
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty(a_ptr[high] - a_ptr[low] + b_ptr[high] - b_ptr[low], np.int32)
    values = np.empty(ids.shape[0], np.float32)
    size = 0
    for row in range(low, high):
        a = a_ptr[row]
        b = b_ptr[row]
        row_begin = size
        a_end = a_ptr[row + 1]
        b_end = b_ptr[row + 1]
        while a < a_end or b < b_end:
            take_a = a < a_end and (b == b_end or a_ids[a] <= b_ids[b])
            take_b = b < b_end and (a == a_end or b_ids[b] <= a_ids[a])
            value = np.float32(np.inf)
            if take_a:
                ids[size] = a_ids[a]
                value = a_values[a]
                a += 1
            if take_b:
                ids[size] = b_ids[b]
                value = min(value, b_values[b])
                b += 1
            values[size] = value
            size += 1
        lengths[row - low] = size - row_begin
    return lengths, ids[:size].copy(), values[:size].copy()


@kernel
def mean_similarity_rows(low, high, a_ptr, a_ids, a_values, b_ptr, b_ids, b_values):
    """Rows [low, high) of the mean of two matrices of similarities, given as distances.

    A similarity is 1 less the distance, and 0 where there is no entry.
    Returns the length of each row, and the columns and similarities of all of them.
    """
    lengths = np.zeros(high - low, np.int64)
    ids = np.empty(a_ptr[high] - a_ptr[low] + b_ptr[high] - b_ptr[low], np.int32)
    values = np.empty(ids.shape[0], np.float32)
    size = 0
    for row in range(low, high):
        a = a_ptr[row]
        b = b_ptr[row]
        row_begin = size
        a_end = a_ptr[row + 1]
        b_end = b_ptr[row + 1]
        while a < a_end or b < b_end:
            take_a = a < a_end and (b == b_end or a_ids[a] <= b_ids[b])
            take_b = b < b_end and (a == a_end or b_ids[b] <= a_ids[a])
            similarity = 0.0
            if take_a:
                ids[size] = a_ids[a]
                similarity += 1.0 - np.float64(a_values[a])
                a += 1
            if take_b:
                ids[size] = b_ids[b]
                similarity += 1.0 - np.float64(b_values[b])
                b += 1
            values[size] = similarity / 2.0
            size += 1
        lengths[row - low] = size - row_begin
    return lengths, ids[:size].copy(), values[:size].copy()


@filling
def nearest_linked(low, high, ptr, ids, directions, out):
    """The greatest cosine of each row of [low, high) to a row that it has a link to; -1 without.

    ptr, ids : the links; directions : (n, m) float32, unit rows; out : (n,) float64, the output
    """
    for row in range(low, high):
        best = -1.0
        for e in range(ptr[row], ptr[row + 1]):
            best = max(best, product(directions[row], directions[ids[e]]))
        out[row] = best


@kernel
def leaf_links(links, single, leaves, leaf_ptr, leaf_rows, more, out_ids, out_sums, out_apart):
    """The links between leaves, which are sets of rows: sums over the links of their rows.

    links : (ptr, ids, values), similarities between the n rows
    single : (n,) bool, rows whose links do not count
    leaves : (n,) the leaf of each row; leaf l has the rows leaf_rows[leaf_ptr[l]:leaf_ptr[l + 1]]
    more : (ptr, ids, sums, apart), further pairs of leaves by leaf, both ways: what is added to the
        sum of a pair, and whether it must stay apart
    out_ids, out_sums, out_apart : int32, float64 and bool, as long as both together; the pairs of
        each leaf, ascending, are written one leaf behind the other
    Returns (n_leaves + 1,) where the pairs of each leaf begin.
    """
    ptr, ids, values = links
    more_ptr, more_ids, more_sums, more_apart = more
    n = leaf_ptr.shape[0] - 1
    totals = np.zeros(n)
    apart = np.zeros(n, np.bool_)
    seen = np.full(n, -1)
    out_ptr = np.zeros(n + 1, np.int64)
    size = 0
    for leaf in range(n):
        begin = size
        for t in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
            row = leaf_rows[t]
            if single[row]:
                continue
            for e in range(ptr[row], ptr[row + 1]):
                other = leaves[ids[e]]
                if other == leaf or single[ids[e]]:
                    continue
                if seen[other] != leaf:
                    seen[other] = leaf
                    totals[other] = 0.0
                    apart[other] = False
                    out_ids[size] = other
                    size += 1
                totals[other] += values[e]
        for e in range(more_ptr[leaf], more_ptr[leaf + 1]):
            other = more_ids[e]
            if seen[other] != leaf:
                seen[other] = leaf
                totals[other] = 0.0
                apart[other] = False
                out_ids[size] = other
                size += 1
            totals[other] += more_sums[e]
            apart[other] |= more_apart[e]
        sort_ids(out_ids, begin, size)
        for e in range(begin, size):
            out_sums[e] = totals[out_ids[e]]
            out_apart[e] = apart[out_ids[e]]
        out_ptr[leaf + 1] = size
    return out_ptr


@filling
def add_to_leaves(leaves, directions, out):
    """Sums of the directions of the rows of each leaf.

    leaves : (n,) the leaf of each row; directions : (n, m) float32
    out : (n_leaves, m) float32, zeros before
    """
    for row in range(leaves.shape[0]):
        centre = out[leaves[row]]
        for column in range(directions.shape[1]):
            centre[column] += directions[row, column]
