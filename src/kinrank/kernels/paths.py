"""Shortest paths from one row at a time (Dijkstra), to all rows or until the first k are sure."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.heap import pop, push
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def path_rows(low, high, rows, ptr, ids, weights, limit, first, out):
    """Length of the shortest path from rows[i] to all rows from ``first`` on; ``limit`` if none."""
    n = ptr.shape[0] - 1
    length = np.empty(n, np.float32)
    done = np.empty(n, np.bool_)
    keys, nodes = np.empty(ids.shape[0] + 1, np.float32), np.empty(ids.shape[0] + 1, np.int32)
    for at in range(low, high):
        length[:] = limit
        done[:] = False
        length[rows[at]] = 0
        size = push(keys, nodes, np.int64(0), np.float32(0), rows[at])
        while size > 0:
            key, node = keys[0], nodes[0]
            size = pop(keys, nodes, size)
            if done[node]:
                continue
            done[node] = True
            for e in range(ptr[node], ptr[node + 1]):
                longer = key + weights[e]
                if longer < length[ids[e]]:
                    length[ids[e]] = longer
                    size = push(keys, nodes, size, longer, ids[e])
        for j in range(first, n):
            out[at, j - first] = length[j]


STEPS = 32  # of lengths, by which the rows that a walk has reached are counted
_STEP = np.float32(0.25)


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
def shorter(key, ids, weights, near, top, length, hits):
    """Edges of a row, at ``key``, that shorten a path; returns how many, without a branch.

    Those beyond ``top`` are left out: neither their row nor one behind it can be among the first.
    """
    count = np.int64(0)
    for e in range(ids.shape[0]):
        longer = key + weights[e]
        hits[np.uint64(count)] = e
        count += (near * longer <= top) & (longer < length[np.uint32(ids[e])])
    return count


@kernel
def first_by_path(low, high, csr, limit, fusion, first, names, outs):
    """The first k rows by (1 - omega) path + omega d, without walking farther than they need.

    Rows settle in the order of their paths. Nothing unsettled can beat the k-th best once
    (1 - omega) path + omega d is no smaller for the current path and the least d unsettled, which
    the row's own list of neighbours tells. No path is followed beyond what k rows do not exceed.
    fusion : see ``select.first_near``; outs : gallery rows, values, and whether that point was
        reached
    names : (n,) the numbers that results go by, and where vectors are
    """
    ptr, ids, weights = csr
    omega, root, vectors, farthest, lists, list_d = fusion
    out_ids, out, complete = outs
    n, k = ptr.shape[0] - 1, out_ids.shape[1]
    length = np.full(n, limit, np.float32)
    done = np.zeros(n, np.bool_)
    seen, hits = np.empty(n, np.int32), np.empty(ids.shape[0] + 1, np.int32)
    keys, nodes = np.empty(ids.shape[0] + 1, np.float32), np.empty(ids.shape[0] + 1, np.int32)
    best, best_ids = np.empty(k, np.float32), np.empty(k, np.int32)
    near, reached = np.float32(1) - omega, np.empty(STEPS, np.int64)
    own, space = np.empty(vectors.shape[1], np.float32), np.empty(vectors.shape[1], np.float32)
    for row in range(low, high):
        x, scale = row_of(vectors, names[row], own), farthest[row]
        length[row] = 0
        seen[0] = row
        touched, found, spot = 1, np.int64(0), 0
        size = push(keys, nodes, np.int64(0), np.float32(0), np.int32(row))
        complete[row] = False
        reached[:] = 0
        while size > 0:
            key, node = keys[0], nodes[0]
            size = pop(keys, nodes, size)
            if done[node]:
                continue
            if found == k:
                while spot < lists.shape[1] and (
                    done[lists[row, spot]] or lists[row, spot] < first
                ):
                    spot += 1
                least = list_d[row, min(spot, lists.shape[1] - 1)]
                if best[0] < near * key + omega * least:
                    complete[row] = True
                    break
            done[node] = True
            if node >= first and (found < k or near * key <= best[0]):
                d = squared_distance(x, row_of(vectors, names[node], space))
                d = min(d / scale, np.float32(1)) if scale > 0 else np.float32(0)
                if root:
                    d = np.sqrt(d)
                found = heap_offer(best, best_ids, found, k, near * key + omega * d, names[node])
            top = best[0] if found == k else highest(reached, k, omega)
            begin, part = ptr[node], slice(ptr[node], ptr[node + 1])
            for hit in range(shorter(key, ids[part], weights[part], near, top, length, hits)):
                e = begin + hits[hit]
                longer = key + weights[e]
                if longer >= length[ids[e]]:
                    continue  # an edge that is there twice
                if length[ids[e]] == limit:
                    seen[touched] = ids[e]
                    touched += 1
                    if ids[e] >= first:
                        count_reached(reached, longer)
                length[ids[e]] = longer
                size = push(keys, nodes, size, longer, ids[e])
        if found == k and best[0] < near * limit:
            complete[row] = True  # what is left is longer, or no path leads to it
        sort_heap(best, best_ids, found)
        for t in range(k):
            filled = t < found
            out_ids[row, t] = best_ids[t] - first if filled else -1
            out[row, t] = best[t] if filled else np.float32(np.inf)
        for t in range(touched):
            length[seen[t]] = limit
            done[seen[t]] = False
