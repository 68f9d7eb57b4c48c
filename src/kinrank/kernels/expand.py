"""Weighted sums of vectors (query expansion), and the refined lists of SuperGlobal.

SuperGlobal ranks the m members of a query's list again. Every member is refined: averaged with the
members that are most similar to it. The score is the mean of two similarities of the refined
member: to the query, and to the refined query, whose components are the largest ones of the first
refined members.
Vectors are (n, d), float32 or the bits of float16. Similarity is the inner product xy. Members are
kept by |x|^2 - 2 xy, the squared distance of x and y less |y|^2: in the order of falling xy for one
x.

Functions under ``kernel`` and ``summing_kernel`` are called from Python, those under ``helper`` and
``inner`` by kernels; the sums of ``summing_kernel`` may be regrouped (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import helper, inner, kernel, summing_kernel
from kinrank.kernels.search import inner_product
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@summing_kernel
def weighted_sums(low, high, rows, gallery, ids, weights, out):
    """The unit vector along weights[i, 0] rows[i] + sum of weights[i, t + 1] gallery[ids[i, t]].

    For rows [low, high). A sum of length zero leaves the row as it is.
    ids : (n, k) int32; weights : (n, k + 1); out : (n, d) float32, the output
    """
    d = rows.shape[1]
    total = np.empty(d, np.float32)
    x_buffer = np.empty(d, np.float32)
    y_buffer = np.empty(d, np.float32)
    for row in range(low, high):
        x = row_of(rows, row, x_buffer)
        for c in range(total.shape[0]):
            total[c] = weights[row, 0] * x[c]
        for t in range(ids.shape[1]):
            weight = weights[row, t + 1]
            y = row_of(gallery, ids[row, t], y_buffer)
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
    member_number,
    members,
    position,
    gallery,
    norms,
    largest_norm,
    neighbor_ids,
    neighbor_squared,
    values,
    positions,
    x_buffer,
    y_buffer,
):
    """The members of a list that are most similar to its member ``member_number``, those first.

    members : (m,) the gallery rows of the list; position : (n,) int32, where each row is in it, -1
        for none
    gallery, norms, largest_norm : vectors of the gallery, |y|^2 of each, the largest of these
    neighbor_ids, neighbor_squared : (n, K) the nearest rows of gallery rows and their squared
        distances, ascending; where they are not enough to tell, the member is compared with all
    values, positions : (k,) float32 and int32, |x|^2 - 2 xy of the member x and each of the k most
        similar y, and where these are in the list; only as many are written as there are
    x_buffer, y_buffer : (d,) float32, scratch for decoding float16
    Returns how many there are, at most k.
    """
    member = members[member_number]
    ids = neighbor_ids[member]
    squared = neighbor_squared[member]
    size = np.int64(0)
    k = values.shape[0]
    is_sure = k == 0
    for t in range(ids.shape[0]):
        is_sure = is_sure or (size == k and squared[t] - largest_norm > values[0])
        if is_sure:
            break
        other = position[ids[t]]
        if other >= 0 and other != member_number:
            size = heap_offer(values, positions, size, k, squared[t] - norms[ids[t]], other)
    if not is_sure:
        size = np.int64(0)
        x = row_of(gallery, member, x_buffer)
        for other in range(members.shape[0]):
            if other != member_number:
                y = row_of(gallery, members[other], y_buffer)
                value = squared_distance(x, y) - norms[members[other]]
                size = heap_offer(values, positions, size, k, value, np.int32(other))
    sort_heap(values, positions, size)
    return size


@inner
def refined_value(member_number, values, positions, weights):
    """The weighted mean of a value over a member, at weight 1, and those most similar to it.

    member_number : its place in the list; values : (m,) of all members
    positions, weights : the most similar members' places in the list, and their weights
    """
    total = np.float64(values[member_number])
    norm = 1.0
    for t in range(positions.shape[0]):
        total += weights[t] * values[positions[t]]
        norm += weights[t]
    return total / norm


@helper
def raise_largest(member_number, members, gallery, positions, weights, total, buffer, largest):
    """Set each component of ``largest`` to the larger of itself and that of the refined member.

    The refined member is the weighted mean of its vector, at weight 1, and those of the members
    that are most similar to it.
    member_number, positions, weights : as in ``refined_value``; gallery : (n, d) vectors
    members : (m,) int32, the gallery rows of the list
    total : (d,) float64, buffer : (d,) float32, scratch; ``buffer`` is for decoding float16
    largest : (d,) float32, changed
    """
    norm = 1.0
    x = row_of(gallery, members[member_number], buffer)
    for c in range(total.shape[0]):
        total[c] = x[c]
    for t in range(positions.shape[0]):
        weight = weights[t]
        y = row_of(gallery, members[positions[t]], buffer)
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
    """The scores of the first m members of each query's list, larger is better.

    For queries [low, high). queries, gallery : vectors
    norms, largest_norm : |y|^2 of gallery rows, and the largest of these
    lists, list_squared : (n_queries, m or more) gallery rows and their squared distances
    neighbor_ids, neighbor_squared : (n, K) the nearest rows of gallery rows and their squared
        distances, ascending
    k : how many members one is refined by; beta : the weight of a similarity
    out : (n_queries, m) float32, the output
    """
    m = out.shape[1]
    d = gallery.shape[1]
    position = np.full(norms.shape[0], -1, np.int32)
    values = np.empty((m, k), np.float32)
    positions = np.empty((m, k), np.int32)
    weights = np.empty((m, k))
    sizes = np.empty(m, np.int64)
    similarity = np.empty(m)
    query_scores = np.empty(m)
    x_buffer = np.empty(d, np.float32)
    y_buffer = np.empty(d, np.float32)
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
        for member_number in range(m):
            position[members[member_number]] = member_number
            similarity[member_number] = (
                query_norm + norms[members[member_number]] - list_squared[row, member_number]
            ) / 2
        for member_number in range(m):
            sizes[member_number] = similar_members(
                member_number,
                members,
                position,
                gallery,
                norms,
                largest_norm,
                neighbor_ids,
                neighbor_squared,
                values[member_number],
                positions[member_number],
                x_buffer,
                y_buffer,
            )
            for t in range(sizes[member_number]):
                weights[member_number, t] = (
                    beta
                    * (norms[members[member_number]] - np.float64(values[member_number, t]))
                    / 2
                )
        size = np.int64(0)
        for member_number in range(m):
            position[members[member_number]] = -1
            query_scores[member_number] = refined_value(
                member_number,
                similarity,
                positions[member_number, : sizes[member_number]],
                weights[member_number, : sizes[member_number]],
            )
            score = np.float32(-query_scores[member_number])
            size = heap_offer(
                best_values, best, size, best.shape[0], score, np.int32(member_number)
            )
        largest[:] = -np.inf
        for t in range(size):
            member_number = best[t]
            raise_largest(
                member_number,
                members,
                gallery,
                positions[member_number, : sizes[member_number]],
                weights[member_number, : sizes[member_number]],
                total,
                x_buffer,
                largest,
            )
        for member_number in range(m):
            similarity[member_number] = inner_product(
                largest, row_of(gallery, members[member_number], x_buffer)
            )
        for member_number in range(m):
            score = refined_value(
                member_number,
                similarity,
                positions[member_number, : sizes[member_number]],
                weights[member_number, : sizes[member_number]],
            )
            out[row, member_number] = (query_scores[member_number] + score) / 2
