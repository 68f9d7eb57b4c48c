"""From the smoothed rows of queries to answers: mixing with other rows, comparing, ranking."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import COSINE, add_columns, entropies, finish
from kinrank.kernels.jit import kernel
from kinrank.kernels.online import begin, tick
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def around_rows(near, counts, n, k, xi_ptr, xi_ids, kappa):
    """Whose rows are averaged for each query, and by what weights: N(q, k), and xi by kappa.

    xi_ptr, xi_ids : with the query (number n) in them. Returns lengths, indices, data.
    """
    m = counts.shape[0]
    lengths = np.empty(m, np.int64)
    ids = np.empty(m * k + xi_ids.shape[0], np.int32)
    weights = np.empty(ids.shape[0], np.float32)
    at = 0
    for row in range(m):
        start, size = at, min(k - 1, counts[row]) + 1
        ids[at] = n
        ids[at + 1 : at + size] = near[row, : size - 1]
        weights[at : at + size] = 1 / size
        at += size
        if kappa > 0:
            favoured = xi_ids[xi_ptr[row] : xi_ptr[row + 1]]
            ids[at : at + favoured.shape[0]] = favoured
            weights[at : at + favoured.shape[0]] = kappa / favoured.shape[0]
            at += favoured.shape[0]
        lengths[row] = at - start
    return lengths, ids[:at].copy(), weights[:at].copy()


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
def mixed_rows(a_ptr, a_ids, a, own_ptr, own_ids, own, ptr, ids, values, keep, space):
    """A B for queries, B the rows with the query's own as row n; cut to ``keep`` (0: all), norm 1.

    a : the weights; own : the row of each query itself. Returns lengths, indices, data.
    """
    m, n = a_ptr.shape[0] - 1, ptr.shape[0] - 1
    lengths = np.empty(m, np.int64)
    out_ids = np.empty(m * max(keep, 64), np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    best = np.empty(max(keep, 1), np.float64)
    seen, total, touched = space.seen, space.total, space.touched
    at = 0
    for row in range(m):
        stamp, count = tick(space.clock), 0
        for e in range(a_ptr[row], a_ptr[row + 1]):
            weight, other = np.float64(a[e]), a_ids[e]
            if other == n:
                part = slice(own_ptr[row], own_ptr[row + 1])
                count = add_row(
                    weight, own_ids[part], own[part], stamp, count, seen, total, touched
                )
            else:
                part = slice(ptr[other], ptr[other + 1])
                count = add_row(weight, ids[part], values[part], stamp, count, seen, total, touched)
        length = count if keep == 0 else min(keep, count)
        if at + length > out_ids.shape[0]:
            out_ids = enlarge(out_ids, at, at + length)
            out = enlarge(out, at, at + length)
        chosen, size = out_ids[at : at + length], 0
        if length == count:
            chosen[:] = touched[:count]
        else:
            for t in range(count):
                c = touched[t]
                size = heap_offer(best, chosen, size, length, -total[c], c)
        norm = 0.0
        for c in chosen:
            norm += total[c]
        for t in range(length):
            out[at + t] = total[chosen[t]] / norm if norm > 0 else 0.0
        lengths[row] = length
        at += length
    return lengths, out_ids[:at].copy(), out[:at].copy()


@kernel
def answer_rows(
    block, vectors, ptr, ids, values, measure, columns, norms, omega, root, names, n_gallery, space,
    out_ids, out, complete,
):  # fmt: skip
    """The first k of each query by (1 - omega) d' + omega d, ascending by (value, name).

    ptr, ids, values : F' of the queries; their own columns, number n, are shared with nobody
    columns : F' of the rows by columns: pointers, rows, values, x log2 x; norms : of its rows
    names : the numbers that rows have for users; those from n_gallery on are never answers
    root : d is the root of the squared distance
    out_ids : names, -1 for none; complete : whether no other row can be among the first k
    """
    for row in range(block.counts.shape[0]):
        part = slice(ptr[row], ptr[row + 1])
        count, shared = compare(measure, ids[part], values[part], *columns, norms, space)
        near, near_d = block.ids[row, : block.counts[row]], block.d[row, : block.counts[row]]
        complete[row] = rank(
            block.x[row], near, near_d, block.farthest[row], count, shared, vectors, omega,
            root, names, n_gallery, space, out_ids[row], out[row],
        )  # fmt: skip


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
        stamp, space.total, space.seen, space.touched,
    )  # fmt: skip
    for t in range(count):
        other = space.touched[t]
        norm = norms[other] if measure >= COSINE else 0.0
        space.total[other] = finish(measure, space.total[other], own_norm, norm)
    return count, stamp


@kernel
def rank(
    x, near, near_d, far, count, shared, vectors, omega, root, names, n_gallery, space, out_ids, out
):  # fmt: skip
    """The first k of the nearest rows and those that share something with the query.

    A row that is not among the nearest is no nearer than the last of them: most are ruled out by
    that bound. Without vectors their distance is that bound.
    """
    k, size, d = out.shape[0], 0, np.float32(0)
    part = np.float32(1) - omega
    stamp = begin(near, near_d, space.clock, space.known, space.distance)
    for t in range(near.shape[0]):
        row = near[t]
        d = scaled(near_d[t], far, root)
        if names[row] < n_gallery:
            modified = np.float32(space.total[row]) if space.seen[row] == shared else np.float32(1)
            size = heap_offer(out, out_ids, size, k, part * modified + omega * d, names[row])
    beyond = omega * d
    for t in range(count):
        row = space.touched[t]
        if space.known[row] == stamp or names[row] >= n_gallery:
            continue
        value = part * np.float32(space.total[row])
        if size == k and value + beyond > out[0]:
            continue
        if vectors.shape[0] > 0:
            value += omega * scaled(squared_distance(x, vectors[row]), far, root)
        else:
            value += beyond
        size = heap_offer(out, out_ids, size, k, value, names[row])
    whole = near.shape[0] == names.shape[0]
    complete = whole or (size == k and out[0] < part + beyond)
    sort_heap(out, out_ids, size)
    out_ids[size:] = -1
    out[size:] = np.inf
    return complete


@kernel
def scaled(squared, far, root):
    """d of a squared distance."""
    d = min(squared / far, np.float32(1)) if far > 0 else np.float32(0)
    return np.sqrt(d) if root else d
