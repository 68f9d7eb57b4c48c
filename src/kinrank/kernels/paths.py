"""Shortest paths from one row at a time (Dijkstra), to all rows or until the first k are sure."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.heap import packed, pop, push, unpacked
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

_BUCKETS = 200
_LEAST = 8 * 127 + 1 - _BUCKETS  # 1 has 8 * 127 above its 20 lowest bits
# of values, by which rows are counted
_PER_ONE = np.float32(256)
_STEPS = np.float32(2048)


@kernel
def path_rows(low, high, rows, ptr, ids, weights, limit, first, out):
    """Length of the shortest path from rows[i] to all rows from ``first`` on; ``limit`` if none."""
    n = ptr.shape[0] - 1
    length = np.empty(n, np.float32)
    heap = np.empty(ids.shape[0] + 1, np.int64)
    for at in range(low, high):
        length[:] = limit
        length[rows[at]] = 0
        size = push(heap, np.int64(0), np.float32(0), rows[at])
        while size > 0:
            key, node = unpacked(heap[0])
            size = pop(heap, size)
            if key > length[node]:
                continue
            for e in range(ptr[node], ptr[node + 1]):
                longer = key + weights[e]
                if longer < length[ids[e]]:
                    length[ids[e]] = longer
                    size = push(heap, size, longer, ids[e])
        for j in range(first, n):
            out[at, j - first] = length[j]


@kernel
def shortest_first(low, high, ptr, ids, weights, more_ptr, more_ids, more_weights, out_ids, out):
    """The edges of rows [low, high), of two matrices together, ascending by (weight, id).

    They are dealt to buckets, most of which are for weights near 1, where most weights are, and
    sorted by insertion.
    """
    starts = np.empty(_BUCKETS + 1, np.int64)
    pairs = np.empty(0, np.int64)
    for row in range(low, high):
        begin = ptr[row] + more_ptr[row]
        end = ptr[row + 1] + more_ptr[row + 1]
        if pairs.shape[0] < end - begin:
            pairs = np.empty(2 * (end - begin), np.int64)
        starts[:] = 0
        own = slice(ptr[row], ptr[row + 1])
        more = slice(more_ptr[row], more_ptr[row + 1])
        for values in (weights[own], more_weights[more]):
            for t in range(values.shape[0]):
                starts[bucket(values[t]) + 1] += 1
        for t in range(_BUCKETS):
            starts[t + 1] += starts[t]
        deal(more_ids[more], more_weights[more], starts, pairs)
        deal(ids[own], weights[own], starts, pairs)
        for t in range(end - begin):
            pair = pairs[t]
            at = t
            while at > 0 and pairs[at - 1] > pair:
                pairs[at] = pairs[at - 1]
                at -= 1
            pairs[at] = pair
        for t in range(end - begin):
            out[begin + t], out_ids[begin + t] = unpacked(pairs[t])


@inner
def bucket(weight):
    """The bucket of a weight: three bits below each power of two of what it lacks to 1."""
    bits = np.float32(max(np.float32(1) - weight, np.float32(0))).view(np.int32)
    return _BUCKETS - 1 - max(np.int64(bits >> 20) - _LEAST, np.int64(0))


@inner
def deal(ids, weights, starts, pairs):
    """Put edges where their buckets go on."""
    for t in range(ids.shape[0]):
        to = bucket(weights[t])
        pairs[starts[to]] = packed(weights[t], ids[t])
        starts[to] += 1


@inner
def note_value(value, before, counts, step, within, k):
    """Count a row that is reached at a value, and no more at the one ``before``.

    Returns the step up to which there are ``k`` rows, as far as is known, and how many there are.
    """
    old = np.int64(min(before * _PER_ONE, _STEPS))
    new = np.int64(min(value * _PER_ONE, _STEPS))  # the last counts for nobody
    counts[old] -= 1
    counts[new] += 1
    within += np.int64(new <= step) - np.int64(old <= step)
    while within - counts[step] >= k:
        within -= counts[step]
        step -= 1
    return step, within


@inner
def distance_of(x, y, scale, root):
    """Of two vectors: its square over ``scale``, at most 1, or the root of that."""
    d = squared_distance(x, y)
    d = min(d / scale, np.float32(1)) if scale > 0 else np.float32(0)
    return np.sqrt(d) if root else d


@kernel
def first_by_path(low, high, csr, limit, fusion, first, names, outs):
    """The first k rows by (1 - omega) path + omega d, without walking farther than they need.

    csr : edges, the shortest of a row first
    fusion : see ``select.first_near``; outs : gallery rows, values, and whether no other row can be
        among them
    names : (n,) the numbers that results go by, and where vectors are
    """
    ptr, ids, weights = csr
    omega, root, vectors, farthest, lists, list_d = fusion
    out_ids, out, complete = outs
    n = ptr.shape[0] - 1
    k = out_ids.shape[1]
    length = np.full(n, limit, np.float32)
    dist = np.full(n, np.float32(-1), np.float32)
    hop = np.full(n, limit, np.float32)
    for row in range(n):
        if ptr[row] < ptr[row + 1]:
            hop[row] = weights[ptr[row]]
    seen = np.empty(n, np.int32)
    counts = np.empty(np.int64(_STEPS) + 1, np.int64)
    best = np.empty(k, np.float32)
    best_ids = np.empty(k, np.int32)
    mine = np.empty(vectors.shape[1], np.float32)
    other = np.empty(vectors.shape[1], np.float32)
    heap = np.empty(ids.shape[0] + 1, np.int64)
    near = np.float32(1) - omega
    space = (length, dist, hop, seen, counts, heap, other)
    for row in range(low, high):
        for t in range(lists.shape[1]):
            dist[lists[row, t]] = list_d[row, t]
        x = row_of(vectors, names[row], mine)
        touched, top = walk(row, x, csr, limit, fusion, first, names, k, space)
        found = np.int64(0)
        beyond = omega * list_d[row, lists.shape[1] - 1]
        for t in range(touched):
            node = seen[t]
            part = near * length[seen[t]]
            if node >= first and (dist[node] >= 0 or part + beyond <= top):
                d = dist[node]
                if d < 0:
                    d = distance_of(x, row_of(vectors, names[node], other), farthest[row], root)
                if part + omega * d <= top:
                    found = heap_offer(best, best_ids, found, k, part + omega * d, names[node])
        complete[row] = found == k and best[0] < near * limit  # the rest is longer, or has no path
        sort_heap(best, best_ids, found)
        for t in range(k):
            out_ids[row, t] = best_ids[t] - first if t < found else -1
            out[row, t] = best[t] if t < found else np.float32(np.inf)
        for t in range(lists.shape[1]):
            dist[lists[row, t]] = -1
        for t in range(touched):
            length[seen[t]] = limit
            dist[seen[t]] = -1


@helper
def walk(row, x, csr, limit, fusion, first, names, k, space):
    """Lengths of all paths that lead to the first k, and perhaps of some that are too long.

    A row waits to be left only if a row behind it can still be among the first. As no d is known
    there, it counts as the least of the rows whose paths may become shorter; the list of the
    nearest tells. Rows that are not listed are no nearer than the last that is.
    Returns how many rows were reached, in ``seen``, and a value that k of them do not exceed.
    """
    ptr, ids, weights = csr
    omega, root, vectors, farthest, lists, list_d = fusion
    length, dist, hop, seen, counts, heap, other = space
    near = np.float32(1) - omega
    width = lists.shape[1]
    beyond = omega * list_d[row, width - 1]
    top = np.float32(np.inf)
    spot = 0
    counts[:] = 0
    step = np.int64(_STEPS) - 1
    within = np.int64(0)
    length[row] = 0
    seen[0] = row
    touched = 1
    size = push(heap, np.int64(0), np.float32(0), row)
    while size > 0:
        key, node = unpacked(heap[0])
        size = pop(heap, size)
        while spot < width - 1 and (lists[row, spot] < first or length[lists[row, spot]] <= key):
            spot += 1
        least = omega * list_d[row, spot]
        if near * key + least > top:
            break
        if key > length[node]:
            continue  # it was left at a shorter length
        for e in range(ptr[node], ptr[node + 1]):
            to = ids[e]
            longer = key + weights[e]
            if near * longer + least > top:
                break  # all that follow are longer
            if longer >= length[to]:
                continue
            leads = near * (longer + hop[to]) + least <= top
            d = dist[to]
            if d < 0 and to >= first and near * longer + beyond <= top:
                d = distance_of(x, row_of(vectors, names[to], other), farthest[row], root)
            value = near * longer + omega * d
            answers = to >= first and d >= 0
            if not (leads or (answers and value <= top)):
                continue
            if answers:
                counted = length[to] < limit and dist[to] >= 0
                before = near * length[to] + omega * d if counted else np.float32(np.inf)
                step, within = note_value(value, before, counts, step, within, k)
                if within >= k:
                    top = np.float32(step + 1) / _PER_ONE
            dist[to] = d
            if length[to] == limit:
                seen[touched] = to
                touched += 1
            length[to] = longer
            if leads:
                size = push(heap, size, longer, to)
    return touched, top
