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
    x_space = np.empty(d, np.float32)
    y_space = np.empty(d, np.float32)
    for row in range(low, high):
        x = row_of(rows, row, x_space)
        for c in range(total.shape[0]):
            total[c] = weights[row, 0] * x[c]
        for t in range(ids.shape[1]):
            weight = weights[row, t + 1]
            y = row_of(gallery, ids[row, t], y_space)
            for c in range(total.shape[0]):
                total[c] += weight * y[c]
        square = 0.0
        for c in range(total.shape[0]):
            square += np.float64(total[c]) * total[c]
        norm = np.sqrt(square)
        for c in range(total.shape[0]):
            out[row, c] = total[c] / norm if norm > 0 else x[c]


@helper
def similar_members(
    at,
    members,
    position,
    gallery,
    norms,
    largest_norm,
    neighbor_ids,
    neighbor_squared,
    values,
    positions,
    x_space,
    y_space,
):
    """The members of a list that are most similar to its member ``at``, nearest first.

    members : the gallery rows of the list; position : (n,) where each row is in it, -1 for none
    gallery to neighbor_squared : see ``refined_scores``; where the neighbours of the member are not
        enough to tell, it is compared with all members
    values, positions : |y|^2 - 2 xy of the most similar, and where they are in the list; room for
        as many as are wanted
    Returns how many there are.
    """
    member = members[at]
    ids = neighbor_ids[member]
    squared = neighbor_squared[member]
    size = np.int64(0)
    k = values.shape[0]
    sure = k == 0
    for t in range(ids.shape[0]):
        sure = sure or (size == k and squared[t] - largest_norm > values[0])
        if sure:
            break
        other = position[ids[t]]
        if other >= 0 and other != at:
            size = heap_offer(values, positions, size, k, squared[t] - norms[ids[t]], other)
    if not sure:
        size = np.int64(0)
        x = row_of(gallery, member, x_space)
        for other in range(members.shape[0]):
            if other != at:
                y = row_of(gallery, members[other], y_space)
                value = squared_distance(x, y) - norms[members[other]]
                size = heap_offer(values, positions, size, k, value, np.int32(other))
    sort_heap(values, positions, size)
    return size


@inner
def refined_value(at, values, positions, weights):
    """The weighted mean of a value over member ``at``, at weight 1, and those most similar to it.

    values : of all members; positions, weights : of the most similar ones
    """
    total = np.float64(values[at])
    norm = 1.0
    for t in range(positions.shape[0]):
        total += weights[t] * values[positions[t]]
        norm += weights[t]
    return total / norm


@helper
def raise_largest(at, members, gallery, positions, weights, total, space, largest):
    """Raise ``largest`` to the components of the refined vector of a member where these are more.

    positions, weights : as in ``refined_value``; total, space : (d,) room
    """
    norm = 1.0
    x = row_of(gallery, members[at], space)
    for c in range(total.shape[0]):
        total[c] = x[c]
    for t in range(positions.shape[0]):
        weight = weights[t]
        y = row_of(gallery, members[positions[t]], space)
        norm += weight
        for c in range(total.shape[0]):
            total[c] += weight * y[c]
    for c in range(total.shape[0]):
        largest[c] = max(largest[c], np.float32(total[c] / norm))


@kernel
def refined_scores(
    low,
    high,
    queries,
    gallery,
    norms,
    largest_norm,
    lists,
    list_squared,
    neighbor_ids,
    neighbor_squared,
    k,
    beta,
    out,
):
    """The scores of each query's list, (n_queries, m), after SuperGlobal.

    norms, largest_norm : |y|^2 of the gallery rows, and the largest of these
    lists, list_squared : the lists of the queries and their squared distances, m columns or more
    neighbor_ids, neighbor_squared : the nearest rows of gallery rows and their squared distances,
        ascending
    k : how many members one is refined by; beta : the weight of a similarity
    """
    m = out.shape[1]
    d = gallery.shape[1]
    position = np.full(norms.shape[0], -1, np.int32)
    values = np.empty((m, k), np.float32)
    positions = np.empty((m, k), np.int32)
    weights = np.empty((m, k))
    sizes = np.empty(m, np.int64)
    similarity = np.empty(m)
    direct = np.empty(m)
    x_space = np.empty(d, np.float32)
    y_space = np.empty(d, np.float32)
    best_values = np.empty(min(k + 1, m), np.float32)
    best = np.empty(min(k + 1, m), np.int32)
    total = np.empty(d)
    largest = np.empty(d, np.float32)
    for row in range(low, high):
        members = lists[row, :m]
        query = queries[row]
        query_norm = 0.0
        for c in range(d):
            query_norm += np.float64(query[c]) * query[c]
        for at in range(m):
            position[members[at]] = at
            similarity[at] = (query_norm + norms[members[at]] - list_squared[row, at]) / 2
        for at in range(m):
            sizes[at] = similar_members(
                at,
                members,
                position,
                gallery,
                norms,
                largest_norm,
                neighbor_ids,
                neighbor_squared,
                values[at],
                positions[at],
                x_space,
                y_space,
            )
            for t in range(sizes[at]):
                weights[at, t] = beta * (norms[members[at]] - np.float64(values[at, t])) / 2
        size = np.int64(0)
        for at in range(m):
            position[members[at]] = -1
            direct[at] = refined_value(
                at, similarity, positions[at, : sizes[at]], weights[at, : sizes[at]]
            )
            score = np.float32(-direct[at])
            size = heap_offer(best_values, best, size, best.shape[0], score, np.int32(at))
        largest[:] = -np.inf
        for t in range(size):
            at = best[t]
            raise_largest(
                at,
                members,
                gallery,
                positions[at, : sizes[at]],
                weights[at, : sizes[at]],
                total,
                x_space,
                largest,
            )
        for at in range(m):
            similarity[at] = inner_product(largest, row_of(gallery, members[at], x_space))
        for at in range(m):
            score = refined_value(
                at, similarity, positions[at, : sizes[at]], weights[at, : sizes[at]]
            )
            out[row, at] = (direct[at] + score) / 2
