"""Queries that are not rows of the graph: their own rows of the first stages.

A query is given the number n, one behind the last row. What it would change in the lists of other
rows (it enters some, and the last of these drops out) is taken into account where the query's own
row depends on it; the rows themselves stay as they are, so that no query knows of another.
The cost does not depend on n: arrays of that size belong to a workspace that is made once.
Each kernel is one stage and takes a block of queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge, sort_ids
from kinrank.kernels.topk import squared_distance
from kinrank.types import Floats, Ints, Longs

EXPANDED, RECIPROCAL, NEAREST = 0, 1, 2


class Lists(NamedTuple):
    """The rows: as Neighbors, and their vectors, (n, d), or (0, d) when they are elsewhere."""

    ids: Ints
    d: Floats
    farthest: Floats
    vectors: Floats


class Told(NamedTuple):
    """Rows beside the nearest, and their squared distances from queries: pointers, rows, values.

    What a store says of rows that it did not list; nothing where vectors are at hand.
    """

    ptr: Longs
    ids: Ints
    d: Floats


class Block(NamedTuple):
    """Queries: vectors, nearest rows (m, L), how many these are, largest distances, and others."""

    x: Floats
    ids: Ints
    d: Floats
    counts: Longs
    farthest: Floats
    told: Told


class Space(NamedTuple):
    """Arrays of length n + 1 for one query at a time.

    clock : (1,) the last stamp; an entry of ``seen``, ``stepped`` or ``known`` counts if it equals
        a stamp
    slot : -1 between uses
    """

    clock: Ints
    seen: Ints
    stepped: Ints
    known: Ints
    distance: Floats
    total: npt.NDArray[np.float64]
    touched: Ints
    slot: Ints
    nodes: Ints
    mass: npt.NDArray[np.float64]


@kernel
def affinity(squared, farthest, sigma2):
    """exp(-d^2 / sigma^2), d^2 over the row's farthest."""
    scaled = squared / farthest if farthest > 0 else squared
    return np.exp(-min(np.float64(scaled), 1.0) / sigma2)


@kernel
def tick(clock):
    """A stamp that no entry has."""
    clock[0] += 1
    return clock[0]


@kernel
def begin(row, near, near_d, told, clock, known, distance):
    """Take note of what is known of a query's distances; returns the stamp that marks them."""
    stamp = tick(clock)
    for t in range(near.shape[0]):
        known[near[t]], distance[near[t]] = stamp, near_d[t]
    for e in range(told.ptr[row], told.ptr[row + 1]):
        known[told.ids[e]], distance[told.ids[e]] = stamp, told.d[e]
    return stamp


@kernel
def distance_to(row, x, vectors, stamp, known, distance):
    """The squared distance from the query to a row; computed once, infinite if nobody knows."""
    if known[row] != stamp:
        known[row] = stamp
        distance[row] = np.float32(np.inf)
        if vectors.shape[0] > 0:
            distance[row] = squared_distance(x, vectors[row])
    return distance[row]


@kernel
def reciprocal_of(near, near_d, k, list_d, out):
    """R(q, k) without q: those of the k - 1 nearest that would have q among theirs; how many."""
    size = 0
    for t in range(min(k - 1, near.shape[0])):
        if near_d[t] <= list_d[near[t], k - 1]:
            out[size] = near[t]
            size += 1
    return size


@kernel
def half_set(row, x, k, lists, half_ptr, half_ids, stamp, known, distance, out):
    """R(row, k) without q as it were with q among the rows; returns its size.

    Whoever is last in a list that the query enters drops out of it.
    """
    own = distance_to(row, x, lists.vectors, stamp, known, distance)
    enters = own <= lists.d[row, k - 1]
    size = 0
    for e in range(half_ptr[row], half_ptr[row + 1]):
        j = half_ids[e]
        if j != row and enters and lists.ids[row, k - 1] == j:
            continue
        if j != row and lists.ids[j, k - 1] == row:
            other = distance_to(j, x, lists.vectors, stamp, known, distance)
            if other <= lists.d[j, k - 1]:
                continue
        out[size] = j
        size += 1
    return size


