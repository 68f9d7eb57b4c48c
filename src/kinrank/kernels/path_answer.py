"""Answers of an index by shortest paths through its rows (Dijkstra).

Rows are ranked by x = (1 - omega) path + omega d, path the length of the shortest path from the
query, d the squared distance over the largest one of the query, or the root of that. The edges of
the graph are d' between rows of F', the sparse encoding of a row; the edges of a query are d' to
its nearest rows.

Records (``kernels/records.py``):
    queries : QueryLists: vectors, nearest rows ``ids`` with ``squared`` distances, ascending, of
        which ``counts`` are filled; ``farthest``, by which squared distances are divided
    fetched : FetchedDistances: squared distances that a store was asked for
    graph : PathGraph: the edges of each row, the shortest first; ``limit``, the length where there
        is no path; omega; vectors, or none; ``order``, the number that stands for each
        row in results and in ties
    space : Space, scratch arrays, an entry for each row: ``seen`` and ``stepped`` mark rows by
        stamps, ``total`` has lengths, ``scratch`` squared distances, ``touched`` lists rows

Functions under ``kernel`` are called from Python, those under ``helper`` and ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.fusion import scaled_distance
from kinrank.kernels.heap import pop, push, unpacked
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.overlay import named_space, new_stamp
from kinrank.kernels.ranking import compare_query
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

_WAITING = 1024  # rows that the heap has room for at first
# Rows that were reached are counted by their lengths, in so many steps of this size.
_STEPS = 32
_STEP = np.float32(0.25)


@kernel
def near_divergences(
    low, high, neighbors, counts, groups, replaced, ptr, ids, values, answerable, workspace
):
    """d' from queries [low, high) to their nearest rows: the edges of the query.

    neighbors : (m, E) int32, the nearest rows; counts : (m,) how many of them there are
    groups, replaced, ptr, ids, values : F' of the queries and of the rows that they change: query t
        has the sparse rows groups[t] to groups[t + 1], itself first, row i of it in place of the
        stored row replaced[i], with columns ids[ptr[i]:ptr[i + 1]]
    answerable : F' of the stored rows by columns, ``records.Answerable``
    workspace : scratch arrays, as long as there are rows
    Returns (high - low, E) float32; 1 for rows that share no column.
    """
    space = named_space(workspace)
    out = np.ones((high - low, neighbors.shape[1]), np.float32)
    for query in range(low, high):
        _, shared_stamp = compare_query(
            query, groups, replaced, ptr, ids, values, answerable, space
        )
        for t in range(min(counts[query], neighbors.shape[1])):
            row = neighbors[query, t]
            if space.seen[row] == shared_stamp:
                out[query - low, t] = space.total[row]
    return out


@kernel
def answer_by_path(low, high, queries, fetched, edges, graph, out_ids, out, workspace):
    """The first k of queries [low, high) by x / (1 + x), x = (1 - omega) path + omega d.

    queries, fetched, graph : see the top of the file; workspace : scratch arrays
    edges : (m, E) d' to the first E of each query's nearest rows, with which its paths begin
    out_ids, out : (m, k) int32 and float32, the output: ``order`` of the results, -1
        for none, and x / (1 + x)
    Returns ``complete``, (high - low,) bool, whether no other row can be among the first k of a
    query; and the rows that were ranked by a lower bound of x, as neither the vectors nor
    ``fetched`` tell their distance: query low + i has
    unmeasured_rows[unmeasured_ptr[i]:unmeasured_ptr[i + 1]]. Where there are any, fetch their
    distances and call again.
    """
    space = named_space(workspace)
    complete = np.zeros(high - low, np.bool_)
    unmeasured_ptr = np.zeros(high - low + 1, np.int64)
    unmeasured_rows = np.empty(0, np.int32)
    size = np.int64(0)
    heap = np.empty(_WAITING, np.int64)
    for query in range(low, high):
        complete[query - low], n_unmeasured, heap = first_by_path(
            query, queries, fetched, edges[query], graph, heap, out_ids[query], out[query], space
        )
        if size + n_unmeasured > unmeasured_rows.shape[0]:
            unmeasured_rows = enlarge(unmeasured_rows, size, size + n_unmeasured)
        for t in range(n_unmeasured):
            unmeasured_rows[size + t] = space.touched[t]
        size += n_unmeasured
        unmeasured_ptr[query - low + 1] = size
    return complete, unmeasured_ptr, unmeasured_rows[:size].copy()


@helper
def first_by_path(query, queries, fetched, edges, graph, heap, out_ids, out, space):
    """The first k of one query: rows settle in the order of their paths (Dijkstra).

    query : its number; edges : (E,) d' to its nearest rows; heap : int64, scratch; out_ids, out :
        (k,)
    Nothing unsettled can be among them once (1 - omega) path + omega d is larger for the current
    path and the least d unsettled, which the query's list tells; no path is followed beyond that.
    Rows whose distance is not known are ranked by a lower bound and end in ``touched``.
    Returns whether no other row can be among the first, how many rows are in ``touched``, and the
    heap, which may have grown.
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
    squared = space.scratch
    k = out.shape[0]
    one_minus_omega = np.float32(1) - omega
    position = 0  # in the list: all rows before it are settled, or no answers
    n_best = np.int64(0)
    n_waiting = np.int64(0)
    n_unmeasured = np.int64(0)
    has_distance = new_stamp(space.last_stamp)
    is_reached = new_stamp(space.last_stamp)
    is_settled = new_stamp(space.last_stamp)
    counts = np.zeros(_STEPS, np.int64)
    unlisted_omega_d = omega * note_distances(query, queries, fetched, has_distance, root, space)
    complete = False
    for t in range(min(n_neighbors, edges.shape[0])):
        if n_waiting == heap.shape[0]:
            heap = enlarge(heap, n_waiting, n_waiting + 1)
        seen[neighbors[t]] = is_reached
        length[neighbors[t]] = edges[t]
        if order[neighbors[t]] < n_gallery:
            count_reached(counts, edges[t])
        n_waiting = push(heap, n_waiting, edges[t], neighbors[t])
    while n_waiting > 0:
        node_length, node = unpacked(heap[0])
        n_waiting = pop(heap, n_waiting)
        if seen[node] == is_settled:
            continue
        if n_best == k:
            while position < n_neighbors and (
                seen[neighbors[position]] == is_settled or order[neighbors[position]] >= n_gallery
            ):
                position += 1
            least_omega_d = unlisted_omega_d
            if position < n_neighbors:
                least_omega_d = omega * scaled_distance(neighbor_squared[position], farthest, root)
            if out[0] < one_minus_omega * node_length + least_omega_d:
                complete = True
                break
        seen[node] = is_settled
        if order[node] < n_gallery:
            value = one_minus_omega * node_length
            if stepped[node] == has_distance:
                value += omega * scaled_distance(np.float32(squared[node]), farthest, root)
                n_best = heap_offer(out, out_ids, n_best, k, value, order[node])
            elif n_best == k and value + unlisted_omega_d > out[0]:
                pass
            elif graph.vectors.shape[0] > 0:
                node_squared = squared_distance(queries.vectors[query], graph.vectors[node])
                value += omega * scaled_distance(node_squared, farthest, root)
                n_best = heap_offer(out, out_ids, n_best, k, value, order[node])
            else:
                space.touched[n_unmeasured] = node
                n_unmeasured += 1
        bound = out[0] if n_best == k else largest_of_first(counts, k, omega)
        for e in range(ptr[node], ptr[node + 1]):
            longer = node_length + weights[e]
            other = ids[e]
            if longer >= graph.limit or one_minus_omega * longer > bound:
                break  # all that follow are longer
            if seen[other] == is_settled or (seen[other] == is_reached and longer >= length[other]):
                continue
            if n_waiting == heap.shape[0]:
                heap = enlarge(heap, n_waiting, n_waiting + 1)
            if seen[other] != is_reached and order[other] < n_gallery:
                count_reached(counts, longer)
            seen[other] = is_reached
            length[other] = longer
            n_waiting = push(heap, n_waiting, longer, other)
    if not complete:  # rows that no path leads to
        for t in range(n_neighbors):
            row = neighbors[t]
            if seen[row] != is_settled and order[row] < n_gallery:
                d = scaled_distance(neighbor_squared[t], farthest, root)
                value = one_minus_omega * graph.limit + omega * d
                n_best = heap_offer(out, out_ids, n_best, k, value, order[row])
        looked_at_all = n_neighbors == order.shape[0]
        complete = looked_at_all or (
            n_best == k and out[0] < one_minus_omega * graph.limit + unlisted_omega_d
        )
    for t in range(n_unmeasured):
        row = space.touched[t]
        value = one_minus_omega * np.float32(length[row]) + unlisted_omega_d
        n_best = heap_offer(out, out_ids, n_best, k, value, order[row])
    finish_row(out_ids, out, n_best)
    return complete, n_unmeasured, heap


