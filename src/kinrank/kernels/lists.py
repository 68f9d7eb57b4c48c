"""Lists of neighbours and sparse rows: moved, sorted and weighted, row by row.

A list has the K nearest of a row, itself first, -1 behind the end of a short one: (n, K) int32. A
sparse matrix is ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]], and the values
in the same places. ``out`` and names that begin with ``out_`` are the output.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.rows import sort_ids


@filling
def gather_lists(
    low, high, order, position, lists, squared, farthest, out_ids, out_squared, out_farthest
):
    """Rows [low, high) of lists whose rows are put into another order.

    order : (n,) int32, row i was row order[i] before; position : (n,) int32, its inverse
    lists, squared, farthest : (n, K), (n, K), (n,) as before: lists, squared distances, and
        the largest squared distance of each row
    """
    for row in range(low, high):
        old = order[row]
        out_farthest[row] = farthest[old]
        for t in range(lists.shape[1]):
            old_neighbor = lists[old, t]
            out_ids[row, t] = position[old_neighbor] if old_neighbor >= 0 else old_neighbor
            out_squared[row, t] = squared[old, t]


@filling
def gather_rows(low, high, order, vectors, out):
    """out[i] = vectors[order[i]] for rows [low, high); vectors, out : (n, d), order : (n,)."""
    for row in range(low, high):
        source = order[row]
        for t in range(vectors.shape[1]):
            out[row, t] = vectors[source, t]


@filling
def sorted_lists(low, high, lists, first, last, out):
    """Columns [first, last) of the lists of rows [low, high), ascending by row, -1 in front.

    lists : (n, K) int32; out : (n, last - first) int32, the output
    """
    for row in range(low, high):
        row_out = out[row]
        for t in range(first, last):
            row_out[t - first] = lists[row, t]
        sort_ids(row_out, np.int64(0), last - first)


@inner
def sort_pairs(ids, values):
    """Sort ids ascending in place, and values with them (shell sort: rows are short)."""
    size = ids.shape[0]
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for t in range(gap, size):
            key = ids[t]
            value = values[t]
            slot = t
            while slot >= gap and ids[slot - gap] > key:
                ids[slot] = ids[slot - gap]
                values[slot] = values[slot - gap]
                slot -= gap
            ids[slot] = key
            values[slot] = value
        gap //= 3


@filling
def sorted_weights(low, high, lists, first, weights, out_ids, out):
    """Columns [first, first + k) of each list, ascending by row number, with their weights.

    weights : (n, k), of list columns first to first + k; out_ids, out : (n, k) row numbers, weights
    """
    for row in range(low, high):
        for t in range(weights.shape[1]):
            out_ids[row, t] = lists[row, first + t]
            out[row, t] = weights[row, t]
        sort_pairs(out_ids[row], out[row])


@filling
def sorted_rows(low, high, ptr, ids, values, out_ids, out):
    """Rows [low, high) of a sparse matrix, each ascending by column; on the same ptr."""
    for row in range(low, high):
        entries = slice(ptr[row], ptr[row + 1])
        for e in range(ptr[row], ptr[row + 1]):
            out_ids[e] = ids[e]
            out[e] = values[e]
        sort_pairs(out_ids[entries], out[entries])


@filling
def row_sums(low, high, ptr, values, out):
    """The sum of each of rows [low, high) of a sparse matrix; out : (n,) float64."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += values[e]
        out[row] = total


@filling
def unit_rows(low, high, ptr, values, out):
    """Rows [low, high) over their sum, so that it is 1; a row of sum 0 becomes uniform."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += values[e]
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] / total if total > 0 else 1.0 / (ptr[row + 1] - ptr[row])


@filling
def euclidean_rows(low, high, ptr, values, out):
    """Rows [low, high) over their Euclidean norm, so that it is 1; a row of zeros stays so."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += np.float64(values[e]) * np.float64(values[e])
        norm = np.sqrt(total) if total > 0 else 1.0
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] / norm


@filling
def scaled_rows(low, high, ptr, ids, values, factors, out):
    """out_ij = values_ij factors_i factors_j for rows [low, high); factors : (n,)."""
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] * factors[row] * factors[ids[e]]


