"""Which distances of a query a store has to be asked for, because its list does not have them.

A row that is not listed is no nearer than the last one that is. Most questions are answered by that
alone: a row whose own list ends nearer would not have the query in it.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.online import EXPANDED, NEAREST, tick
from kinrank.kernels.online_encode import BY_WALK
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import squared_distance


@kernel
def ask(row, needed, count, stamp, listed, space):
    """Put a row down once: with its distance if it is listed, without if it is only needed.

    Rows go into ``nodes`` and distances into ``mass``; returns how many there are.
    """
    if space.seen[row] == stamp or not (needed or space.known[row] == listed):
        return count
    space.seen[row] = stamp
    space.nodes[count] = row
    space.mass[count] = space.distance[row] if space.known[row] == listed else np.inf
    return count + 1


@kernel
def reach(near, near_d, last, rows, options, stamp, listed, space):
    """The rows that can be in the query's cluster, in ``touched``; half sets ask for theirs.

    Returns their number, and how many were asked for.
    """
    lists, member = rows.lists, tick(space.clock)
    size = count = np.int64(0)
    length = max(options.full, options.k2)
    for t in range(min(length - 1, near.shape[0])):
        j = near[t]
        if options.clusters != NEAREST and near_d[t] > lists.d[j, length - 1]:
            continue
        if space.stepped[j] != member:
            space.stepped[j] = member
            space.touched[size] = j
            size += 1
        if options.clusters != EXPANDED:
            continue
        for e in range(rows.half[0][j], rows.half[0][j + 1]):
            h = rows.half[1][e]
            if lists.ids[h, options.half - 1] == j:
                needed = lists.d[h, options.half - 1] >= last
                count = ask(h, needed, count, stamp, listed, space)
            if space.stepped[h] != member:
                space.stepped[h] = member
                space.touched[size] = h
                size += 1
    return size, count


@kernel
def asked_rows(near, near_d, counts, rows, options, affine, space):
    """The rows that ``encode_rows`` would ask a distance of, as Told; infinite if not listed.

    near : all that is listed, of which the first make the query's row
    affine : whether F is the affinity itself
    """
    m, k, walk_k, lists = counts.shape[0], rows.lists.ids.shape[1] - 1, options.walk_k, rows.lists
    out_ptr, at = np.zeros(m + 1, np.int64), np.int64(0)
    out_ids, out_d = np.empty(64, np.int32), np.empty(64, np.float32)
    for row in range(m):
        stamp, listed, last = tick(space.clock), tick(space.clock), np.float32(0)
        for t in range(counts[row]):
            last = near_d[row, t]
            space.known[near[row, t]], space.distance[near[row, t]] = listed, last
            if t < k:
                space.seen[near[row, t]] = stamp
        first = slice(0, min(counts[row], k))
        size, count = reach(
            near[row, first], near_d[row, first], last, rows, options, stamp, listed, space
        )
        for t in range(size):
            c = space.touched[t]
            if affine:
                count = ask(c, affine, count, stamp, listed, space)
            for step in range(walk_k if options.smoothing == BY_WALK else 0):
                other = lists.ids[c, step]  # the row itself, then those of its walk
                if other < 0:
                    break
                needed = lists.d[other, walk_k - 1] >= last
                count = ask(other, needed, count, stamp, listed, space)
        if at + count > out_ids.shape[0]:
            out_ids, out_d = enlarge(out_ids, at, at + count), enlarge(out_d, at, at + count)
        for t in range(count):
            out_ids[at + t], out_d[at + t] = space.nodes[t], space.mass[t]
        at += count
        out_ptr[row + 1] = at
    return out_ptr, out_ids[:at].copy(), out_d[:at].copy()


@kernel
def pair_distances(queries, owners, vectors, places, out):
    """Squared distances from ``queries[owners]`` to ``vectors[places]``."""
    for t in range(owners.shape[0]):
        out[t] = squared_distance(queries[owners[t]], vectors[places[t]])
