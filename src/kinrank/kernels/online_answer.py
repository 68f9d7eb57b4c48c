"""From the rows of F' that queries have to answers: comparing, ranking."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import COSINE, JACCARD, add_columns, entropies, finish
from kinrank.kernels.jit import kernel
from kinrank.kernels.online import tick
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def answer_rows(
    block, vectors, groups, own_names, ptr, ids, values, measure, columns, norms, omega, root,
    names, n_gallery, space, out_ids, out, complete,
):  # fmt: skip
    """The first k of each query by (1 - omega) d' + omega d, ascending by (value, name).

    groups, own_names : the rows of each query: its own, then those that it changes
    ptr, ids, values : F' of these
    columns : F' of the rows by columns: pointers, rows, values, x log2 x; norms : of its rows
    names : the numbers that rows have for users; those from n_gallery on are never answers
    root : d is the root of the squared distance
    out_ids : names, -1 for none; complete : whether no other row can be among the first k
    Returns, by queries, the rows that could be answers and whose distances nobody knows: pointers
    and rows.
    """
    m, at = block.counts.shape[0], np.int64(0)
    left_ptr, left = np.zeros(m + 1, np.int64), np.empty(0, np.int32)
    for row in range(m):
        first = groups[row]
        part = slice(ptr[first], ptr[first + 1])
        count, shared = compare(measure, ids[part], values[part], *columns, norms, space)
        for t in range(first + 1, groups[row + 1]):
            other = slice(ptr[t], ptr[t + 1])
            d = divergence_of(
                measure, ids[part], values[part], ids[other], values[other], space.slot
            )
            if space.seen[own_names[t]] != shared:
                space.seen[own_names[t]] = shared
                space.touched[count] = own_names[t]
                count += 1
            space.total[own_names[t]] = d
        near, near_d = block.ids[row, : block.counts[row]], block.d[row, : block.counts[row]]
        complete[row], unknown = rank(
            row, block.x[row], near, near_d, block.farthest[row], block.told, count, shared,
            vectors, omega, root, names, n_gallery, space, out_ids[row], out[row],
        )  # fmt: skip
        if at + unknown > left.shape[0]:
            left = enlarge(left, at, at + unknown)
        for t in range(unknown):
            left[at + t] = space.nodes[t]
        at += unknown
        left_ptr[row + 1] = at
    return left_ptr, left[:at].copy()


@kernel
def divergence_of(measure, u_ids, u, v_ids, v, slot):
    """d' of two rows; slot : -1 throughout. In float64, so that like rows are like far."""
    u_norm = v_norm = total = 0.0
    for e in range(u_ids.shape[0]):
        slot[u_ids[e]] = e
        u_norm += np.float64(u[e]) * u[e]
    for e in range(v_ids.shape[0]):
        b = np.float64(v[e])
        v_norm += b * b
        if slot[v_ids[e]] >= 0 and b > 0:
            a = np.float64(u[slot[v_ids[e]]])
            if measure >= COSINE:
                total += a * b
            elif measure == JACCARD:
                total += min(a, b)
            elif a > 0:
                total += a * np.log2(a / (a + b)) + b * np.log2(b / (a + b))
    for e in range(u_ids.shape[0]):
        slot[u_ids[e]] = -1
    return finish(measure, total, u_norm, v_norm)


@kernel
def compare(measure, ids, values, in_ptr, in_ids, in_values, in_f, norms, space):
    """d' to all rows that share a column: the rows in ``touched``, d' in ``total``.

    Returns their number and the stamp that marks them in ``seen``.
    """
    n, size, own_norm = norms.shape[0], 0, 0.0
    known, v = np.empty_like(ids), np.empty_like(values)
    for e in range(ids.shape[0]):
        own_norm += np.float64(values[e]) * values[e]
        if ids[e] < n:
            known[size], v[size] = ids[e], values[e]
            size += 1
    stamp = tick(space.clock)
    count = add_columns(
        measure, known[:size], v[:size], entropies(v[:size]), in_ptr, in_ids, in_values, in_f,
        stamp, space.total, space.seen, space.touched, 0,
    )  # fmt: skip
    for t in range(count):
        other = space.touched[t]
        norm = norms[other] if measure >= COSINE else 0.0
        space.total[other] = finish(measure, space.total[other], own_norm, norm)
    return count, stamp


@kernel
def rank(
    row, x, near, near_d, far, told, count, shared, vectors, omega, root, names, n_gallery, space,
    out_ids, out,
):  # fmt: skip
    """The first k of the nearest rows and those that share something with the query.

    A row that is not among the nearest is no nearer than the last of them: most are ruled out by
    that bound. Where nobody knows it, their distance is that bound.
    Returns whether no other row can be among them, and how many such unknown rows are in ``nodes``.
    """
    k, size, d = out.shape[0], np.int64(0), np.float32(0)
    part, unknown = np.float32(1) - omega, np.int64(0)
    stamp, others = tick(space.clock), tick(space.clock)
    for t in range(near.shape[0]):
        one = near[t]
        space.known[one] = stamp
        d = scaled(near_d[t], far, root)
        if names[one] < n_gallery:
            modified = np.float32(space.total[one]) if space.seen[one] == shared else np.float32(1)
            size = heap_offer(out, out_ids, size, k, part * modified + omega * d, names[one])
    beyond = omega * d
    for e in range(told.ptr[row], told.ptr[row + 1]):
        space.stepped[told.ids[e]], space.distance[told.ids[e]] = others, told.d[e]
    for t in range(count):
        one = space.touched[t]
        if space.known[one] == stamp or names[one] >= n_gallery:
            continue
        value = part * np.float32(space.total[one])
        if size == k and value + beyond > out[0]:
            continue
        if vectors.shape[0] > 0:
            value += omega * scaled(squared_distance(x, vectors[one]), far, root)
        elif space.stepped[one] == others:
            value += omega * scaled(space.distance[one], far, root)
        else:  # offered last: a bound rules nobody out
            space.nodes[unknown] = one
            unknown += 1
            continue
        size = heap_offer(out, out_ids, size, k, value, names[one])
    for t in range(unknown):
        value = part * np.float32(space.total[space.nodes[t]]) + beyond
        size = heap_offer(out, out_ids, size, k, value, names[space.nodes[t]])
    whole = near.shape[0] == names.shape[0]
    complete = whole or (size == k and out[0] < part + beyond)
    sort_heap(out, out_ids, size)
    out_ids[size:] = -1
    out[size:] = np.inf
    return complete, unknown


@kernel
def scaled(squared, far, root):
    """d of a squared distance."""
    d = min(squared / far, np.float32(1)) if far > 0 else np.float32(0)
    return np.sqrt(d) if root else d
