"""Shortest paths from one row at a time (Dijkstra), to all rows or until the first k are sure.

The graph is a sparse matrix of edges: row i has edges to ids[ptr[i]:ptr[i + 1]] of lengths
``weights``, d' in [0, 1]. Rows are ranked by d* = (1 - omega) path + omega d, path the length of
the shortest path from the query, ``limit`` where there is none, and d the squared distance over
the largest one of the query, or the root of that. The gallery begins with row ``first``.
A heap has (length, row) pairs as int64 (``kernels/heap.py``).

Records (``kernels/records.py``):
    edges : Csr: ``ptr, ids, values``, the graph; the edges of a row ascend by length
    fusion : Fusion: ``omega``; ``root``, whether d is a root; ``vectors``, and ``order``, (n,): row
        i has the vector order[i], which is also the number that stands for it in results and in
        ties; ``farthest``, (n,) the largest squared distance of each row; ``lists, list_d``,
        (n_queries, K) the nearest rows of each query, and d to them

Functions under ``kernel`` are called from Python, those under ``helper`` and ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.fusion import put_first, scaled_distance
from kinrank.kernels.heap import packed, pop, push, unpacked
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, squared_distance

_BUCKETS = 200  # of weights, see ``bucket_of``
_FIRST_BITS = 8 * 127 + 1 - _BUCKETS  # of the first bucket; 1 has 8 * 127 above its 20 lowest bits
# Rows are counted by their d*, in steps of 1 / _STEPS_PER_ONE.
_STEPS_PER_ONE = np.float32(256)
_STEPS = np.float32(2048)


@kernel
def path_rows(low, high, rows, ptr, ids, weights, limit, first, out):
    """Lengths of the shortest paths from rows[i], i in [low, high), to all rows from ``first`` on.

    ptr, ids, weights : the edges of each row, and their lengths; limit : the length for no path
    out : (len(rows), n - first) float32, the output
    """
    n = ptr.shape[0] - 1
    length = np.empty(n, np.float32)
    heap = np.empty(ids.shape[0] + 1, np.int64)
    for i in range(low, high):
        length[:] = limit
        length[rows[i]] = 0
        heap_size = push(heap, np.int64(0), np.float32(0), rows[i])
        while heap_size > 0:
            node_length, node = unpacked(heap[0])
            heap_size = pop(heap, heap_size)
            if node_length > length[node]:
                continue
            for e in range(ptr[node], ptr[node + 1]):
                longer = node_length + weights[e]
                if longer < length[ids[e]]:
                    length[ids[e]] = longer
                    heap_size = push(heap, heap_size, longer, ids[e])
        for j in range(first, n):
            out[i, j - first] = length[j]


@kernel
def shortest_first(low, high, ptr, ids, weights, more_ptr, more_ids, more_weights, out_ids, out):
    """The edges of rows [low, high) of two graphs together, each row's ascending by (weight, id).

    ptr, ids, weights : one graph; more_ptr, more_ids, more_weights : the other, of as many rows
    out_ids, out : the output; row i begins at ptr[i] + more_ptr[i]
    Edges are dealt to buckets, most of which are for weights near 1, where most weights are, and
    sorted by insertion.
    """
    starts = np.empty(_BUCKETS + 1, np.int64)
    pairs = np.empty(0, np.int64)
    for row in range(low, high):
        row_begin = ptr[row] + more_ptr[row]
        row_end = ptr[row + 1] + more_ptr[row + 1]
        if pairs.shape[0] < row_end - row_begin:
            pairs = np.empty(2 * (row_end - row_begin), np.int64)
        starts[:] = 0
        entries = slice(ptr[row], ptr[row + 1])
        more_entries = slice(more_ptr[row], more_ptr[row + 1])
        for values in (weights[entries], more_weights[more_entries]):
            for t in range(values.shape[0]):
                starts[bucket_of(values[t]) + 1] += 1
        for t in range(_BUCKETS):
            starts[t + 1] += starts[t]
        deal(more_ids[more_entries], more_weights[more_entries], starts, pairs)
        deal(ids[entries], weights[entries], starts, pairs)
        for t in range(row_end - row_begin):
            pair = pairs[t]
            slot = t
            while slot > 0 and pairs[slot - 1] > pair:
                pairs[slot] = pairs[slot - 1]
                slot -= 1
            pairs[slot] = pair
        for t in range(row_end - row_begin):
            out[row_begin + t], out_ids[row_begin + t] = unpacked(pairs[t])


@inner
def bucket_of(weight):
    """The bucket of a weight in [0, 1]: eight to each power of two of what it lacks to 1."""
    bits = np.float32(max(np.float32(1) - weight, np.float32(0))).view(np.int32)
    return _BUCKETS - 1 - max(np.int64(bits >> 20) - _FIRST_BITS, np.int64(0))


@inner
def deal(ids, weights, starts, pairs):
    """Append edges to their buckets: packed into ``pairs``, bucket b at starts[b], which grows."""
    for t in range(ids.shape[0]):
        bucket = bucket_of(weights[t])
        pairs[starts[bucket]] = packed(weights[t], ids[t])
        starts[bucket] += 1


@inner
def count_value(value, before, counts, step, within, k):
    """Count a row that is reached with d* ``value``, and no more with the one it had ``before``.

    before : infinite for a row that is new
    counts : how many rows there are at each step, a step being 1 / 256 of d*
    step, within : the least step up to which ``k`` rows are known, and how many there are
    Returns step and within as they are now.
    """
    old_step = np.int64(min(before * _STEPS_PER_ONE, _STEPS))
    new_step = np.int64(min(value * _STEPS_PER_ONE, _STEPS))  # the last step counts nobody
    counts[old_step] -= 1
    counts[new_step] += 1
    within += np.int64(new_step <= step) - np.int64(old_step <= step)
    while within - counts[step] >= k:
        within -= counts[step]
        step -= 1
    return step, within


@kernel
def first_by_path(low, high, edges, limit, fusion, first, out_ids, out, complete):
    """The first k of queries [low, high) by d* = (1 - omega) path + omega d.

    edges, fusion, limit, first : see the top of the file
    out_ids, out : (n_queries, k) int32 and float32, ``order`` of the results less ``first``, and d*
    complete : (n_queries,) bool, whether no other row can be among them. Of all three what belongs
        to queries [low, high) is written.
    Paths are followed no farther than the first k need.
    """
    ptr = edges.ptr
    weights = edges.values
    omega = fusion.omega
    root = fusion.root
    vectors = fusion.vectors
    order = fusion.order
    farthest = fusion.farthest
    lists = fusion.lists
    list_d = fusion.list_d
    n = ptr.shape[0] - 1
    k = out_ids.shape[1]
    length = np.full(n, limit, np.float32)
    known_d = np.full(n, np.float32(-1), np.float32)  # -1 where d is not known
    shortest_edge = np.full(n, limit, np.float32)
    for row in range(n):
        if ptr[row] < ptr[row + 1]:
            shortest_edge[row] = weights[ptr[row]]
    reached = np.empty(n, np.int32)
    counts = np.empty(np.int64(_STEPS) + 1, np.int64)
    best = np.empty(k, np.float32)
    numbers = np.empty(k, np.int32)
    x_buffer = np.empty(vectors.shape[1], np.float32)
    y_buffer = np.empty(vectors.shape[1], np.float32)
    heap = np.empty(edges.ids.shape[0] + 1, np.int64)
    one_minus_omega = np.float32(1) - omega
    for row in range(low, high):
        for t in range(lists.shape[1]):
            known_d[lists[row, t]] = list_d[row, t]
        x = row_of(vectors, order[row], x_buffer)
        n_reached, bound = shortest_paths(
            row,
            x,
            edges,
            limit,
            fusion,
            first,
            k,
            length,
            known_d,
            shortest_edge,
            reached,
            counts,
            heap,
            y_buffer,
        )
        size = np.int64(0)
        # The least omega d of a row that is not listed.
        least_omega_d = omega * list_d[row, lists.shape[1] - 1]
        for t in range(n_reached):
            node = reached[t]
            value = one_minus_omega * length[node]
            if node >= first and (known_d[node] >= 0 or value + least_omega_d <= bound):
                d = known_d[node]
                if d < 0:
                    squared = squared_distance(x, row_of(vectors, order[node], y_buffer))
                    d = scaled_distance(squared, farthest[row], root)
                if value + omega * d <= bound:
                    size = heap_offer(best, numbers, size, k, value + omega * d, order[node])
        # All other paths are longer than those that were followed, or there are none.
        complete[row] = size == k and best[0] < one_minus_omega * limit
        put_first(best, numbers, size, first, out_ids[row], out[row])
        for t in range(lists.shape[1]):
            known_d[lists[row, t]] = -1
        for t in range(n_reached):
            length[reached[t]] = limit
            known_d[reached[t]] = -1


@helper
def shortest_paths(
    row,
    x,
    edges,
    limit,
    fusion,
    first,
    k,
    length,
    known_d,
    shortest_edge,
    reached,
    counts,
    heap,
    y_buffer,
):
    """Lengths of all paths from a row that lead to its first k, and perhaps of some too long.

    row, x : the query and its vector; edges to k : as in ``first_by_path``
    length : (n,) float32, ``limit`` everywhere before; set to the lengths for the rows that are
        reached
    known_d : (n,) float32, before it is d for the rows in the query's list and -1 for others; set
        to d for the rows that are reached, where it is computed
    shortest_edge : (n,) the length of the shortest edge of each row
    reached : (n,) int32, the rows that are reached; as many are written as there are
    counts, heap, y_buffer : scratch
    A reached row goes into the heap only if a row behind it can still be among the first k. The d
    of such a row is not known yet: it is bounded by the least d of all rows whose paths may still
    become shorter, which the list of the nearest tells. Rows that are not listed are no nearer than
    the last that is.
    Returns how many rows were reached, and a value of d* that k of them do not exceed.
    """
    ptr = edges.ptr
    ids = edges.ids
    weights = edges.values
    omega = fusion.omega
    root = fusion.root
    vectors = fusion.vectors
    order = fusion.order
    farthest = fusion.farthest
    lists = fusion.lists
    list_d = fusion.list_d
    one_minus_omega = np.float32(1) - omega
    n_listed = lists.shape[1]
    unlisted_omega_d = omega * list_d[row, n_listed - 1]
    bound = np.float32(np.inf)
    position = 0  # in the list: all rows before it have their shortest path
    counts[:] = 0
    step = np.int64(_STEPS) - 1
    within = np.int64(0)
    length[row] = 0
    reached[0] = row
    n_reached = 1
    heap_size = push(heap, np.int64(0), np.float32(0), row)
    while heap_size > 0:
        node_length, node = unpacked(heap[0])
        heap_size = pop(heap, heap_size)
        while position < n_listed - 1 and (
            lists[row, position] < first or length[lists[row, position]] <= node_length
        ):
            position += 1
        least_omega_d = omega * list_d[row, position]
        if one_minus_omega * node_length + least_omega_d > bound:
            break
        if node_length > length[node]:
            continue  # it was left at a shorter length
        for e in range(ptr[node], ptr[node + 1]):
            other = ids[e]
            longer = node_length + weights[e]
            if one_minus_omega * longer + least_omega_d > bound:
                break  # all that follow are longer
            if longer >= length[other]:
                continue
            leads_on = one_minus_omega * (longer + shortest_edge[other]) + least_omega_d <= bound
            d = known_d[other]
            if d < 0 and other >= first and one_minus_omega * longer + unlisted_omega_d <= bound:
                squared = squared_distance(x, row_of(vectors, order[other], y_buffer))
                d = scaled_distance(squared, farthest[row], root)
            value = one_minus_omega * longer + omega * d
            is_answer = other >= first and d >= 0
            if not (leads_on or (is_answer and value <= bound)):
                continue
            if is_answer:
                was_counted = length[other] < limit and known_d[other] >= 0
                before = (
                    one_minus_omega * length[other] + omega * d
                    if was_counted
                    else np.float32(np.inf)
                )
                step, within = count_value(value, before, counts, step, within, k)
                if within >= k:
                    bound = np.float32(step + 1) / _STEPS_PER_ONE
            known_d[other] = d
            if length[other] == limit:
                reached[n_reached] = other
                n_reached += 1
            length[other] = longer
            if leads_on:
                heap_size = push(heap, heap_size, longer, other)
    return n_reached, bound
