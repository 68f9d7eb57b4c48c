"""Diffusion row by row: polynomials of S, applied to one unit vector at a time.

Only some entries of a row are asked for. Weight that goes from i to j and leaves the surroundings
of both is next to nothing, so the row needs only the union of these surroundings, its ball. It is
found in one sweep and its part of S is copied out under local numbers; the polynomial then runs
over that small matrix. What is left out is of the order of the floor squared.
S must be symmetric, so that a product is a gather.

    power_rows       sums of powers of S, as many steps of the basic iteration give
    chebyshev_rows   sums of Chebyshev polynomials of S, for the converged solution
    bilinear_rows    sums of T_p(S) E T_q(S), where E is a matrix
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import enter_at, leave_last, named_space
from kinrank.kernels.rows import enlarge

SEED_MASS = 0.03  # of each seed, beside 1 of the row itself


@inner
def find_ball(row, seeds, s, decay, floor, space, reach):
    """Number the surroundings of ``row`` and ``seeds``: slot[node] and touched[slot], row first.

    s : see ``records.Rows``; decay, floor : see ``records.DiffusionTerms``
    One sweep: mass 1 starts at the row, SEED_MASS at every seed, and spreads hop by hop; a node
    that it reaches with no more than its floor is left out.
    reach[h] : is set to how many nodes are within h hops of the row and the seeds; it has an entry
        for each hop that matters
    Returns how many nodes there are.
    """
    slot = space.slot
    nodes = space.touched
    mass = space.mass
    slot[row] = 0
    nodes[0] = row
    mass[0] = 1.0
    size = np.int64(1)
    for t in range(seeds.shape[0]):
        node = seeds[t]
        if slot[node] < 0:
            slot[node] = size
            nodes[size] = node
            mass[size] = SEED_MASS
            size += 1
    return spread(size, s, decay, floor, space, reach)


@inner
def spread_row(out, begin, end, ids, weights, slot, nodes, mass, seen):
    """Spread the mass ``out`` that leaves a node over its edges, entries [begin, end).

    seen : how many nodes there are; returns how many there are then. Without a branch, which could
    not be foreseen: what is written behind the last node counts only if the node is new.
    """
    for e in range(np.uint64(begin), np.uint64(end)):
        # unsigned: numba looks for no sign
        other = np.uint32(ids[e])
        behind = np.uint64(seen)
        nodes[behind] = other
        mass[behind] = 0.0
        local = slot[other]
        new = local < 0
        local = seen if new else local
        slot[other] = local
        mass[np.uint64(local)] += out * weights[e]
        seen += new
    return seen


@inner
def look_ahead(at, end, nodes, ptr, ids, weights):
    """Ask for the entries of a row that is read soon: waiting for them takes longer than they do.

    nodes : the rows that are read one after the other, up to ``end``; at : the next of them
    ptr, ids, weights : the matrix; eight rows ahead its pointer is fetched, four ahead its entries
    """
    last = end - 1
    fetch(1, ptr, nodes[min(at + 8, last)])
    soon = ptr[nodes[min(at + 4, last)]]
    fetch(8, ids, soon)
    fetch(8, weights, soon)


@inner
def spread(size, s, decay, floor, space, reach):
    """The sweep of ``find_ball`` from the first ``size`` nodes, which have their slots and mass."""
    # Arrays are taken out of their records once: each time costs as much as a short row.
    slot = space.slot
    overlaid = space.overlaid
    nodes = space.touched
    mass = space.mass
    ptr = s.ptr
    ids = s.ids
    weights = s.values
    over_ptr = s.over_ptr
    over_ids = s.over_ids
    over_weights = s.over_values
    has_overlay = over_ptr.shape[0] > 1
    at = 0
    hop = 0
    reach[:] = size
    while at < size and hop + 1 < reach.shape[0]:
        hop_end = size
        seen = size
        while at < hop_end:
            node = nodes[at]
            out = decay * mass[at]
            at += 1
            look_ahead(at, hop_end, nodes, ptr, ids, weights)
            over = overlaid[node] if has_overlay else np.int32(-1)
            if over >= 0:
                begin = over_ptr[over]
                end = over_ptr[over + 1]
                seen = spread_row(out, begin, end, over_ids, over_weights, slot, nodes, mass, seen)
            else:
                begin = ptr[node]
                end = ptr[node + 1]
                seen = spread_row(out, begin, end, ids, weights, slot, nodes, mass, seen)
        for t in range(hop_end, seen):
            node = nodes[t]
            kept = mass[t] > floor[nodes[t]]
            slot[node] = size if kept else -1
            nodes[size] = node
            mass[size] = mass[t]
            size += kept
        hop += 1
        reach[hop:] = size
    return size


@inner
def copy_row(begin, end, ids, values, other_values, slot, at, out_ids, out, other_out):
    """The entries [begin, end) of a row that stay in the ball, written from out_ids[at] on.

    values, other_values : of two matrices on one pattern. Returns where they end.
    """
    for e in range(np.uint64(begin), np.uint64(end)):
        local = slot[np.uint32(ids[e])]
        behind = np.uint64(at)
        out_ids[behind] = local
        out[behind] = values[e]
        other_out[behind] = other_values[e]
        at += local >= 0
    return at


@inner
def copy_ball(size, s, other_values, other_over_values, space, out_ptr, out_ids, out, other_out):
    """The part of S in a ball of ``size`` nodes, under local numbers.

    s : see ``records.Rows``
    other_values, other_over_values : the values of a second matrix on the pattern of S, and on
        that of its overlay, which are copied beside those of S
    """
    slot = space.slot
    overlaid = space.overlaid
    nodes = space.touched
    ptr = s.ptr
    ids = s.ids
    values = s.values
    over_ptr = s.over_ptr
    over_ids = s.over_ids
    over_values = s.over_values
    has_overlay = over_ptr.shape[0] > 1
    at = np.int64(0)
    out_ptr[0] = 0
    for v in range(size):
        node = nodes[v]
        look_ahead(v + 1, size, nodes, ptr, ids, values)
        over = overlaid[node] if has_overlay else np.int32(-1)
        if over >= 0:
            at = copy_row(
                over_ptr[over],
                over_ptr[over + 1],
                over_ids,
                over_values,
                other_over_values,
                slot,
                at,
                out_ids,
                out,
                other_out,
            )
        else:
            at = copy_row(
                ptr[node],
                ptr[node + 1],
                ids,
                values,
                other_values,
                slot,
                at,
                out_ids,
                out,
                other_out,
            )
        out_ptr[v + 1] = at


@inner
def count_edges(size, s, space):
    """How many edges the rows of a ball of ``size`` nodes have."""
    overlaid = space.overlaid
    nodes = space.touched
    ptr = s.ptr
    over_ptr = s.over_ptr
    total = np.int64(0)
    for v in range(size):
        node = nodes[v]
        over = overlaid[node]
        total += over_ptr[over + 1] - over_ptr[over] if over >= 0 else ptr[node + 1] - ptr[node]
    return total


@inner
def release(size, space):
    """Forget the local numbers of a ball of ``size`` nodes."""
    slot = space.slot
    nodes = space.touched
    for v in range(size):
        slot[nodes[v]] = -1


@kernel
def power_rows(
    low, high, rows, row_groups, s, b_values, b_over_values, terms, out_ptr, out_ids, out, workspace
):
    """sum_t powers[t] S^t + sum_t binomial[t] S^t B S^(T-t) for rows[low:high], at some places.

    rows : which row each output row belongs to; row_groups : which of these belong to each query
    s : S, see ``records.Rows``; b_values, b_over_values : the values of B^T on the pattern of S,
        and on that of its overlay
    terms : see ``records.DiffusionTerms``
    out_ptr, out_ids : the places, of each output row some columns; out : their values
    Both sums run in step: with u = S^t e, the second is r <- S r + binomial[t] B u.
    """
    space = named_space(workspace)
    powers = terms.powers
    binomial = terms.binomial
    slot = space.slot
    steps = powers.shape[0]
    query = np.int64(0)
    reach = np.empty(steps // 2 + 1, np.int64)
    ptr = np.empty(1, np.uint64)
    ids = np.empty(0, np.uint32)
    weights = np.empty(0, np.float32)
    b = np.empty(0, np.float32)
    now = np.empty((0, 2), np.float32)  # u and r of each node
    then = np.empty((0, 2), np.float32)
    total = np.empty(0, np.float64)
    for at in range(low, high):
        query = enter_at(at, query, row_groups, s.groups, s.replaced, space.overlaid)
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(rows[at], seeds, s, terms.decay, terms.floor, space, reach)
        edges = count_edges(size, s, space)
        if size > total.shape[0]:
            ptr = np.empty(2 * size + 1, np.uint64)
            total = np.empty(2 * size, np.float64)
            now = np.empty((2 * size, 2), np.float32)
            then = np.empty((2 * size, 2), np.float32)
        if edges > ids.shape[0]:
            ids = np.empty(2 * edges, np.uint32)
            weights = np.empty(2 * edges, np.float32)
            b = np.empty(2 * edges, np.float32)
        copy_ball(size, s, b_values, b_over_values, space, ptr, ids, weights, b)
        for v in range(size):
            now[v, 0] = 0.0
            now[v, 1] = 0.0
            then[v, 0] = 0.0
            then[v, 1] = 0.0
            total[v] = 0.0
        now[0, 0] = 1.0
        for t in range(steps):
            b_factor = np.float32(binomial[t])
            for v in range(reach[0]):
                total[v] += powers[t] * now[v, 0]
            # Farther out nothing has arrived yet, or it cannot be back in time.
            for v in range(reach[min(t + 1, steps - 1 - t)]):
                u = np.float32(0)
                r = np.float32(0)
                b_u = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    local = ids[e]
                    u += weights[e] * now[local, 0]
                    r += weights[e] * now[local, 1]
                    b_u += b[e] * now[local, 0]
                then[v, 0] = u
                then[v, 1] = r + b_factor * b_u
            now, then = then, now
        for v in range(reach[0]):
            total[v] += now[v, 1]
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = total[local] if local >= 0 else 0.0
        release(size, space)
    leave_last(query, s.groups, s.replaced, space.overlaid)


@kernel
def chebyshev_rows(low, high, rows, row_groups, s, terms, out_ptr, out_ids, out, workspace):
    """sum_t series[t] T_t(S) for rows[low:high], T_t the Chebyshev polynomials, at some places.

    Arguments as in ``power_rows``; results below 0, which rounding makes, become 0.
    """
    space = named_space(workspace)
    series = terms.series
    slot = space.slot
    n_terms = series.shape[0]
    query = np.int64(0)
    reach = np.empty(n_terms // 2 + 1, np.int64)
    ptr = np.empty(1, np.uint64)
    ids = np.empty(0, np.uint32)
    weights = np.empty(0, np.float32)
    unused = np.empty(0, np.float32)
    now = np.empty(0, np.float32)
    then = np.empty(0, np.float32)
    total = np.empty(0, np.float64)
    for at in range(low, high):
        query = enter_at(at, query, row_groups, s.groups, s.replaced, space.overlaid)
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(rows[at], seeds, s, terms.decay, terms.floor, space, reach)
        edges = count_edges(size, s, space)
        if size > total.shape[0]:
            ptr = np.empty(2 * size + 1, np.uint64)
            total = np.empty(2 * size, np.float64)
            now = np.empty(2 * size, np.float32)
            then = np.empty(2 * size, np.float32)
        if edges > ids.shape[0]:
            ids = np.empty(2 * edges, np.uint32)
            weights = np.empty(2 * edges, np.float32)
            unused = np.empty(2 * edges, np.float32)
        copy_ball(size, s, s.values, s.over_values, space, ptr, ids, weights, unused)
        for v in range(size):
            now[v] = 0.0
            then[v] = 0.0
            total[v] = 0.0
        now[0] = 1.0
        total[0] = series[0]
        for t in range(1, n_terms):
            factor = 1.0 if t == 1 else 2.0
            for v in range(reach[min(t, n_terms - 1 - t)]):
                u = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    u += weights[e] * now[ids[e]]
                then[v] = factor * u - then[v]
            for v in range(reach[0]):
                total[v] += series[t] * then[v]
            now, then = then, now
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = max(total[local], 0.0) if local >= 0 else 0.0
        release(size, space)
    leave_last(query, s.groups, s.replaced, space.overlaid)


@kernel
def ball_rows(low, high, rows, s, decay, floor, workspace):
    """The nodes of the balls of rows[low:high], see ``find_ball``; returns lengths, indices."""
    space = named_space(workspace)
    nodes = space.touched
    reach = np.empty(256, np.int64)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty(64, np.int32)
    at = np.int64(0)
    for t in range(low, high):
        size = find_ball(rows[t], rows[:0], s, decay, floor, space, reach)
        if at + size > out_ids.shape[0]:
            out_ids = enlarge(out_ids, at, at + size)
        for v in range(size):
            out_ids[at + v] = nodes[v]
        at += size
        lengths[t - low] = size
        release(size, space)
    return lengths, out_ids[:at].copy()


@kernel
def bilinear_rows(
    low, high, rows, s, followed, middle, plane, terms, out_ptr, out_ids, out, workspace
):
    """sum_pq plane[p, q] T_p(S) E T_q(S) for rows[low:high], E any symmetric matrix.

    s, followed, middle : see ``records.Rows``; followed : what the ball is found by, on the pattern
        of S, which also holds that of E; middle : E
    terms, out_ptr, out_ids, out : as in ``power_rows``
    All T_p(S) e are kept, one row of ``forward`` each; Clenshaw's recurrence then sums over q.
    """
    space = named_space(workspace)
    n = space.slot.shape[0]
    n_terms = plane.shape[0]
    room = s.ids.shape[0]
    slot = space.slot
    nodes = space.touched
    middle_ptr = middle.ptr
    middle_ids = middle.ids
    middle_values = middle.values
    reach = np.empty(n_terms + 1, np.int64)
    ptr = np.empty(n + 1, np.uint64)
    ids = np.empty(room, np.uint32)
    weights = np.empty(room, np.float32)
    unused = np.empty(room, np.float32)
    for at in range(low, high):
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(rows[at], seeds, followed, terms.decay, terms.floor, space, reach)
        copy_ball(size, s, s.values, s.over_values, space, ptr, ids, weights, unused)
        forward = np.zeros((n_terms, size), np.float64)
        forward[0, 0] = 1.0
        for p in range(1, n_terms):
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += weights[e] * forward[p - 1, ids[e]]
                forward[p, v] = u if p == 1 else 2.0 * u - forward[p - 2, v]
        after = np.zeros(size)  # of q + 1
        after_next = np.zeros(size)  # of q + 2
        mixed = np.zeros(size)
        for q in range(n_terms - 1, -1, -1):
            mixed[:] = 0.0
            for p in range(n_terms):
                if plane[p, q] != 0:
                    for v in range(size):
                        mixed[v] += plane[p, q] * forward[p, v]
            current = np.zeros(size)
            for v in range(size):
                node = nodes[v]
                for e in range(middle_ptr[node], middle_ptr[node + 1]):
                    local = slot[middle_ids[e]]
                    if local >= 0:
                        current[local] += mixed[v] * middle_values[e]
            factor = 1.0 if q == 0 else 2.0
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += weights[e] * after[ids[e]]
                current[v] += factor * u - after_next[v]
            after_next = after
            after = current
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = max(after[local], 0.0) if local >= 0 else 0.0
        release(size, space)
