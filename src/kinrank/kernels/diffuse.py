"""Diffusion row by row: polynomials of S, applied to one unit vector at a time.

Only some entries of a row are asked for. A walk from i to j that leaves the surroundings of both
weighs next to nothing, so the row needs only the union of these surroundings, its ball. It is
found in one sweep and its part of S is copied out under local numbers; the polynomial then runs
over that small matrix. What is left out is of the order of the floor squared.
S must be symmetric, so that a product is a gather.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge


@kernel
def find_ball(row, seeds, indptr, indices, weights, decay, floor, slot, nodes, mass, reach):
    """Number the surroundings of ``row`` and ``seeds``: slot[node] and nodes[slot], row first.

    One sweep: mass 1 starts at the row, 0.03 at every seed, and spreads hop by hop; a row that
    it reaches with no more than its floor is left out. reach[h] : how many are within h hops of the
    row and the seeds; it has one entry for each hop that matters. Returns how many there are.
    """
    slot[row], nodes[0], mass[0] = 0, row, 1.0
    size = np.int64(1)
    for t in range(seeds.shape[0]):
        node = seeds[t]
        if slot[node] < 0:
            slot[node], nodes[size], mass[size] = size, node, 0.03
            size += 1
    return spread(size, indptr, indices, weights, decay, floor, slot, nodes, mass, reach)


@kernel
def spread(size, indptr, indices, weights, decay, floor, slot, nodes, mass, reach):
    """The sweep of ``find_ball`` from the first ``size`` nodes, which have their slots and mass."""
    at = hop = 0
    reach[:] = size
    while at < size and hop + 1 < reach.shape[0]:
        level_end = seen = size
        while at < level_end:
            node, out = nodes[at], decay * mass[at]
            at += 1
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                if slot[other] < 0:
                    slot[other], nodes[seen], mass[seen] = seen, other, 0.0
                    seen += 1
                mass[slot[other]] += out * weights[e]
        for t in range(level_end, seen):
            node = nodes[t]
            if mass[t] > floor[node]:
                slot[node], nodes[size], mass[size] = size, node, mass[t]
                size += 1
            else:
                slot[node] = -1
        hop += 1
        reach[hop:] = size
    return size


@kernel
def copy_ball(
    size, indptr, indices, weights, other_weights, slot, nodes, multiple, ptr, ids, w, other_w
):  # fmt: skip
    """The matrix of the ball under local numbers, with the values of a second one beside it.

    Edges of weight 0 fill rows up to a ``multiple`` of edges.
    """
    at = 0
    ptr[0] = 0
    for v in range(size):
        node = nodes[v]
        for e in range(indptr[node], indptr[node + 1]):
            local = slot[indices[e]]
            if local >= 0:
                ids[at], w[at], other_w[at] = local, weights[e], other_weights[e]
                at += 1
        while at % multiple:
            ids[at], w[at], other_w[at] = v, 0, 0
            at += 1
        ptr[v + 1] = at


@kernel
def walk_rows(
    low, high, rows, indptr, indices, weights, start, powers, binomial, decay, floor,
    out_ptr, out_ids, out,
):  # fmt: skip
    """sum_t powers[t] S^t + sum_t binomial[t] S^t B S^(T-t) for some rows, at the places asked for.

    rows : which row each output row belongs to
    indptr, indices, weights : S; start : the values of B transposed on the same pattern
    powers, binomial : (T + 1,) coefficients
    out_ptr, out_ids : the places; out : their values
    Both walk in step: with u = S^t e, the second sum is r <- S r + binomial[t] B u.
    """
    n, steps = indptr.shape[0] - 1, powers.shape[0]
    slot = np.full(n, -1, np.int32)
    nodes, mass = np.empty(n, np.int32), np.empty(n, np.float64)
    reach = np.empty(steps // 2 + 1, np.int64)
    ptr, ids = np.empty(n + 1, np.uint64), np.empty(indices.shape[0], np.uint32)
    w, b = np.empty(indices.shape[0], np.float32), np.empty(indices.shape[0], np.float32)
    now, then = np.empty((n, 2), np.float32), np.empty((n, 2), np.float32)
    total = np.empty(n, np.float64)
    for at in range(low, high):
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(
            rows[at], seeds, indptr, indices, weights, decay, floor, slot, nodes, mass, reach
        )
        copy_ball(size, indptr, indices, weights, start, slot, nodes, 1, ptr, ids, w, b)
        for v in range(size):
            now[v, 0] = now[v, 1] = then[v, 0] = then[v, 1] = total[v] = 0.0
        now[0, 0] = 1.0
        for t in range(steps):
            pull = np.float32(binomial[t])
            for v in range(reach[0]):
                total[v] += powers[t] * now[v, 0]
            # Farther out nothing has arrived yet, or it cannot be back in time.
            for v in range(reach[min(t + 1, steps - 1 - t)]):
                u = r = pulled = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    local = ids[e]
                    u += w[e] * now[local, 0]
                    r += w[e] * now[local, 1]
                    pulled += b[e] * now[local, 0]
                then[v, 0], then[v, 1] = u, r + pull * pulled
            now, then = then, now
        for v in range(reach[0]):
            total[v] += now[v, 1]
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = total[local] if local >= 0 else 0.0
        for v in range(size):
            slot[nodes[v]] = -1


@kernel
def polynomial_rows(
    low, high, rows, indptr, indices, weights, coefficients, decay, floor, out_ptr, out_ids, out
):  # fmt: skip
    """sum_t coefficients[t] T_t(S) for some rows, T_t the Chebyshev polynomials; as walk_rows."""
    n, terms = indptr.shape[0] - 1, coefficients.shape[0]
    slot = np.full(n, -1, np.int32)
    nodes, mass = np.empty(n, np.int32), np.empty(n, np.float64)
    reach = np.empty(terms // 2 + 1, np.int64)
    ptr, ids = np.empty(n + 1, np.uint64), np.empty(indices.shape[0], np.uint32)
    w, unused = np.empty(indices.shape[0], np.float32), np.empty(indices.shape[0], np.float32)
    now, then = np.empty(n, np.float32), np.empty(n, np.float32)
    total = np.empty(n, np.float64)
    for at in range(low, high):
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(
            rows[at], seeds, indptr, indices, weights, decay, floor, slot, nodes, mass, reach
        )
        copy_ball(size, indptr, indices, weights, weights, slot, nodes, 1, ptr, ids, w, unused)
        now[:size] = 0.0
        then[:size] = 0.0
        now[0] = 1.0
        total[:size] = 0.0
        total[0] = coefficients[0]
        for t in range(1, terms):
            factor = 1.0 if t == 1 else 2.0
            for v in range(reach[min(t, terms - 1 - t)]):
                u = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    u += w[e] * now[ids[e]]
                then[v] = factor * u - then[v]
            for v in range(reach[0]):
                total[v] += coefficients[t] * then[v]
            now, then = then, now
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = total[local] if local >= 0 else 0.0
        for v in range(size):
            slot[nodes[v]] = -1


@kernel
def ball_rows(low, high, rows, indptr, indices, weights, decay, floor):
    """The members of the balls of some rows; returns lengths, indices."""
    n = indptr.shape[0] - 1
    slot = np.full(n, -1, np.int32)
    nodes, mass = np.empty(n, np.int32), np.empty(n, np.float64)
    reach = np.empty(256, np.int64)
    lengths = np.zeros(high - low, np.int64)
    parts = np.empty(64, np.int32)
    at = np.int64(0)
    for index in range(low, high):
        size = find_ball(
            rows[index], rows[:0], indptr, indices, weights, decay, floor, slot, nodes, mass, reach
        )
        if at + size > parts.shape[0]:
            parts = enlarge(parts, at, at + size)
        for v in range(size):
            parts[at + v] = nodes[v]
        at += size
        lengths[index - low] = size
        for v in range(size):
            slot[nodes[v]] = -1
    return lengths, parts[:at].copy()


@kernel
def bilinear_rows(
    low, high, rows, indptr, indices, weights, reach_weights, m_ptr, m_ids, m_values, coefficients,
    decay, floor, out_ptr, out_ids, out,
):  # fmt: skip
    """sum_pq coefficients[p, q] T_p(S) M T_q(S) for some rows, M any symmetric matrix.

    reach_weights : what the ball follows, on the pattern of S, which also holds that of M
    All T_p(S) e are kept, one row of ``forward`` each; Clenshaw's recurrence then sums over q.
    """
    n, terms = indptr.shape[0] - 1, coefficients.shape[0]
    slot = np.full(n, -1, np.int32)
    nodes, mass = np.empty(n, np.int32), np.empty(n, np.float64)
    reach = np.empty(terms + 1, np.int64)
    ptr, ids = np.empty(n + 1, np.uint64), np.empty(indices.shape[0], np.uint32)
    w, unused = np.empty(indices.shape[0], np.float32), np.empty(indices.shape[0], np.float32)
    for at in range(low, high):
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(
            rows[at], seeds, indptr, indices, reach_weights, decay, floor, slot, nodes, mass, reach
        )
        copy_ball(size, indptr, indices, weights, weights, slot, nodes, 1, ptr, ids, w, unused)
        forward = np.zeros((terms, size), np.float64)
        forward[0, 0] = 1.0
        for p in range(1, terms):
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += w[e] * forward[p - 1, ids[e]]
                forward[p, v] = u if p == 1 else 2.0 * u - forward[p - 2, v]
        one, two, mixed = np.zeros(size), np.zeros(size), np.zeros(size)
        for q in range(terms - 1, -1, -1):
            mixed[:] = 0.0
            for p in range(terms):
                if coefficients[p, q] != 0:
                    for v in range(size):
                        mixed[v] += coefficients[p, q] * forward[p, v]
            nxt = np.zeros(size)
            for v in range(size):
                node = nodes[v]
                for e in range(m_ptr[node], m_ptr[node + 1]):
                    local = slot[m_ids[e]]
                    if local >= 0:
                        nxt[local] += mixed[v] * m_values[e]
            factor = 1.0 if q == 0 else 2.0
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += w[e] * one[ids[e]]
                nxt[v] += factor * u - two[v]
            one, two = nxt, one
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = one[local] if local >= 0 else 0.0
        for v in range(size):
            slot[nodes[v]] = -1
