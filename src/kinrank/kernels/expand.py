"""Weighted sums of vectors, and the refined lists of SuperGlobal."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import helper, inner, kernel, summing_kernel
from kinrank.kernels.search import inner_product
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@summing_kernel
def weighted_sums(low, high, rows, gallery, ids, weights, out):
    """The unit vector along weights[i, 0] rows[i] + sum of weights[i, t + 1] gallery[ids[i, t]].

    A sum of length zero leaves the row as it is.
    """
    d = rows.shape[1]
    total = np.empty(d, np.float32)
    mine = np.empty(d, np.float32)
    space = np.empty(d, np.float32)
    for row in range(low, high):
        own = row_of(rows, row, mine)
        for c in range(total.shape[0]):
            total[c] = weights[row, 0] * own[c]
        for t in range(ids.shape[1]):
            weight = weights[row, t + 1]
            other = row_of(gallery, ids[row, t], space)
            for c in range(total.shape[0]):
                total[c] += weight * other[c]
        square = 0.0
        for c in range(total.shape[0]):
            square += np.float64(total[c]) * total[c]
        norm = np.sqrt(square)
        for c in range(total.shape[0]):
            out[row, c] = total[c] / norm if norm > 0 else own[c]


@helper
def similar_members(member, place, places, members, rows, neighbors, best, keys, spaces):
    """The most similar members of a list to one of them: |y|^2 - 2 xy and places, ascending.

    member, place : a gallery row and its place in the list; places : (n,) of all rows, -1 for none
    rows, neighbors : see ``refined_scores``; where a row's neighbours are not enough to tell, it is
        compared with all members
    best, keys : room for as many as are wanted. Returns how many there are.
    """
    gallery, norms, largest = rows
    ids = neighbors[0][member]
    squared = neighbors[1][member]
    size = np.int64(0)
    k = best.shape[0]
    sure = k == 0
    for t in range(ids.shape[0]):
        sure = sure or (size == k and squared[t] - largest > best[0])
        if sure:
            break
        at = places[ids[t]]
        if at >= 0 and at != place:
            size = heap_offer(best, keys, size, k, squared[t] - norms[ids[t]], at)
    if not sure:
        size = np.int64(0)
        x = row_of(gallery, member, spaces[0])
        for at in range(members.shape[0]):
            if at != place:
                y = row_of(gallery, members[at], spaces[1])
                value = squared_distance(x, y) - norms[members[at]]
                size = heap_offer(best, keys, size, k, value, np.int32(at))
    sort_heap(best, keys, size)
    return size


@inner
def mean_of(values, keys, weights, sizes, at):
    """What member ``at`` and its most similar have in the mean, of a value for each member."""
    total = np.float64(values[at])
    norm = 1.0
    for t in range(sizes[at]):
        total += weights[at, t] * values[keys[at, t]]
        norm += weights[at, t]
    return total / norm


@helper
def add_largest(at, members, gallery, keys, weights, sizes, total, space, largest):
    """Raise ``largest`` to the components of a refined member where these are more."""
    norm = 1.0
    x = row_of(gallery, members[at], space)
    for c in range(total.shape[0]):
        total[c] = x[c]
    for t in range(sizes[at]):
        weight = weights[at, t]
        y = row_of(gallery, members[keys[at, t]], space)
        norm += weight
        for c in range(total.shape[0]):
            total[c] += weight * y[c]
    for c in range(total.shape[0]):
        largest[c] = max(largest[c], np.float32(total[c] / norm))


@kernel
def refined_scores(low, high, queries, rows, first, neighbors, k, beta, out):
    """The scores of each query's list, (n_queries, m), after SuperGlobal.

    rows : the gallery, |y|^2 of its rows, and the largest of these
    first : the lists and their squared distances, m columns or more
    neighbors : the nearest rows of gallery rows and their squared distances, ascending
    k : how many members one is refined by
    """
    gallery, norms, _ = rows
    m = out.shape[1]
    d = gallery.shape[1]
    places = np.full(norms.shape[0], -1, np.int32)
    best = np.empty((m, k), np.float32)
    keys = np.empty((m, k), np.int32)
    weights = np.empty((m, k))
    sizes = np.empty(m, np.int64)
    similarity = np.empty(m)
    direct = np.empty(m)
    spaces = np.empty((2, d), np.float32)
    top = np.empty(min(k + 1, m), np.float32)
    chosen = np.empty(min(k + 1, m), np.int32)
    total = np.empty(d)
    largest = np.empty(d, np.float32)
    for row in range(low, high):
        members = first[0][row, :m]
        query = queries[row]
        norm = 0.0
        for c in range(d):
            norm += np.float64(query[c]) * query[c]
        for at in range(m):
            places[members[at]] = at
            similarity[at] = (norm + norms[members[at]] - first[1][row, at]) / 2
        for at in range(m):
            member = members[at]
            sizes[at] = similar_members(
                member, at, places, members, rows, neighbors, best[at], keys[at], spaces
            )
            for t in range(sizes[at]):
                weights[at, t] = beta * (norms[member] - np.float64(best[at, t])) / 2
        size = np.int64(0)
        for at in range(m):
            places[members[at]] = -1
            direct[at] = mean_of(similarity, keys, weights, sizes, at)
            score = np.float32(-direct[at])
            size = heap_offer(top, chosen, size, top.shape[0], score, np.int32(at))
        largest[:] = -np.inf
        for t in range(size):
            add_largest(
                chosen[t], members, gallery, keys, weights, sizes, total, spaces[0], largest
            )
        for at in range(m):
            similarity[at] = inner_product(largest, row_of(gallery, members[at], spaces[0]))
        for at in range(m):
            score = mean_of(similarity, keys, weights, sizes, at)
            out[row, at] = (direct[at] + score) / 2
