"""From the rows of F' that queries have to answers: comparing, ranking."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.kernels.divergence import COSINE, JACCARD, add_columns, entropies, finish
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.overlay import named_space, tick
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance
from kinrank.types import Floats, Ints, Longs


class Asked(NamedTuple):
    """Queries: vectors, nearest rows (m, L), squared distances, how many, and the largest.

    ptr, ids, d : rows beside the nearest whose squared distances were fetched from a store
    chosen_ptr, chosen, only : of each query, the rows that alone may be answers, or that may not
    """

    x: Floats
    near: Ints
    near_d: Floats
    counts: Longs
    farthest: Floats
    ptr: Longs
    ids: Ints
    d: Floats
    chosen_ptr: Longs
    chosen: Ints
    only: npt.NDArray[np.bool_]


class Compared(NamedTuple):
    """What answers are made from.

    columns : F' by columns: pointers, rows, values, x log2 x; norms : of its rows
    root : d is the root of the squared distance
    names : the numbers that rows have for users; those from n_gallery on are never answers
    vectors : (n, d), or (0, d) when they are in a store
    """

    measure: int
    columns: tuple[Longs, Ints, Floats, Floats]
    norms: npt.NDArray[np.float64]
    omega: np.float32
    root: bool
    names: Ints
    n_gallery: int
    vectors: Floats


@kernel
def answer_rows(low, high, asked, groups, names, ptr, ids, values, compared, out_ids, out, space):
    """The first k of queries [low, high) by (1 - omega) d' + omega d, ascending by (value, name).

    groups, names : the rows of each query: its own, then those that it changes
    ptr, ids, values : F' of these; out_ids : names, -1 for none
    Returns whether no other row can be among the first k; and, by queries, the rows that could be
    answers and whose distances nobody knows: pointers and rows.
    """
    asked = Asked(*asked)
    space = named_space(space)
    m = high - low
    at = np.int64(0)
    left_ptr = np.zeros(m + 1, np.int64)
    left = np.empty(0, np.int32)
    complete = np.zeros(m, np.bool_)
    for query in range(low, high):
        count, shared = compare_query(query, groups, names, ptr, ids, values, compared, space)
        complete[query - low], unknown = rank(
            query, asked, count, shared, Compared(*compared), space, out_ids[query], out[query]
        )
        if at + unknown > left.shape[0]:
            left = enlarge(left, at, at + unknown)
        for t in range(unknown):
            left[at + t] = space.touched[t]
        at += unknown
        left_ptr[query - low + 1] = at
    return complete, left_ptr, left[:at].copy()


@helper
def compare_query(query, groups, names, ptr, ids, values, compared, space):
    """As ``compare``, from a query of ``answer_rows``: rows that it changes are as they become."""
    compared = Compared(*compared)
    first = groups[query]
    own = ids[ptr[first] : ptr[first + 1]]
    own_values = values[ptr[first] : ptr[first + 1]]
    count, shared = compare(own, own_values, compared, space)
    for e in range(own.shape[0]):
        space.slot[own[e]] = e
    for t in range(first + 1, groups[query + 1]):
        part = slice(ptr[t], ptr[t + 1])
        d = divergence_of(compared.measure, own_values, ids[part], values[part], space.slot)
        if space.seen[names[t]] != shared:
            space.seen[names[t]] = shared
            space.touched[count] = names[t]
            count += 1
        space.total[names[t]] = d
    for e in range(own.shape[0]):
        space.slot[own[e]] = -1
    return count, shared


@inner
def divergence_of(measure, u, v_ids, v, slot):
    """d' of two rows; slot : where u has a column. In float64, so that like rows are like far."""
    u_norm = v_norm = total = 0.0
    for e in range(v.shape[0]):
        at = slot[v_ids[e]]
        if at < 0 or v[e] <= 0 or u[at] <= 0:
            continue
        a = np.float64(u[at])
        b = np.float64(v[e])
        if measure >= COSINE:
            total += a * b
        elif measure == JACCARD:
            total += min(a, b)
        else:
            total += a * np.log2(a / (a + b)) + b * np.log2(b / (a + b))
    for value in u if measure >= COSINE else u[:0]:
        u_norm += np.float64(value) * value
    for value in v if measure >= COSINE else v[:0]:
        v_norm += np.float64(value) * value
    return finish(measure, total, u_norm, v_norm)