@inner
def count_reached(counts, length):
    """Count a row that is reached for the first time; counts : (_STEPS,) int64, by length."""
    step = np.int64(length / _STEP)
    if step < counts.shape[0]:
        counts[step] += 1


@inner
def largest_of_first(counts, k, omega):
    """A value of x = (1 - omega) path + omega d that ``k`` of the reached rows do not exceed.

    counts : of ``count_reached``; d is taken as 1, its largest value
    """
    count = 0
    for step in range(counts.shape[0]):
        count += counts[step]
        if count >= k:
            return (np.float32(1) - omega) * (_STEP * np.float32(step + 1)) + omega
    return np.float32(np.inf)


@inner
def note_distances(query, queries, fetched, stamp, root, space):
    """Put the known squared distances of a query into ``scratch``; ``stepped`` has ``stamp`` there.

    Returns d of the last of the nearest rows: no other row is nearer.
    """
    stepped = space.stepped
    squared = space.scratch
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
    return scaled_distance(last, queries.farthest[query], root)


@inner
def finish_row(out_ids, out, size):
    """Turn a heap of ``size`` values x into a ranking by x / (1 + x); then -1 and infinity.

    out_ids, out : (k,) int32 and float32, the heap, and then the ranking
    """
    sort_heap(out, out_ids, size)
    for t in range(size):
        value = np.float64(out[t])
        out[t] = value / (1.0 + value)
    out_ids[size:] = -1
    out[size:] = np.inf
