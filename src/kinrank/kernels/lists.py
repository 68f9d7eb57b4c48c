"""Lists of neighbours and rows of matrices: moved, sorted and weighted, row by row."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.rows import sort_ids


@filling
def gather_lists(
    low, high, order, position, lists, distances, farthest, out_ids, out, out_farthest
):
    """Rows [low, high) of lists under new numbers.

    order : (n,) the old number of each row; position : (n,) the new number of each old one
    A list that is shorter than the others ends in -1.
    """
    for row in range(low, high):
        old = order[row]
        out_farthest[row] = farthest[old]
        for t in range(lists.shape[1]):
            other = lists[old, t]
            out_ids[row, t] = position[other] if other >= 0 else other
            out[row, t] = distances[old, t]


@filling
def gather_rows(low, high, order, vectors, out):
    """out[i] = vectors[order[i]]."""
    for row in range(low, high):
        vector = order[row]
        for t in range(vectors.shape[1]):
            out[row, t] = vectors[vector, t]


@filling
def sorted_lists(low, high, lists, first, last, out):
    """Columns [first, last) of each list, ascending by row number."""
    for row in range(low, high):
        row_out = out[row]
        for t in range(first, last):
            row_out[t - first] = lists[row, t]
        sort_ids(row_out, np.int64(0), last - first)


@inner
def sort_pairs(ids, values):
    """Sort ids in place, and values with them (shell sort: rows are short)."""
    size = ids.shape[0]
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, size):
            key = ids[at]
            value = values[at]
            back = at
            while back >= gap and ids[back - gap] > key:
                ids[back] = ids[back - gap]
                values[back] = values[back - gap]
                back -= gap
            ids[back] = key
            values[back] = value
        gap //= 3


@filling
def sorted_weights(low, high, lists, first, weights, out_ids, out):
    """As ``sorted_lists``, with weights[i, t] of the row in column first + t."""
    for row in range(low, high):
        for t in range(weights.shape[1]):
            out_ids[row, t] = lists[row, first + t]
            out[row, t] = weights[row, t]
        sort_pairs(out_ids[row], out[row])


@filling
def sorted_rows(low, high, ptr, ids, values, out_ids, out):
    """Rows [low, high) of a matrix with their columns ascending."""
    for row in range(low, high):
        entries = slice(ptr[row], ptr[row + 1])
        for e in range(ptr[row], ptr[row + 1]):
            out_ids[e] = ids[e]
            out[e] = values[e]
        sort_pairs(out_ids[entries], out[entries])


@filling
def row_sums(low, high, ptr, values, out):
    """The sum of each row, in float64."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += values[e]
        out[row] = total


@filling
def unit_rows(low, high, ptr, values, out):
    """Rows of L1 norm 1; a row without weight becomes uniform."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += values[e]
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] / total if total > 0 else 1.0 / (ptr[row + 1] - ptr[row])


@filling
def euclidean_rows(low, high, ptr, values, out):
    """Rows of Euclidean norm 1; a row without weight stays as it is."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += np.float64(values[e]) * np.float64(values[e])
        norm = np.sqrt(total) if total > 0 else 1.0
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] / norm


@filling
def scaled_rows(low, high, ptr, ids, values, factors, out):
    """Entries times the factor of their row and that of their column; factors : (n,)."""
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] * factors[row] * factors[ids[e]]


@filling
def confident_rows(low, high, ptr, values, is_confident, kappa, out):
    """Entries times kappa where ``is_confident`` is 1, unchanged where it is 0."""
    gain = np.float32(kappa - 1)
    for e in range(ptr[low], ptr[high]):
        out[e] = values[e] * (np.float32(1) + gain * is_confident[e])


@filling
def walk_rows(low, high, lists, weights, out_ids, out):
    """P of the smoothing walk: the neighbours of each row, with weights of sum 1.

    lists : the row itself first; weights : (n, k) of the k neighbours behind it
    Behind the end of a shorter list stands the row itself, whose weight is 0.
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
def enhancing_rows(low, high, lists, k, kappa, xi_ptr, xi, ptr, out_ids, out):
    """Whose rows are averaged for a row, and their weights, from out[ptr[row]] on.

    1 / k for the first k of its list, then kappa over their number for the members of xi.
    lists : (n, K); xi_ptr, xi : confident neighbours
    A list of fewer is averaged over these; the row itself, at weight 0, stands for the rest.
    """
    for row in range(low, high):
        at = ptr[row]
        count = k
        while lists[row, count - 1] < 0:
            count -= 1
        for t in range(k):
            out_ids[at + t] = lists[row, t] if t < count else lists[row, 0]
            out[at + t] = 1.0 / count if t < count else 0.0
        size = xi_ptr[row + 1] - xi_ptr[row]
        for t in range(size):
            out_ids[at + k + t] = xi[xi_ptr[row] + t]
            out[at + k + t] = kappa / size


@kernel
def without_diagonal(low, high, ptr, ids, values):
    """Rows without their own column and without zeros; returns lengths, indices, data."""
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty(ptr[high] - ptr[low], np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    at = 0
    for row in range(low, high):
        begin = at
        for e in range(ptr[row], ptr[row + 1]):
            if ids[e] != row and values[e] > 0:
                out_ids[at] = ids[e]
                out[at] = values[e]
                at += 1
        lengths[row - low] = at - begin
    return lengths, out_ids[:at].copy(), out[:at].copy()


@kernel
def cleaned_lists(low, high, lists, distances, out_ids, out, counts):
    """Lists that begin with the row itself, and hold no row twice and no gaps; -1 behind the end.

    lists, distances : as given; counts : (n,) how long each list is then
    """
    seen = np.full(lists.shape[0], -1, np.int32)
    for row in range(low, high):
        seen[row] = row
        out_ids[row, 0] = row
        out[row, 0] = 0
        size = 1
        for t in range(lists.shape[1]):
            other = lists[row, t]
            if other >= 0 and seen[other] != row and np.isfinite(distances[row, t]):
                seen[other] = row
                out_ids[row, size] = other
                out[row, size] = distances[row, t]
                size += 1
        counts[row] = size
        for t in range(size, out.shape[1]):
            out_ids[row, t] = -1
            out[row, t] = np.float32(np.inf)
