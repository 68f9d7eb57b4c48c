"""Diffusion row by row: polynomials of S, applied to one unit vector at a time.

Only some entries of a row are asked for. A walk from i to j that leaves the surroundings of both
weighs next to nothing, so the row needs only the union of these surroundings, its ball. It is
found in one sweep and its part of S is copied out under local numbers; the polynomial then runs
over that small matrix. What is left out is of the order of the floor squared.
S must be symmetric, so that a product is a gather.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import Rows, begins, ended, named_space
from kinrank.kernels.rows import enlarge
from kinrank.types import Floats


class Walk(NamedTuple):
    """How F follows from S; see ``stages.diffuse.Polynomial``.

    powers, binomial : of ``walk_rows``; series : of ``polynomial_rows``; empty when unused
    floor : (n,) how light a row may be before a walk leaves it out
    """

    powers: npt.NDArray[np.float64]
    binomial: npt.NDArray[np.float64]
    series: npt.NDArray[np.float64]
    decay: float
    floor: Floats


@inner
def find_ball(row, seeds, s, decay, floor, space, reach):
    """Number the surroundings of ``row`` and ``seeds``: slot[node] and touched[slot], row first.

    One sweep: mass 1 starts at the row, 0.03 at every seed, and spreads hop by hop; a row that
    it reaches with no more than its floor is left out. reach[h] : how many are within h hops of the
    row and the seeds; it has one entry for each hop that matters. Returns how many there are.
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
            mass[size] = 0.03
            size += 1
    return spread(size, s, decay, floor, space, reach)


@inner
def spread_row(out, begin, end, ids, weights, slot, nodes, mass, seen):
    """Spread what leaves a node over its edges; returns how many nodes are seen by then.

    Without a branch, which could not be foreseen: what is written behind the last counts only if
    the node is new.
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
    """
    last = end - 1
    fetch(1, ptr, nodes[min(at + 8, last)])
    soon = ptr[nodes[min(at + 4, last)]]
    fetch(8, ids, soon)
    fetch(8, weights, soon)


@inner
def spread(size, s, decay, floor, space, reach):
    """The sweep of ``find_ball`` from the first ``size`` nodes, which have their slots and mass."""
    at = hop = 0
    # Arrays are taken out of their tuples once: each time costs as much as a short row.
    slot = space.slot
    place = space.place
    nodes = space.touched
    mass = space.mass
    ptr = s.ptr
    ids = s.ids
    weights = s.values
    over_ptr = s.over_ptr
    over_ids = s.over_ids
    over_weights = s.over_values
    laid_over = over_ptr.shape[0] > 1
    reach[:] = size
    while at < size and hop + 1 < reach.shape[0]:
        level_end = seen = size
        while at < level_end:
            node = nodes[at]
            out = decay * mass[at]
            at += 1
            look_ahead(at, level_end, nodes, ptr, ids, weights)
            over = place[node] if laid_over else np.int32(-1)
            if over >= 0:
                begin = over_ptr[over]
                end = over_ptr[over + 1]
                seen = spread_row(out, begin, end, over_ids, over_weights, slot, nodes, mass, seen)
            else:
                begin = ptr[node]
                end = ptr[node + 1]
                seen = spread_row(out, begin, end, ids, weights, slot, nodes, mass, seen)
        for t in range(level_end, seen):
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
def copy_row(begin, end, indices, weights, other_weights, slot, at, ids, w, other_w):
    """The edges of a row that stay in the ball; returns where they end."""
    for e in range(np.uint64(begin), np.uint64(end)):
        local = slot[np.uint32(indices[e])]
        behind = np.uint64(at)
        ids[behind] = local
        w[behind] = weights[e]
        other_w[behind] = other_weights[e]
        at += local >= 0
    return at


@inner
def copy_ball(size, s, others, space, ptr, ids, w, other_w):
    """The matrix of the ball under local numbers, with the values of a second one beside it.

    others : the second one's values on the pattern of S, and on that of its overlay
    """
    at = np.int64(0)
    slot = space.slot
    place = space.place
    nodes = space.touched
    stored = others[0]
    overlaid = others[1]
    s_ptr = s.ptr
    s_ids = s.ids
    s_values = s.values
    over_ptr = s.over_ptr
    over_ids = s.over_ids
    over_values = s.over_values
    laid_over = over_ptr.shape[0] > 1
    ptr[0] = 0
    for v in range(size):
        node = nodes[v]
        look_ahead(v + 1, size, nodes, s_ptr, s_ids, s_values)
        over = place[node] if laid_over else np.int32(-1)
        if over >= 0:
            begin = over_ptr[over]
            end = over_ptr[over + 1]
            at = copy_row(begin, end, over_ids, over_values, overlaid, slot, at, ids, w, other_w)
        else:
            begin = s_ptr[node]
            end = s_ptr[node + 1]
            at = copy_row(begin, end, s_ids, s_values, stored, slot, at, ids, w, other_w)
        ptr[v + 1] = at


