"""Answers of an index by shortest paths through its rows."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.fusion import plain_distance
from kinrank.kernels.heap import pop, push, unpacked
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.overlay import named_space, tick
from kinrank.kernels.ranking import compare_query
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

_WAITING = 1024  # rows that the heap has room for at first
_STEPS = 32  # of lengths, by which rows that were reached are counted
_STEP = np.float32(0.25)


@kernel
def near_divergences(
    low, high, neighbors, counts, groups, replaced, ptr, ids, values, rows, workspace
):
    """d' from queries [low, high) to their nearest rows: the edges of the query.

    neighbors : (m, E) the nearest rows; counts : (m,) how many of them there are
    groups to rows : as in ``ranking.answer_rows``
    Returns (high - low, E) float32; 1 for rows that share no column.
    """
    space = named_space(workspace)
    out = np.ones((high - low, neighbors.shape[1]), np.float32)
    for query in range(low, high):
        _, shared = compare_query(query, groups, replaced, ptr, ids, values, rows, space)
        for t in range(min(counts[query], neighbors.shape[1])):
            row = neighbors[query, t]
            if space.seen[row] == shared:
                out[query - low, t] = space.total[row]
    return out


@kernel
def answer_by_path(low, high, queries, fetched, edges, graph, out_ids, out, workspace):
    """The first k of queries [low, high) by x / (1 + x), x = (1 - omega) path + omega d.

    queries, fetched, graph : see ``records.QueryLists``, ``FetchedDistances``, ``PathGraph``
    edges : (m, E) d' to the first of each query's nearest rows, with which its paths begin
    out_ids, out, and what is returned : as in ``ranking.answer_rows``
    """
    space = named_space(workspace)
    complete = np.zeros(high - low, np.bool_)
    unknown_ptr = np.zeros(high - low + 1, np.int64)
    unknown_rows = np.empty(0, np.int32)
    at = np.int64(0)
    heap = np.empty(_WAITING, np.int64)
    for query in range(low, high):
        complete[query - low], unknown, heap = first_by_path(
            query, queries, fetched, edges[query], graph, heap, out_ids[query], out[query], space
        )
        if at + unknown > unknown_rows.shape[0]:
            unknown_rows = enlarge(unknown_rows, at, at + unknown)
        for t in range(unknown):
            unknown_rows[at + t] = space.touched[t]
        at += unknown
        unknown_ptr[query - low + 1] = at
    return complete, unknown_ptr, unknown_rows[:at].copy()


@helper
def first_by_path(query, queries, fetched, edges, graph, heap, out_ids, out, space):
    """The first k of one query: rows settle in the order of their paths (Dijkstra).

    Nothing unsettled can be among them once (1 - omega) path + omega d is larger for the current
    path and the least d unsettled, which the query's list tells; no path is followed beyond that.
    Rows whose distance is not known are ranked by a lower bound and end in ``touched``.
    Returns whether no other row can be among the first, how many such rows there are, and the heap,
    which may have grown.
    """
    ptr = graph.ptr
    ids = graph.ids
    weights = graph.weights
    order = graph.order
    omega = graph.omega
    root = graph.root
    n_gallery = graph.n_gallery
    farthest = queries.farthest[query]
    neighbors = queries.ids[query]
    neighbor_squared = queries.squared[query]
    n_neighbors = queries.counts[query]
    seen = space.seen
    length = space.total
    stepped = space.stepped
    squared = space.mass
    k = out.shape[0]
    share = np.float32(1) - omega
    position = 0  # in the list: all rows before it are settled, or no answers
    size = np.int64(0)
    waiting = np.int64(0)
    unknown = np.int64(0)
    has_distance = tick(space.clock)
    is_reached = tick(space.clock)
    is_settled = tick(space.clock)
    counts = np.zeros(_STEPS, np.int64)
    unlisted_d = omega * note_distances(query, queries, fetched, has_distance, root, space)
    complete = False
    for t in range(min(n_neighbors, edges.shape[0])):
        if waiting == heap.shape[0]:
            heap = enlarge(heap, waiting, waiting + 1)
        seen[neighbors[t]] = is_reached
        length[neighbors[t]] = edges[t]
        if order[neighbors[t]] < n_gallery:
            count_reached(counts, edges[t])
        waiting = push(heap, waiting, edges[t], neighbors[t])
    while waiting > 0:
        node_length, node = unpacked(heap[0])
        waiting = pop(heap, waiting)
        if seen[node] == is_settled:
            continue
        if size == k:
            while position < n_neighbors and (
                seen[neighbors[position]] == is_settled or order[neighbors[position]] >= n_gallery
            ):
                position += 1
            least_d = unlisted_d
            if position < n_neighbors:
                least_d = omega * plain_distance(neighbor_squared[position], farthest, root)
            if out[0] < share * node_length + least_d:
                complete = True
                break
        seen[node] = is_settled
        if order[node] < n_gallery:
            value = share * node_length
            if stepped[node] == has_distance:
                value += omega * plain_distance(np.float32(squared[node]), farthest, root)
                size = heap_offer(out, out_ids, size, k, value, order[node])
            elif size == k and value + unlisted_d > out[0]:
                pass
            elif graph.vectors.shape[0] > 0:
                d2 = squared_distance(queries.vectors[query], graph.vectors[node])
                value += omega * plain_distance(d2, farthest, root)
                size = heap_offer(out, out_ids, size, k, value, order[node])
            else:
                space.touched[unknown] = node
                unknown += 1
        bound = out[0] if size == k else largest_of_first(counts, k, omega)
        for e in range(ptr[node], ptr[node + 1]):
            longer = node_length + weights[e]
            other = ids[e]
            if longer >= graph.limit or share * longer > bound:
                break  # all that follow are longer
            if seen[other] == is_settled or (seen[other] == is_reached and longer >= length[other]):
                continue
            if waiting == heap.shape[0]:
                heap = enlarge(heap, waiting, waiting + 1)
            if seen[other] != is_reached and order[other] < n_gallery:
                count_reached(counts, longer)
            seen[other] = is_reached
            length[other] = longer
            waiting = push(heap, waiting, longer, other)
    if not complete:  # rows that no path leads to
        for t in range(n_neighbors):
            row = neighbors[t]
            if seen[row] != is_settled and order[row] < n_gallery:
                d = plain_distance(neighbor_squared[t], farthest, root)
                value = share * graph.limit + omega * d
                size = heap_offer(out, out_ids, size, k, value, order[row])
        looked_at_all = n_neighbors == order.shape[0]
        complete = looked_at_all or (size == k and out[0] < share * graph.limit + unlisted_d)
    for t in range(unknown):
        row = space.touched[t]
        value = share * np.float32(length[row]) + unlisted_d
        size = heap_offer(out, out_ids, size, k, value, order[row])
    finish_row(out_ids, out, size)
    return complete, unknown, heap


@inner
def count_reached(counts, length):
    """Count a row that is reached for the first time, at a length."""
    step = np.int64(length / _STEP)
    if step < counts.shape[0]:
        counts[step] += 1


@inner
def largest_of_first(counts, k, omega):
    """A value that ``k`` of the rows that were reached do not exceed, as no d exceeds 1."""
    count = 0
    for step in range(counts.shape[0]):
        count += counts[step]
        if count >= k:
            return (np.float32(1) - omega) * (_STEP * np.float32(step + 1)) + omega
    return np.float32(np.inf)


@inner
def note_distances(query, queries, fetched, stamp, root, space):
    """Put the squared distances that are known into ``mass``; ``stepped`` has the stamp there.

    Returns d of the last of the nearest rows: no other row is nearer.
    """
    stepped = space.stepped
    squared = space.mass
    last = np.float32(0)
    for t in range(queries.counts[query]):
        last = queries.squared[query, t]
        row = queries.ids[query, t]
        stepped[row] = stamp
        squared[row] = last
    for e in range(fetched.ptr[query], fetched.ptr[query + 1]):
        row = fetched.rows[e]
        if fetched.squared[e] < np.inf and stepped[row] != stamp:
            stepped[row] = stamp
            squared[row] = fetched.squared[e]
    return plain_distance(last, queries.farthest[query], root)


@inner
def finish_row(out_ids, out, size):
    """Sort the heap of the first ``size``, each value x becomes x / (1 + x); then -1, infinity."""
    sort_heap(out, out_ids, size)
    for t in range(size):
        value = np.float64(out[t])
        out[t] = value / (1.0 + value)
    out_ids[size:] = -1
    out[size:] = np.inf
