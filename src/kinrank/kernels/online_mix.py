"""Rows of queries mixed with those of others: averages of smoothed rows, and steps of P."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.online import tick
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import select_rank


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
            length = k - np.int64(entered)
            while list_ids[j, length - 1] < 0:  # a list that is not full
                length -= 1
            share = 1 / (length + np.int64(entered))
            at = add_weights(own, np.int64(entered), share, at, ids, weights)
            at = add_weights(list_ids[j], length, share, at, ids, weights)
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
def add_row(weight, low, high, ids, values, stamp, count, seen, total, touched):
    """Add entries [low, high) of sparse rows to the sum under way; returns its length."""
    for e in range(low, high):
        c = ids[e]
        if seen[c] != stamp:
            seen[c], total[c] = stamp, 0.0
            touched[count] = c
            count += 1
        total[c] += weight * values[e]
    return count


@kernel
def choose_largest(touched, total, names, room, out):
    """As many of the columns as ``out`` has room for, those with the largest sums.

    names : of rows, by which ties go to the lower; the query is behind them all
    """
    size, ties = 0, out.shape[0]
    for t in range(touched.shape[0]):
        room[t] = -total[touched[t]]
    least = -select_rank(room, out.shape[0])
    for c in touched:
        if total[c] > least:
            out[size] = c
            size += 1
    ties -= size
    for c in touched:
        if total[c] != least:
            continue
        if size < out.shape[0]:
            out[size] = c
            size += 1
            continue
        last = out.shape[0] - ties  # the tie with the highest name, unless it is this one
        for t in range(last + 1, out.shape[0]):
            if name_of(out[t], names) > name_of(out[last], names):
                last = t
        if name_of(c, names) < name_of(out[last], names):
            out[last] = c


@kernel
def name_of(row, names):
    """What a row is called; the query, one behind them, keeps its number."""
    return names[row] if row < names.shape[0] else row


@kernel
def mixed_rows(
    groups, a_ptr, a_ids, a, own_groups, own_names, own_ptr, own_ids, own, ptr, ids, values, keep,
    order, space,
):  # fmt: skip
    """A B with rows of L1 norm 1, each cut to its ``keep`` largest entries (0: all).

    groups : which rows of A belong to each query; B has the rows ``own`` of the query in place of
    those of the same names, and the query's as row n. order : the names of rows, by which ties go
    to the lower. Returns pointers, indices, data.
    """
    out_ptr = np.zeros_like(a_ptr)
    out_ids = np.empty(a_ptr.shape[0] * max(keep, 64), np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    room = np.empty(256, np.float64)
    seen, total, touched, slot = space.seen, space.total, space.touched, space.slot
    at = np.int64(0)
    for query in range(groups.shape[0] - 1):
        for t in range(own_groups[query], own_groups[query + 1]):
            slot[own_names[t]] = t
        for row in range(groups[query], groups[query + 1]):
            stamp, count = tick(space.clock), np.int64(0)
            for e in range(a_ptr[row], a_ptr[row + 1]):
                weight, other = np.float64(a[e]), a_ids[e]
                own_row = slot[other]
                if own_row >= 0:
                    count = add_row(
                        weight, own_ptr[own_row], own_ptr[own_row + 1], own_ids, own, stamp, count,
                        seen, total, touched,
                    )  # fmt: skip
                else:
                    count = add_row(
                        weight, ptr[other], ptr[other + 1], ids, values, stamp, count,
                        seen, total, touched,
                    )  # fmt: skip
            length = count if keep == 0 else min(keep, count)
            if at + length > out_ids.shape[0]:
                out_ids = enlarge(out_ids, at, at + length)
                out = enlarge(out, at, at + length)
            chosen = out_ids[at : at + length]
            if length == count:
                for t in range(count):
                    chosen[t] = touched[t]
            else:
                if count > room.shape[0]:
                    room = np.empty(2 * count, np.float64)
                choose_largest(touched[:count], total, order, room[:count], chosen)
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
def gather_rows(places, names, ptr, ids, values, rows_ptr, rows_ids, rows_values):
    """Sparse rows one after another: those at ``places``, or of ``rows`` by name where that is -1.

    Returns pointers, indices, data.
    """
    out_ptr = np.zeros(names.shape[0] + 1, np.int64)
    for row in range(names.shape[0]):
        at, name = places[row], names[row]
        size = ptr[at + 1] - ptr[at] if at >= 0 else rows_ptr[name + 1] - rows_ptr[name]
        out_ptr[row + 1] = out_ptr[row] + size
    out_ids, out = np.empty(out_ptr[-1], np.int32), np.empty(out_ptr[-1], np.float32)
    for row in range(names.shape[0]):
        at, name, to = places[row], names[row], out_ptr[row]
        for t in range(out_ptr[row + 1] - to):
            if at >= 0:
                out_ids[to + t], out[to + t] = ids[ptr[at] + t], values[ptr[at] + t]
            else:
                e = rows_ptr[name] + t
                out_ids[to + t], out[to + t] = rows_ids[e], rows_values[e]
    return out_ptr, out_ids, out


@kernel
def with_support(
    groups, names, ptr, ids, values, rows_ptr, rows_ids, rows_values, keep, order, space
):  # fmt: skip
    """Enhanced rows of queries and their partners, and of others that P leads a query to.

    A partner leads these to the query in turn, so that their rows of P and F' become others too.
    Those count to which P gives more than an even share; the rest hardly matter and cost as much.
    Returns groups and names as ``around_rows``; pointers, indices and data.
    """
    m, n = groups.shape[0] - 1, rows_ptr.shape[0] - 1
    a_ptr, a_ids, a = gather_rows(
        groups[:m], names[groups[:m]], ptr, ids, values, rows_ptr, rows_ids, rows_values
    )
    p_ptr, p_ids, p = mixed_rows(
        np.arange(m + 1), a_ptr, a_ids, a, groups, names, ptr, ids, values, rows_ptr, rows_ids,
        rows_values, keep, order, space,
    )  # fmt: skip
    out_groups, count = np.zeros(m + 1, np.int64), 0
    out_names = np.empty(names.shape[0] + p_ids.shape[0], np.int32)
    places = np.full(out_names.shape[0], -1)
    for query in range(m):
        stamp = tick(space.clock)
        space.seen[n] = stamp
        for row in range(groups[query], groups[query + 1]):
            out_names[count], places[count] = names[row], row
            space.seen[names[row]] = stamp
            count += 1
        even = 1 / max(p_ptr[query + 1] - p_ptr[query], 1)
        for e in range(p_ptr[query], p_ptr[query + 1]):
            if p[e] > even and space.seen[p_ids[e]] != stamp:
                out_names[count] = p_ids[e]
                count += 1
        out_groups[query + 1] = count
    out_names = out_names[:count].copy()
    rows = gather_rows(places, out_names, ptr, ids, values, rows_ptr, rows_ids, rows_values)
    return out_groups, out_names, rows[0], rows[1], rows[2]