@inner
def count_edges(size, s, space):
    """How many edges the rows of a ball have."""
    place = space.place
    nodes = space.touched
    ptr = s.ptr
    over_ptr = s.over_ptr
    total = np.int64(0)
    for v in range(size):
        node = nodes[v]
        over = place[node]
        total += over_ptr[over + 1] - over_ptr[over] if over >= 0 else ptr[node + 1] - ptr[node]
    return total


@inner
def release(size, space):
    """Forget the numbers of a ball."""
    slot = space.slot
    nodes = space.touched
    for v in range(size):
        slot[nodes[v]] = -1


@kernel
def walk_rows(low, high, rows, groups, s, starts, walk, out_ptr, out_ids, out, space):
    """sum_t powers[t] S^t + sum_t binomial[t] S^t B S^(T-t) for some rows, at the places asked for.

    rows : which row each output row belongs to; groups : which of these belong to each query
    s : see Rows; starts : the values of B transposed on the same pattern, stored and overlaid
    out_ptr, out_ids : the places; out : their values
    Both walk in step: with u = S^t e, the second sum is r <- S r + binomial[t] B u.
    """
    s = Rows(*s)
    walk = Walk(*walk)
    space = named_space(space)
    powers = walk.powers
    binomial = walk.binomial
    slot = space.slot
    steps = powers.shape[0]
    query = np.int64(0)
    reach = np.empty(steps // 2 + 1, np.int64)
    ptr = np.empty(1, np.uint64)
    ids = np.empty(0, np.uint32)
    w = np.empty(0, np.float32)
    b = np.empty(0, np.float32)
    now = np.empty((0, 2), np.float32)
    then = np.empty((0, 2), np.float32)
    total = np.empty(0, np.float64)
    for at in range(low, high):
        query = begins(at, query, groups, s.groups, s.names, space.place)
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(rows[at], seeds, s, walk.decay, walk.floor, space, reach)
        edges = count_edges(size, s, space)
        if size > total.shape[0]:
            ptr = np.empty(2 * size + 1, np.uint64)
            total = np.empty(2 * size, np.float64)
            now = np.empty((2 * size, 2), np.float32)
            then = np.empty((2 * size, 2), np.float32)
        if edges > ids.shape[0]:
            ids = np.empty(2 * edges, np.uint32)
            w = np.empty(2 * edges, np.float32)
            b = np.empty(2 * edges, np.float32)
        copy_ball(size, s, starts, space, ptr, ids, w, b)
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
                then[v, 0] = u
                then[v, 1] = r + pull * pulled
            now, then = then, now
        for v in range(reach[0]):
            total[v] += now[v, 1]
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = total[local] if local >= 0 else 0.0
        release(size, space)
    ended(query, s.groups, s.names, space.place)


@kernel
def polynomial_rows(low, high, rows, groups, s, walk, out_ptr, out_ids, out, space):
    """sum_t series[t] T_t(S) for some rows, T_t the Chebyshev polynomials; as ``walk_rows``."""
    s = Rows(*s)
    walk = Walk(*walk)
    space = named_space(space)
    series = walk.series
    slot = space.slot
    terms = series.shape[0]
    query = np.int64(0)
    reach = np.empty(terms // 2 + 1, np.int64)
    ptr = np.empty(1, np.uint64)
    ids = np.empty(0, np.uint32)
    w = np.empty(0, np.float32)
    unused = np.empty(0, np.float32)
    now = np.empty(0, np.float32)
    then = np.empty(0, np.float32)
    total = np.empty(0, np.float64)
    for at in range(low, high):
        query = begins(at, query, groups, s.groups, s.names, space.place)
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(rows[at], seeds, s, walk.decay, walk.floor, space, reach)
        edges = count_edges(size, s, space)
        if size > total.shape[0]:
            ptr = np.empty(2 * size + 1, np.uint64)
            total = np.empty(2 * size, np.float64)
            now = np.empty(2 * size, np.float32)
            then = np.empty(2 * size, np.float32)
        if edges > ids.shape[0]:
            ids = np.empty(2 * edges, np.uint32)
            w = np.empty(2 * edges, np.float32)
            unused = np.empty(2 * edges, np.float32)
        copy_ball(size, s, (s.values, s.over_values), space, ptr, ids, w, unused)
        for v in range(size):
            now[v] = then[v] = total[v] = 0.0
        now[0] = 1.0
        total[0] = series[0]
        for t in range(1, terms):
            factor = 1.0 if t == 1 else 2.0
            for v in range(reach[min(t, terms - 1 - t)]):
                u = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    u += w[e] * now[ids[e]]
                then[v] = factor * u - then[v]
            for v in range(reach[0]):
                total[v] += series[t] * then[v]
            now, then = then, now
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = max(total[local], 0.0) if local >= 0 else 0.0
        release(size, space)
    ended(query, s.groups, s.names, space.place)


@kernel
def ball_rows(low, high, rows, s, decay, floor, space):
    """The members of the balls of some rows; returns lengths, indices."""
    s = Rows(*s)
    space = named_space(space)
    nodes = space.touched
    reach = np.empty(256, np.int64)
    lengths = np.zeros(high - low, np.int64)
    parts = np.empty(64, np.int32)
    at = np.int64(0)
    for index in range(low, high):
        size = find_ball(rows[index], rows[:0], s, decay, floor, space, reach)
        if at + size > parts.shape[0]:
            parts = enlarge(parts, at, at + size)
        for v in range(size):
            parts[at + v] = nodes[v]
        at += size
        lengths[index - low] = size
        release(size, space)
    return lengths, parts[:at].copy()


@kernel
def bilinear_rows(low, high, rows, s, reached, m, plane, walk, out_ptr, out_ids, out, space):
    """sum_pq plane[p, q] T_p(S) M T_q(S) for some rows, M any symmetric matrix.

    s, reached, m : see Rows; reached : what the ball follows, on the pattern of S, which also holds
    that of M
    All T_p(S) e are kept, one row of ``forward`` each; Clenshaw's recurrence then sums over q.
    """
    s = Rows(*s)
    reached = Rows(*reached)
    m = Rows(*m)
    walk = Walk(*walk)
    space = named_space(space)
    n = space.slot.shape[0]
    terms = plane.shape[0]
    edges = s.ids.shape[0]
    slot = space.slot
    nodes = space.touched
    reach = np.empty(terms + 1, np.int64)
    ptr = np.empty(n + 1, np.uint64)
    ids = np.empty(edges, np.uint32)
    w = np.empty(edges, np.float32)
    unused = np.empty(edges, np.float32)
    for at in range(low, high):
        seeds = out_ids[out_ptr[at] : out_ptr[at + 1]]
        size = find_ball(rows[at], seeds, reached, walk.decay, walk.floor, space, reach)
        copy_ball(size, s, (s.values, s.over_values), space, ptr, ids, w, unused)
        forward = np.zeros((terms, size), np.float64)
        forward[0, 0] = 1.0
        for p in range(1, terms):
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += w[e] * forward[p - 1, ids[e]]
                forward[p, v] = u if p == 1 else 2.0 * u - forward[p - 2, v]
        one = np.zeros(size)
        two = np.zeros(size)
        mixed = np.zeros(size)
        for q in range(terms - 1, -1, -1):
            mixed[:] = 0.0
            for p in range(terms):
                if plane[p, q] != 0:
                    for v in range(size):
                        mixed[v] += plane[p, q] * forward[p, v]
            nxt = np.zeros(size)
            for v in range(size):
                node = nodes[v]
                for e in range(m.ptr[node], m.ptr[node + 1]):
                    local = slot[m.ids[e]]
                    if local >= 0:
                        nxt[local] += mixed[v] * m.values[e]
            factor = 1.0 if q == 0 else 2.0
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += w[e] * one[ids[e]]
                nxt[v] += factor * u - two[v]
            two = one
            one = nxt
        for e in range(out_ptr[at], out_ptr[at + 1]):
            local = slot[out_ids[e]]
            out[e] = max(one[local], 0.0) if local >= 0 else 0.0
        release(size, space)