@helper
def compare(ids, values, compared, space):
    """d' to all rows that share a column: the rows in ``touched``, d' in ``total``.

    Returns their number and the stamp that marks them in ``seen``.
    """
    measure = compared.measure
    norms = compared.norms
    columns = compared.columns
    n = norms.shape[0]
    size = 0
    own_norm = 0.0
    known = np.empty_like(ids)
    v = np.empty_like(values)
    for e in range(ids.shape[0]):
        own_norm += np.float64(values[e]) * values[e]
        if ids[e] < n:
            known[size] = ids[e]
            v[size] = values[e]
            size += 1
    stamp = tick(space.clock)
    total = space.total
    touched = space.touched
    count = add_columns(
        measure,
        known[:size],
        v[:size],
        entropies(v[:size]),
        columns,
        stamp,
        total,
        space.seen,
        touched,
        0,
    )
    for t in range(count):
        other = touched[t]
        norm = norms[other] if measure >= COSINE else 0.0
        total[other] = finish(measure, total[other], own_norm, norm)
    return count, stamp


@kernel
def compared_rows(ids, values, compared, space):
    """The rows that share a column with a row, and d' to them."""
    space = named_space(space)
    count, _ = compare(ids, values, Compared(*compared), space)
    rows = space.touched[:count].copy()
    return rows, space.total[rows]


@inner
def rank(query, asked, count, shared, compared, space, out_ids, out):
    """The first k of the nearest rows and those that share something with the query.

    A row that is not among the nearest is no nearer than the last of them: most are ruled out by
    that bound. Where nobody knows it, their distance is that bound. Where only some rows may be
    answers, all of these are looked at instead.
    Returns whether no other row can be among them, and how many such unknown rows ``touched`` has.
    """
    names = compared.names
    vectors = compared.vectors
    n_gallery = compared.n_gallery
    omega = compared.omega
    root = compared.root
    far = asked.farthest[query]
    near = asked.near[query]
    near_d = asked.near_d[query]
    x = asked.x[query]
    touched = space.touched
    total = space.total
    seen = space.seen
    stepped = space.stepped
    k = out.shape[0]
    size = np.int64(0)
    d = np.float32(0)
    part = np.float32(1) - omega
    unknown = np.int64(0)
    listed = tick(space.clock)
    fetched = tick(space.clock)
    barred = tick(space.clock)
    chosen = asked.chosen[asked.chosen_ptr[query] : asked.chosen_ptr[query + 1]]
    only = asked.only[query]
    mass = space.mass
    for e in range(0 if only else chosen.shape[0]):
        stepped[chosen[e]] = barred
    for t in range(asked.counts[query]):
        row = near[t]
        d = scaled(near_d[t], far, root)
        if stepped[row] == barred:
            continue
        stepped[row] = listed
        if only:
            mass[row] = near_d[t]
        elif names[row] < n_gallery:
            modified = np.float32(total[row]) if seen[row] == shared else np.float32(1)
            size = heap_offer(out, out_ids, size, k, part * modified + omega * d, names[row])
    beyond = omega * d
    for e in range(asked.ptr[query], asked.ptr[query + 1]):
        stepped[asked.ids[e]] = fetched
        mass[asked.ids[e]] = asked.d[e]
    for e in range(chosen.shape[0] if only else 0):
        row = chosen[e]
        value = part * (np.float32(total[row]) if seen[row] == shared else np.float32(1))
        if stepped[row] == listed or (stepped[row] == fetched and mass[row] < np.inf):
            value += omega * scaled(np.float32(mass[row]), far, root)
        elif vectors.shape[0] > 0:
            value += omega * scaled(squared_distance(x, vectors[row]), far, root)
        else:
            touched[unknown] = row
            unknown += 1
            continue
        size = heap_offer(out, out_ids, size, k, value, names[row])
    for t in range(0 if only else count):
        row = touched[t]
        value = part * np.float32(total[row])
        if size == k and value + beyond > out[0]:
            continue  # most of them, without a look at what else is known
        if stepped[row] == listed or stepped[row] == barred or names[row] >= n_gallery:
            continue
        if vectors.shape[0] > 0:
            value += omega * scaled(squared_distance(x, vectors[row]), far, root)
        elif stepped[row] == fetched and mass[row] < np.inf:
            value += omega * scaled(np.float32(mass[row]), far, root)
        else:  # offered last: a bound rules nobody out
            touched[unknown] = row
            unknown += 1
            continue
        size = heap_offer(out, out_ids, size, k, value, names[row])
    for t in range(unknown):
        row = touched[t]
        value = part * (np.float32(total[row]) if seen[row] == shared else np.float32(1))
        size = heap_offer(out, out_ids, size, k, value + beyond, names[row])
    whole = only or asked.counts[query] == names.shape[0]
    complete = whole or (size == k and out[0] < part + beyond)
    sort_heap(out, out_ids, size)
    out_ids[size:] = -1
    out[size:] = np.inf
    return complete, unknown


@inner
def scaled(squared, far, root):
    """d of a squared distance."""
    d = min(squared / far, np.float32(1)) if far > 0 else np.float32(0)
    return np.sqrt(d) if root else d
