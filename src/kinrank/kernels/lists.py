"""Lists of neighbours and rows of matrices: moved, sorted and weighted, row by row."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.rows import sort_ids


@filling
def gather_lists(low, high, names, places, lists, distances, farthest, out_ids, out, out_farthest):
    """Rows [low, high) of lists under new numbers; names : old numbers, places : new ones.

    A list that is shorter than the others ends in -1.
    """
    for row in range(low, high):
        old = names[row]
        out_farthest[row] = farthest[old]
        for t in range(lists.shape[1]):
            other = lists[old, t]
            out_ids[row, t] = places[other] if other >= 0 else other
            out[row, t] = distances[old, t]


@filling
def gather_rows(low, high, names, vectors, out):
    """out[i] = vectors[names[i]]."""
    for row in range(low, high):
        old = names[row]
        for t in range(vectors.shape[1]):
            out[row, t] = vectors[old, t]


@filling
def sorted_lists(low, high, lists, first, last, out):
    """Columns [first, last) of each list, ascending by row number."""
    for row in range(low, high):
        own = out[row]
        for t in range(first, last):
            own[t - first] = lists[row, t]
        sort_ids(own, np.int64(0), last - first)


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
        part = slice(ptr[row], ptr[row + 1])
        for e in range(ptr[row], ptr[row + 1]):
            out_ids[e] = ids[e]
            out[e] = values[e]
        sort_pairs(out_ids[part], out[part])


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
def scaled_rows(low, high, ptr, ids, values, root, out):
    """Entries times the factors of their row and column."""
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = values[e] * root[row] * root[ids[e]]


@filling
def favoured_rows(low, high, ptr, values, favoured, kappa, out):
    """Entries times 1 + (kappa - 1) favoured."""
    more = np.float32(kappa - 1)
    for e in range(ptr[low], ptr[high]):
        out[e] = values[e] * (np.float32(1) + more * favoured[e])


@filling
def walk_rows(low, high, lists, weights, out_ids, out):
    """The rows behind the first of each list, with weights of sum 1.

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
    """1 / k for the first k of each list, then kappa over their number for the members of xi.

    A list of fewer is averaged over these; the row itself, at weight 0, fills its places.
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
    """Lists without the row itself, double entries and gaps, behind the row itself; then -1."""
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