@filling
def confident_rows(low, high, ptr, values, is_confident, kappa, out):
    """Values of rows [low, high) times kappa where ``is_confident`` is 1, unchanged where it is 0.

    is_confident : float32, 0 or 1 for each entry
    """
    gain = np.float32(kappa - 1)
    for e in range(ptr[low], ptr[high]):
        out[e] = values[e] * (np.float32(1) + gain * is_confident[e])


@filling
def walk_rows(low, high, lists, weights, out_ids, out):
    """P of the two-step walk that guides the smoothing: neighbours with weights of sum 1.

    lists : (n, K), the row itself first; weights : (n, k) of the k neighbours behind it
    out_ids, out : (n, k) columns and values of P; in place of -1 behind the end of a list stands
        the row itself, whose weight is 0
    """
    for row in range(low, high):
        total = 0.0
        for t in range(weights.shape[1]):
            total += weights[row, t]
        for t in range(weights.shape[1]):
            other = lists[row, t + 1]
            out_ids[row, t] = other if other >= 0 else row
            out[row, t] = weights[row, t] / (total if total > 0 else 1.0)


@filling
def enhancing_rows(low, high, lists, k, kappa, xi_ptr, xi_ids, ptr, out_ids, out):
    """Whose rows of F are averaged for each of rows [low, high), and their weights.

    The enhanced row is (mean of the rows of N(i, k) + kappa times the mean of those of xi[i]), but
    for a factor: 1 / k for the first k of the list, then kappa / |xi[i]| for the members of xi[i],
    the confident neighbours. A list of fewer than k is averaged over these; the row itself, at
    weight 0, stands for the rest.
    lists : (n, K); xi_ptr, xi_ids : xi[i] is xi_ids[xi_ptr[i]:xi_ptr[i + 1]]
    ptr : where the output of each row begins: it is a sparse matrix with k + |xi[i]| entries a row
    """
    for row in range(low, high):
        begin = ptr[row]
        count = k
        while lists[row, count - 1] < 0:
            count -= 1
        for t in range(k):
            out_ids[begin + t] = lists[row, t] if t < count else lists[row, 0]
            out[begin + t] = 1.0 / count if t < count else 0.0
        xi_size = xi_ptr[row + 1] - xi_ptr[row]
        for t in range(xi_size):
            out_ids[begin + k + t] = xi_ids[xi_ptr[row] + t]
            out[begin + k + t] = kappa / xi_size


@kernel
def without_diagonal(low, high, ptr, ids, values):
    """Rows [low, high) of a sparse matrix without the diagonal, and without entries of 0 or less.

    Returns the length of each row, and the columns and values of all of them.
    """
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty(ptr[high] - ptr[low], np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    size = 0
    for row in range(low, high):
        row_begin = size
        for e in range(ptr[row], ptr[row + 1]):
            if ids[e] != row and values[e] > 0:
                out_ids[size] = ids[e]
                out[size] = values[e]
                size += 1
        lengths[row - low] = size - row_begin
    return lengths, out_ids[:size].copy(), out[:size].copy()


@kernel
def cleaned_lists(low, high, lists, distances, out_ids, out_distances, counts):
    """Lists that begin with the row itself, and hold no row twice and no gaps.

    lists, distances : (n, K) as users brought them, nearest first; -1 or infinity for none
    out_ids, out_distances : (n, K + 1), -1 and infinity behind the end
    counts : (n,) int64, how long each list is then
    """
    seen = np.full(lists.shape[0], -1, np.int32)
    for row in range(low, high):
        seen[row] = row
        out_ids[row, 0] = row
        out_distances[row, 0] = 0
        size = 1
        for t in range(lists.shape[1]):
            other = lists[row, t]
            if other >= 0 and seen[other] != row and np.isfinite(distances[row, t]):
                seen[other] = row
                out_ids[row, size] = other
                out_distances[row, size] = distances[row, t]
                size += 1
        counts[row] = size
        for t in range(size, out_distances.shape[1]):
            out_ids[row, t] = -1
            out_distances[row, t] = np.float32(np.inf)