@kernel
def expand(row, full, count, x, near, near_d, told, k, lists, half_ptr, half_ids, space, out):
    """R*(q) without q: R(q), then each half set that lies mostly inside it; returns the size."""
    stamp = begin(row, near, near_d, told, space.clock, space.known, space.distance)
    inside, mutual = tick(space.clock), tick(space.clock)
    for t in range(count):
        space.seen[full[t]] = inside
        out[t] = full[t]
    for t in range(min(k - 1, near.shape[0])):
        if near_d[t] <= lists.d[near[t], k - 1]:
            space.stepped[near[t]] = mutual  # q is in the half set too
    size = count
    for t in range(count):
        half = out[size : size + k]
        length = half_set(
            full[t], x, k, lists, half_ptr, half_ids, stamp, space.known, space.distance, half
        )
        shared = with_query = np.int64(space.stepped[full[t]] == mutual)
        for h in range(length):
            shared += space.seen[half[h]] == inside
        if 3 * shared > 2 * (length + with_query):
            size += length
    return size


@kernel
def cluster_rows(block, lists, half_ptr, half_ids, k2, full, half, kind, space):
    """xi and C of each query, sorted, the query itself (number n) last.

    Returns pointers and members of xi, then of C.
    """
    m, n = block.counts.shape[0], lists.ids.shape[0]
    ptr, xi_ptr = np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64)
    ids, xi_ids = np.empty(m * full + 64, np.int32), np.empty(m * (k2 + 1), np.int32)
    found, near_ids = np.empty((full + 1) * (half + 1), np.int32), np.empty(full + 1, np.int32)
    at = xi_at = np.int64(0)
    for row in range(m):
        near, near_d = block.ids[row, : block.counts[row]], block.d[row, : block.counts[row]]
        size = reciprocal_of(near, near_d, k2, lists.d, xi_ids[xi_at:])
        sort_ids(xi_ids, xi_at, xi_at + size)
        xi_ids[xi_at + size] = n
        xi_at += size + 1
        xi_ptr[row + 1] = xi_at
        if kind == NEAREST:
            size = min(full - 1, near.shape[0])
            for t in range(size):
                found[t] = near[t]
        else:
            size = reciprocal_of(near, near_d, full, lists.d, near_ids)
            for t in range(size):
                found[t] = near_ids[t]
        if kind == EXPANDED:
            size = expand(
                row, near_ids, size, block.x[row], near, near_d, block.told, half, lists, half_ptr,
                half_ids, space, found,
            )  # fmt: skip
        sort_ids(found, np.int64(0), size)
        if at + size + 1 > ids.shape[0]:
            ids = enlarge(ids, at, at + size + 1)
        for t in range(size):
            if t == 0 or found[t] != found[t - 1]:
                ids[at] = found[t]
                at += 1
        ids[at] = n
        at += 1
        ptr[row + 1] = at
    return xi_ptr, xi_ids[:xi_at].copy(), ptr, ids[:at].copy()


@kernel
def told_farthest(near, near_d, counts, farthest, asked, length):
    """About the largest squared distance of each query: what its nearest rows say of theirs.

    asked : how many tell; never less than to the row at ``length``, the last that makes its own
    """
    out = np.empty(counts.shape[0], np.float32)
    for row in range(counts.shape[0]):
        total, tellers = 0.0, min(asked, counts[row])
        for t in range(tellers):
            total += farthest[near[row, t]]
        last = min(length, counts[row]) - 1
        mean = total / tellers if tellers > 0 else 0.0
        out[row] = max(mean, np.float64(near_d[row, last])) if last >= 0 else mean
    return out


@kernel
def similar_rows(block, lists, ptr, ids, sigma2, space, out):
    """The affinity itself in place of F, on the clusters."""
    n = lists.ids.shape[0]
    for row in range(block.counts.shape[0]):
        near, near_d = block.ids[row, : block.counts[row]], block.d[row, : block.counts[row]]
        stamp = begin(row, near, near_d, block.told, space.clock, space.known, space.distance)
        for e in range(ptr[row], ptr[row + 1]):
            out[e] = 1.0
            if ids[e] < n:
                d = distance_to(
                    ids[e], block.x[row], lists.vectors, stamp, space.known, space.distance
                )
                out[e] = affinity(d, block.farthest[row], sigma2)
