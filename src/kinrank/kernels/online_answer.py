"""From the smoothed rows of queries to answers: mixing with other rows, comparing, ranking."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import COSINE, JACCARD, add_columns, entropies, finish
from kinrank.kernels.jit import kernel
from kinrank.kernels.online import tick
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def add_weights(ids, n_ids, weight, at, out_ids, out):
    """Append ids of one weight; returns the end."""
    for t in range(n_ids):
        out_ids[at + t], out[at + t] = ids[t], weight
    return at + n_ids


@kernel
def around_rows(
    near, near_d, counts, list_ids, list_d, k, xi_ptr, xi_ids, kappa, rows_xi_ptr, rows_xi_ids
):  # fmt: skip
    """Whose rows are averaged: N(q, k), and xi by kappa; for q and for rows that would average q.

    Those, its partners, have q in N(j, k), whose last drops out, or in xi[j]; kappa = 0 leaves xi
    and partners out. xi_ptr, xi_ids : with the query (number n) as its last.
    Returns the rows of each query (pointers), q first, and their numbers; pointers, indices and
    weights of these rows.
    """
    m, n = counts.shape[0], list_ids.shape[0]
    groups, names = np.zeros(m + 1, np.int64), np.empty(m * (near.shape[1] + 1), np.int32)
    ptr = np.zeros(names.shape[0] + 1, np.int64)
    ids = np.empty(m * (k + xi_ids.shape[0] + 1), np.int32)
    weights = np.empty(ids.shape[0], np.float32)
    own = np.full(1, n, np.int32)
    count, at = 0, np.int64(0)
    for row in range(m):
        xi = xi_ids[xi_ptr[row] : xi_ptr[row + 1]]
        size = min(k - 1, counts[row]) + 1
        if at + k + xi.shape[0] > ids.shape[0]:
            ids = enlarge(ids, at, at + k + xi.shape[0])
            weights = enlarge(weights, at, at + k + xi.shape[0])
        at = add_weights(own, 1, 1 / size, at, ids, weights)
        at = add_weights(near[row], size - 1, 1 / size, at, ids, weights)
        if kappa > 0:
            at = add_weights(xi, xi.shape[0], kappa / xi.shape[0], at, ids, weights)
        names[count], ptr[count + 1] = n, at
        count += 1
        for t in range(counts[row] if kappa > 0 else 0):
            j = near[row, t]
            entered, mutual = k > 1 and near_d[row, t] <= list_d[j, k - 1], False
            for c in xi:
                mutual |= c == j
            if not (entered or mutual):
                continue
            theirs = rows_xi_ids[rows_xi_ptr[j] : rows_xi_ptr[j + 1]]
            if at + k + theirs.shape[0] + 2 > ids.shape[0]:
                ids = enlarge(ids, at, at + k + theirs.shape[0] + 2)
                weights = enlarge(weights, at, at + k + theirs.shape[0] + 2)
            at = add_weights(own, np.int64(entered), 1 / k, at, ids, weights)
            at = add_weights(list_ids[j], k - np.int64(entered), 1 / k, at, ids, weights)
            share = kappa / (theirs.shape[0] + np.int64(mutual))
            at = add_weights(own, np.int64(mutual), share, at, ids, weights)
            at = add_weights(theirs, theirs.shape[0], share, at, ids, weights)
            names[count], ptr[count + 1] = j, at
            count += 1
        groups[row + 1] = count
    return (
        groups,
        names[:count].copy(),
        ptr[: count + 1].copy(),
        ids[:at].copy(),
        weights[:at].copy(),
    )


@kernel
def add_row(weight, ids, values, stamp, count, seen, total, touched):
    """Add a sparse row to the sum under way; returns how many columns that has."""
    for e in range(ids.shape[0]):
        c = ids[e]
        if seen[c] != stamp:
            seen[c], total[c] = stamp, 0.0
            touched[count] = c
            count += 1
        total[c] += weight * values[e]
    return count


@kernel
def mixed_rows(
    groups, a_ptr, a_ids, a, own_groups, own_names, own_ptr, own_ids, own, ptr, ids, values, keep,
    space,
):  # fmt: skip
    """A B with rows of L1 norm 1, each cut to its ``keep`` largest entries (0: all).

    groups : which rows of A belong to each query; B has the rows ``own`` of the query in place of
    those of the same names, and the query's as row n. Returns pointers, indices, data.
    """
    out_ptr = np.zeros_like(a_ptr)
    out_ids = np.empty(a_ptr.shape[0] * max(keep, 64), np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    best = np.empty(max(keep, 1), np.float64)
    seen, total, touched, slot = space.seen, space.total, space.touched, space.slot
    at = np.int64(0)
    for query in range(groups.shape[0] - 1):
        for t in range(own_groups[query], own_groups[query + 1]):
            slot[own_names[t]] = t
        for row in range(groups[query], groups[query + 1]):
            stamp, count = tick(space.clock), np.int64(0)
            for e in range(a_ptr[row], a_ptr[row + 1]):
                weight, other = np.float64(a[e]), a_ids[e]
                if slot[other] >= 0:
                    part = slice(own_ptr[slot[other]], own_ptr[slot[other] + 1])
                    count = add_row(
                        weight, own_ids[part], own[part], stamp, count, seen, total, touched
                    )
                else:
                    part = slice(ptr[other], ptr[other + 1])
                    count = add_row(
                        weight, ids[part], values[part], stamp, count, seen, total, touched
                    )
            length = count if keep == 0 else min(keep, count)
            if at + length > out_ids.shape[0]:
                out_ids = enlarge(out_ids, at, at + length)
                out = enlarge(out, at, at + length)
            chosen, size = out_ids[at : at + length], np.int64(0)
            if length == count:
                for t in range(count):
                    chosen[t] = touched[t]
            else:
                for t in range(count):
                    c = touched[t]
                    size = heap_offer(best, chosen, size, length, -total[c], c)
            norm = 0.0
            for c in chosen:
                norm += total[c]
            for t in range(length):
                out[at + t] = total[chosen[t]] / norm if norm > 0 else 0.0
            at += length
            out_ptr[row + 1] = at
        for t in range(own_groups[query], own_groups[query + 1]):
            slot[own_names[t]] = -1
    return out_ptr, out_ids[:at].copy(), out[:at].copy()


@kernel
def answer_rows(
    block, vectors, groups, own_names, ptr, ids, values, measure, columns, norms, omega, root,
    names, n_gallery, space, out_ids, out, complete,
):  # fmt: skip
    """The first k of each query by (1 - omega) d' + omega d, ascending by (value, name).

    groups, own_names : the rows of each query: its own, then those of its partners
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
    """d' of two rows; slot : -1 throughout."""
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
                total += a * np.log2(a) + b * np.log2(b) - (a + b) * np.log2(a + b)
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
