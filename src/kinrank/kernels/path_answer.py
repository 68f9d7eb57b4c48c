"""Answers to queries by shortest paths through the rows of an index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinrank.kernels.heap import pop, push, unpacked
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.overlay import named_space, tick
from kinrank.kernels.ranking import Asked, compare_query, scaled
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance
from kinrank.types import Floats, Ints, Longs

_WAITING = 1024  # rows that a walk has room for at first
_STEPS = 32  # of lengths, by which the rows that a walk has reached are counted
_STEP = np.float32(0.25)


class PathGraph(NamedTuple):
    """What paths lead through, and what their lengths are mixed with.

    ptr, ids, weights : d' on the edges between rows, those of a row ascending
    limit : the length where there is no path
    omega, root, names, n_gallery, vectors : as in ``ranking.Compared``
    """

    ptr: Longs
    ids: Ints
    weights: Floats
    limit: np.float32
    omega: np.float32
    root: bool
    names: Ints
    n_gallery: int
    vectors: Floats


@kernel
def near_divergences(low, high, near, counts, groups, names, ptr, ids, values, compared, space):
    """d' from queries [low, high) to their nearest rows ``near``, (m, E): the query's edges.

    groups to compared : as in ``answer_rows``; counts : (m,) how many are known
    """
    space = named_space(space)
    out = np.ones((high - low, near.shape[1]), np.float32)
    for query in range(low, high):
        _, shared = compare_query(query, groups, names, ptr, ids, values, compared, space)
        for t in range(min(counts[query], near.shape[1])):
            row = near[query, t]
            if space.seen[row] == shared:
                out[query - low, t] = space.total[row]
    return out


@kernel
def answer_by_path(low, high, asked, edges, graph, out_ids, out, space):
    """The first k of queries [low, high) by x / (1 + x), x = (1 - omega) path + omega d.

    edges : (m, E) d' to the first of each query's nearest rows, with which its paths begin
    out_ids and what is returned : as in ``answer_rows``
    """
    asked = Asked(*asked)
    graph = PathGraph(*graph)
    space = named_space(space)
    m = high - low
    at = np.int64(0)
    left_ptr = np.zeros(m + 1, np.int64)
    left = np.empty(0, np.int32)
    complete = np.zeros(m, np.bool_)
    heap = np.empty(_WAITING, np.int64)
    for query in range(low, high):
        complete[query - low], unknown, heap = walk(
            query, asked, edges[query], graph, heap, out_ids[query], out[query], space
        )
        if at + unknown > left.shape[0]:
            left = enlarge(left, at, at + unknown)
        for t in range(unknown):
            left[at + t] = space.touched[t]
        at += unknown
        left_ptr[query - low + 1] = at
    return complete, left_ptr, left[:at].copy()


@helper
def walk(query, asked, edges, graph, heap, out_ids, out, space):
    """The first k of one query: rows settle in the order of their paths (Dijkstra).

    Nothing unsettled can be among them once (1 - omega) path + omega d is larger for the current
    path and the least d unsettled, which the query's list tells; no path is followed beyond that.
    Rows whose distance nobody knows (see ``ranking.rank``) are in ``touched`` in the end.
    Returns whether no other row can be among the first, how many such rows there are, and the heap.
    """
    ptr = graph.ptr
    ids = graph.ids
    weights = graph.weights
    names = graph.names
    omega = graph.omega
    root = graph.root
    n_gallery = graph.n_gallery
    far = asked.farthest[query]
    near = asked.near[query]
    near_d = asked.near_d[query]
    count = asked.counts[query]
    seen = space.seen
    length = space.total
    stepped = space.stepped
    mass = space.mass
    k = out.shape[0]
    part = np.float32(1) - omega
    spot = 0
    found = np.int64(0)
    waiting = np.int64(0)
    unknown = np.int64(0)
    known = tick(space.clock)
    reached = tick(space.clock)
    settled = tick(space.clock)
    counts = np.zeros(_STEPS, np.int64)
    beyond = note_distances(query, asked, known, space, omega, root)
    complete = False
    for t in range(min(count, edges.shape[0])):
        if waiting == heap.shape[0]:
            heap = enlarge(heap, waiting, waiting + 1)
        seen[near[t]] = reached
        length[near[t]] = edges[t]
        if names[near[t]] < n_gallery:
            count_reached(counts, edges[t])
        waiting = push(heap, waiting, edges[t], near[t])
    while waiting > 0:
        key, node = unpacked(heap[0])
        waiting = pop(heap, waiting)
        if seen[node] == settled:
            continue
        if found == k:
            while spot < count and (seen[near[spot]] == settled or names[near[spot]] >= n_gallery):
                spot += 1
            least = beyond if spot == count else omega * scaled(near_d[spot], far, root)
            if out[0] < part * key + least:
                complete = True
                break
        seen[node] = settled
        if names[node] < n_gallery:
            value = part * key
            if stepped[node] == known:
                value += omega * scaled(np.float32(mass[node]), far, root)
                found = heap_offer(out, out_ids, found, k, value, names[node])
            elif found == k and value + beyond > out[0]:
                pass
            elif graph.vectors.shape[0] > 0:
                d = squared_distance(asked.x[query], graph.vectors[node])
                value += omega * scaled(d, far, root)
                found = heap_offer(out, out_ids, found, k, value, names[node])
            else:
                space.touched[unknown] = node
                unknown += 1
        top = out[0] if found == k else highest(counts, k, omega)
        for e in range(ptr[node], ptr[node + 1]):
            longer = key + weights[e]
            other = ids[e]
            if longer >= graph.limit or part * longer > top:
                break  # all that follow are longer
            if seen[other] == settled or (seen[other] == reached and longer >= length[other]):
                continue
            if waiting == heap.shape[0]:
                heap = enlarge(heap, waiting, waiting + 1)
            if seen[other] != reached and names[other] < n_gallery:
                count_reached(counts, longer)
            seen[other] = reached
            length[other] = longer
            waiting = push(heap, waiting, longer, other)
    if not complete:  # rows that no path leads to
        for t in range(count):
            if seen[near[t]] != settled and names[near[t]] < n_gallery:
                value = part * graph.limit + omega * scaled(near_d[t], far, root)
                found = heap_offer(out, out_ids, found, k, value, names[near[t]])
        complete = count == names.shape[0] or (found == k and out[0] < part * graph.limit + beyond)
    for t in range(unknown):
        row = space.touched[t]
        value = part * np.float32(length[row]) + beyond
        found = heap_offer(out, out_ids, found, k, value, names[row])
    finish_row(out_ids, out, found)
    return complete, unknown, heap


@inner
def count_reached(reached, length):
    """Count a row that a walk has reached for the first time, at a length."""
    step = np.int64(length / _STEP)
    if step < reached.shape[0]:
        reached[step] += 1


@inner
def highest(reached, k, omega):
    """A value that ``k`` of the rows which were reached do not exceed, as no d exceeds 1."""
    count = 0
    for step in range(reached.shape[0]):
        count += reached[step]
        if count >= k:
            return (np.float32(1) - omega) * (_STEP * np.float32(step + 1)) + omega
    return np.float32(np.inf)


@inner
def note_distances(query, asked, known, space, omega, root):
    """Put squared distances that are known into ``mass``; the share of d that others have, or more.

    A row that is not among the nearest is no nearer than the last of them.
    """
    stepped = space.stepped
    mass = space.mass
    near = asked.near
    near_d = asked.near_d
    last = np.float32(0)
    for t in range(asked.counts[query]):
        last = near_d[query, t]
        stepped[near[query, t]] = known
        mass[near[query, t]] = last
    for e in range(asked.ptr[query], asked.ptr[query + 1]):
        if asked.d[e] < np.inf and stepped[asked.ids[e]] != known:
            stepped[asked.ids[e]] = known
            mass[asked.ids[e]] = asked.d[e]
    return omega * scaled(last, asked.farthest[query], root)


@inner
def finish_row(out_ids, out, found):
    """Ascending, each value x as x / (1 + x), and nothing behind the last."""
    sort_heap(out, out_ids, found)
    for t in range(found):
        value = np.float64(out[t])
        out[t] = value / (1.0 + value)
    out_ids[found:] = -1
    out[found:] = np.inf
