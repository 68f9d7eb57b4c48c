"""Diffusion row by row: polynomials of S, applied to one unit vector at a time.

S is the normalised graph, n x n, sparse and symmetric, so that a product is a gather; F, the
similarity diffused over it, is a polynomial of S, and row i of F that polynomial times the unit
vector of i. Only some entries of a row are asked for (those on a local cluster C[i]). Weight that
goes from i to j and leaves the surroundings of both is next to nothing, so the row needs only the
union of these surroundings, its ball. It is found in one sweep and its part of S is copied out
under local numbers, 0, 1, ...; the polynomial then runs over that small matrix. What is left out is
of the order of the floor squared.

Most of what is left out would step out of the ball and come back with the next step. Sums of powers
make up for it: each step also takes a share of the weight that a row of the ball had two steps ago
(``RETURNING``). What is missing then is a half to a third of what it was.

    power_rows       sums of powers of S, as many steps of the basic iteration give
    chebyshev_rows   sums of Chebyshev polynomials of S, for the converged solution
    bilinear_rows    sums of T_p(S) E T_q(S), where the regulariser E is a matrix

Records (``kernels/records.py``):
    s, followed, middle : Rows, a sparse matrix ``ptr, ids, values`` (row i has the columns
        ids[ptr[i]:ptr[i + 1]]), and its overlay ``over_ptr, over_ids, over_values``: rows that
        stand in for stored ones while a query is computed
    space : Space, arrays of length n + 2: overlay_row[row] is the overlay row that stands in for a
        row, -1 for none; slot[row] its local number in the ball, -1 outside, and everywhere before
        and after; touched[local] the row; scratch[local] its mass while the ball is found
    terms : DiffusionTerms, the coefficients of the polynomial; decay, what part of the weight is
        left after a step; floor, the weight up to which a row is left out
    workspace : the arrays of ``space`` as Python hands them over

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import named_space, remove_last_overlay, switch_overlay
from kinrank.kernels.rows import enlarge

SEED_MASS = 0.1  # with which each seed begins; the row itself begins with 1
# A step along an edge of weight w and back is w^2. About as much again comes back elsewhere nearby.
RETURNING = np.float32(2)


@inner
def find_ball(row, seeds, s, decay, floor, space, hop_sizes):
    """Number the ball of ``row`` and ``seeds``: slot[node] and touched[local], ``row`` first.

    seeds : int32, the rows whose entries are asked for
    s, decay, floor, space : see the top of the file
    hop_sizes : int64, set here: hop_sizes[h] is how many nodes are within h hops of the row and the
        seeds; the sweep ends after len(hop_sizes) - 1 hops
    One sweep: mass 1 starts at the row, SEED_MASS at every seed, and spreads hop by hop; a node
    that it reaches with no more than the floor is left out.
    Returns how many nodes the ball has.
    """
    slot = space.slot
    nodes = space.touched
    mass = space.scratch
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
    return spread(size, s, decay, floor, space, hop_sizes)


@inner
def spread_row(leaving, begin, end, ids, weights, slot, nodes, mass, n_nodes):
    """Spread the mass ``leaving`` a node over its edges, entries [begin, end) of ids and weights.

    slot : the local number of each row, -1 if it is none of the nodes so far
    nodes, mass : by local number, the row and its mass; n_nodes : how many nodes there are
    Returns how many nodes there are then. Without a branch, which could not be foreseen: what is
    written behind the last node counts only if the node is new.
    """
    for e in range(np.uint64(begin), np.uint64(end)):
        # unsigned: numba looks for no sign
        node = np.uint32(ids[e])
        next_node = np.uint64(n_nodes)
        nodes[next_node] = node
        mass[next_node] = 0.0
        local = slot[node]
        is_new = local < 0
        local = n_nodes if is_new else local
        slot[node] = local
        mass[np.uint64(local)] += leaving * weights[e]
        n_nodes += is_new
    return n_nodes


@inner
def look_ahead(next_index, end, nodes, ptr, ids, weights):
    """Ask for the entries of a row that is read soon: waiting for them takes longer than they do.

    nodes : the rows that are read one after the other, up to nodes[end - 1]; next_index : where the
        next of them is
    ptr, ids, weights : the matrix; eight rows ahead its pointer is fetched, four ahead its entries
    Returns where the entries begin that were asked for.
    """
    last = end - 1
    fetch(1, ptr, nodes[min(next_index + 8, last)])
    soon = ptr[nodes[min(next_index + 4, last)]]
    fetch(8, ids, soon)
    fetch(8, weights, soon)
    return soon


@inner
def spread(size, s, decay, floor, space, hop_sizes):
    """The sweep of ``find_ball`` from the first ``size`` nodes, which have their slots and mass.

    Returns how many nodes the ball has; other arguments as in ``find_ball``.
    """
    # Arrays are taken out of their records once: each time costs as much as a short row.
    slot = space.slot
    overlay_row = space.overlay_row
    nodes = space.touched
    mass = space.scratch
    ptr = s.ptr
    ids = s.ids
    weights = s.values
    over_ptr = s.over_ptr
    over_ids = s.over_ids
    over_weights = s.over_values
    has_overlay = over_ptr.shape[0] > 1
    current = 0
    hop = 0
    hop_sizes[:] = size
    while current < size and hop + 1 < hop_sizes.shape[0]:
        hop_end = size
        n_nodes = size
        while current < hop_end:
            node = nodes[current]
            leaving = decay * mass[current]
            current += 1
            look_ahead(current, hop_end, nodes, ptr, ids, weights)
            over = overlay_row[node] if has_overlay else np.int32(-1)
            if over >= 0:
                begin = over_ptr[over]
                end = over_ptr[over + 1]
                n_nodes = spread_row(
                    leaving, begin, end, over_ids, over_weights, slot, nodes, mass, n_nodes
                )
            else:
                begin = ptr[node]
                end = ptr[node + 1]
                n_nodes = spread_row(leaving, begin, end, ids, weights, slot, nodes, mass, n_nodes)
        for t in range(hop_end, n_nodes):
            node = nodes[t]
            kept = mass[t] > floor
            slot[node] = size if kept else -1
            nodes[size] = node
            mass[size] = mass[t]
            size += kept
        hop += 1
        hop_sizes[hop:] = size
    return size


@inner
def copy_row(begin, end, ids, values, other_values, slot, size, out_ids, out, other_out):
    """Copy the entries [begin, end) of a row whose columns lie in the ball, under local numbers.

    ids, values, other_values : columns, and the values of two matrices on one pattern
    slot : the local number of each column, -1 outside the ball
    out_ids, out, other_out : int32 and float32, written from entry ``size`` on; one entry behind
        the last is overwritten too
    Returns where they end; and of the entries that are left out, whose columns lie outside, the
    sum of values squared, and that of values times other values.
    """
    squares = np.float32(0)
    products = np.float32(0)
    for e in range(np.uint64(begin), np.uint64(end)):
        local = slot[np.uint32(ids[e])]
        inside = local >= 0
        next_entry = np.uint64(size)
        out_ids[next_entry] = local
        out[next_entry] = values[e]
        other_out[next_entry] = other_values[e]
        left_out = np.float32(0) if inside else values[e]
        squares += left_out * values[e]
        products += left_out * other_values[e]
        size += inside
    return size, squares, products


@inner
def copy_ball(
    size,
    s,
    other_values,
    other_over_values,
    space,
    out_ptr,
    out_ids,
    out,
    other_out,
    back,
    other_back,
):
    """Copy the part of S in a ball of ``size`` nodes, under local numbers.

    s, space : see the top of the file; the ball is in ``slot`` and ``touched``
    other_values, other_over_values : the values of a second matrix on the pattern of S, and on
        that of its overlay, which are copied beside those of S
    out_ptr, out_ids, out, other_out : the sparse matrix of the ball, and the second matrix's
        values; longer than these, and only so far written
    back, other_back : float32, for each row of the ball about how much of its weight comes back
        after a step out of the ball and one more: both along S, and one of them along the second
        matrix
    """
    slot = space.slot
    overlay_row = space.overlay_row
    nodes = space.touched
    ptr = s.ptr
    ids = s.ids
    values = s.values
    over_ptr = s.over_ptr
    over_ids = s.over_ids
    over_values = s.over_values
    has_overlay = over_ptr.shape[0] > 1
    n_entries = np.int64(0)
    out_ptr[0] = 0
    for v in range(size):
        node = nodes[v]
        soon = look_ahead(v + 1, size, nodes, ptr, ids, values)
        fetch(8, other_values, soon)
        over = overlay_row[node] if has_overlay else np.int32(-1)
        if over >= 0:
            n_entries, squares, products = copy_row(
                over_ptr[over],
                over_ptr[over + 1],
                over_ids,
                over_values,
                other_over_values,
                slot,
                n_entries,
                out_ids,
                out,
                other_out,
            )
        else:
            n_entries, squares, products = copy_row(
                ptr[node],
                ptr[node + 1],
                ids,
                values,
                other_values,
                slot,
                n_entries,
                out_ids,
                out,
                other_out,
            )
        out_ptr[v + 1] = n_entries
        back[v] = RETURNING * squares
        other_back[v] = RETURNING * products


@inner
def count_edges(size, s, space):
    """How many entries of S the rows of a ball of ``size`` nodes have; not all stay in it."""
    overlay_row = space.overlay_row
    nodes = space.touched
    ptr = s.ptr
    over_ptr = s.over_ptr
    total = np.int64(0)
    for v in range(size):
        node = nodes[v]
        over = overlay_row[node]
        total += over_ptr[over + 1] - over_ptr[over] if over >= 0 else ptr[node + 1] - ptr[node]
    return total


@inner
def release(size, space):
    """Forget the local numbers of a ball of ``size`` nodes: slot is -1 again."""
    slot = space.slot
    nodes = space.touched
    for v in range(size):
        slot[nodes[v]] = -1


@kernel
def power_rows(
    low, high, rows, row_groups, s, b_values, b_over_values, terms, out_ptr, out_ids, out, workspace
):
    """Entries of sum_t powers[t] S^t + sum_t binomial[t] S^t B S^(T-t), for rows[low:high].

    rows : (m,) int32, the row of S that each output row belongs to
    row_groups : (queries + 1,) output rows row_groups[t] to row_groups[t + 1] belong to query t,
        whose overlay they see; empty without queries
    s, terms, workspace : see the top of the file
    b_values, b_over_values : the values of B^T on the pattern of S, and on that of its overlay
    out_ptr, out_ids : the columns that are asked for, out_ids[out_ptr[i]:out_ptr[i + 1]] of output
        row i; out : float32, the output, their values
    Both sums run in step: with u = S^t e, the second is r <- S r + binomial[t] B u. A step out of
    the ball and back is added to both.
    """
    space = named_space(workspace)
    powers = terms.powers
    binomial = terms.binomial
    slot = space.slot
    steps = powers.shape[0]
    n_begun = np.int64(0)
    hop_sizes = np.empty(steps // 2 + 1, np.int64)
    ptr = np.empty(1, np.uint64)
    ids = np.empty(0, np.uint32)
    weights = np.empty(0, np.float32)
    b = np.empty(0, np.float32)
    back = np.empty(0, np.float32)
    b_back = np.empty(0, np.float32)
    current = np.empty((0, 2), np.float32)  # u and r of each node, before a step
    following = np.empty((0, 2), np.float32)  # and after it; until then, a step before
    total = np.empty(0, np.float64)
    for out_row in range(low, high):
        n_begun = switch_overlay(
            out_row, n_begun, row_groups, s.groups, s.replaced, space.overlay_row
        )
        seeds = out_ids[out_ptr[out_row] : out_ptr[out_row + 1]]
        size = find_ball(rows[out_row], seeds, s, terms.decay, terms.floor, space, hop_sizes)
        edges = count_edges(size, s, space)
        if size > total.shape[0]:
            ptr = np.empty(2 * size + 1, np.uint64)
            total = np.empty(2 * size, np.float64)
            back = np.empty(2 * size, np.float32)
            b_back = np.empty(2 * size, np.float32)
            current = np.empty((2 * size, 2), np.float32)
            following = np.empty((2 * size, 2), np.float32)
        if edges > ids.shape[0]:
            ids = np.empty(2 * edges, np.uint32)
            weights = np.empty(2 * edges, np.float32)
            b = np.empty(2 * edges, np.float32)
        copy_ball(size, s, b_values, b_over_values, space, ptr, ids, weights, b, back, b_back)
        for v in range(size):
            current[v, 0] = 0.0
            current[v, 1] = 0.0
            following[v, 0] = 0.0
            following[v, 1] = 0.0
            total[v] = 0.0
        current[0, 0] = 1.0
        last_factor = np.float32(0)
        for t in range(steps):
            b_factor = np.float32(binomial[t])
            back_factor = b_factor + last_factor
            last_factor = b_factor
            for v in range(hop_sizes[0]):
                total[v] += powers[t] * current[v, 0]
            # Farther out nothing has arrived yet, or it cannot be back in time.
            for v in range(hop_sizes[min(t + 1, steps - 1 - t)]):
                u = np.float32(0)
                r = np.float32(0)
                b_u = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    local = ids[e]
                    u += weights[e] * current[local, 0]
                    r += weights[e] * current[local, 1]
                    b_u += b[e] * current[local, 0]
                last_u = following[v, 0]
                last_r = following[v, 1]
                following[v, 0] = u + back[v] * last_u
                following[v, 1] = (
                    r + b_factor * b_u + back[v] * last_r + back_factor * b_back[v] * last_u
                )
            current, following = following, current
        for v in range(hop_sizes[0]):
            total[v] += current[v, 1]
        for e in range(out_ptr[out_row], out_ptr[out_row + 1]):
            local = slot[out_ids[e]]
            out[e] = total[local] if local >= 0 else 0.0
        release(size, space)
    remove_last_overlay(n_begun, s.groups, s.replaced, space.overlay_row)


@kernel
def chebyshev_rows(low, high, rows, row_groups, s, terms, out_ptr, out_ids, out, workspace):
    """Entries of sum_t series[t] T_t(S) for rows[low:high], T_t the Chebyshev polynomials.

    Arguments as in ``power_rows``; results below 0, which rounding makes, become 0.
    T_t(S) e = 2 S T_(t-1)(S) e - T_(t-2)(S) e is written over T_(t-2)(S) e, so two vectors are
    held.
    """
    space = named_space(workspace)
    series = terms.series
    slot = space.slot
    n_terms = series.shape[0]
    n_begun = np.int64(0)
    hop_sizes = np.empty(n_terms // 2 + 1, np.int64)
    ptr = np.empty(1, np.uint64)
    ids = np.empty(0, np.uint32)
    weights = np.empty(0, np.float32)
    unread_copy = np.empty(0, np.float32)
    unread_back = np.empty(0, np.float32)
    current = np.empty(0, np.float32)
    previous = np.empty(0, np.float32)
    total = np.empty(0, np.float64)
    for out_row in range(low, high):
        n_begun = switch_overlay(
            out_row, n_begun, row_groups, s.groups, s.replaced, space.overlay_row
        )
        seeds = out_ids[out_ptr[out_row] : out_ptr[out_row + 1]]
        size = find_ball(rows[out_row], seeds, s, terms.decay, terms.floor, space, hop_sizes)
        edges = count_edges(size, s, space)
        if size > total.shape[0]:
            ptr = np.empty(2 * size + 1, np.uint64)
            total = np.empty(2 * size, np.float64)
            current = np.empty(2 * size, np.float32)
            previous = np.empty(2 * size, np.float32)
            unread_back = np.empty(2 * size, np.float32)
        if edges > ids.shape[0]:
            ids = np.empty(2 * edges, np.uint32)
            weights = np.empty(2 * edges, np.float32)
            unread_copy = np.empty(2 * edges, np.float32)
        copy_ball(
            size,
            s,
            s.values,
            s.over_values,
            space,
            ptr,
            ids,
            weights,
            unread_copy,
            unread_back,
            unread_back,
        )
        for v in range(size):
            current[v] = 0.0
            previous[v] = 0.0
            total[v] = 0.0
        current[0] = 1.0
        total[0] = series[0]
        for t in range(1, n_terms):
            factor = 1.0 if t == 1 else 2.0
            for v in range(hop_sizes[min(t, n_terms - 1 - t)]):
                u = np.float32(0)
                for e in range(ptr[v], ptr[v + 1]):
                    u += weights[e] * current[ids[e]]
                previous[v] = factor * u - previous[v]
            for v in range(hop_sizes[0]):
                total[v] += series[t] * previous[v]
            current, previous = previous, current
        for e in range(out_ptr[out_row], out_ptr[out_row + 1]):
            local = slot[out_ids[e]]
            out[e] = max(total[local], 0.0) if local >= 0 else 0.0
        release(size, space)
    remove_last_overlay(n_begun, s.groups, s.replaced, space.overlay_row)


@kernel
def ball_rows(low, high, rows, s, decay, floor, workspace):
    """The members of the balls of rows[low:high], each found without seeds (``find_ball``).

    Returns the length of each, (high - low,), and the row numbers of all members, int32.
    """
    space = named_space(workspace)
    nodes = space.touched
    hop_sizes = np.empty(256, np.int64)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty(64, np.int32)
    n_members = np.int64(0)
    for t in range(low, high):
        size = find_ball(rows[t], rows[:0], s, decay, floor, space, hop_sizes)
        if n_members + size > out_ids.shape[0]:
            out_ids = enlarge(out_ids, n_members, n_members + size)
        for v in range(size):
            out_ids[n_members + v] = nodes[v]
        n_members += size
        lengths[t - low] = size
        release(size, space)
    return lengths, out_ids[:n_members].copy()


@kernel
def bilinear_rows(
    low, high, rows, s, followed, middle, plane, terms, out_ptr, out_ids, out, workspace
):
    """Entries of sum_pq plane[p, q] T_p(S) E T_q(S) for rows[low:high], E any symmetric matrix.

    T_p are the Chebyshev polynomials; plane : (terms, terms) float64
    s : S on a pattern that also holds that of E; middle : E
    followed : the matrix on the pattern of ``s`` along which the ball is found: it leads where S or
        E does
    rows, terms, out_ptr, out_ids, out, workspace : as in ``power_rows``; there are no queries
    All T_p(S) e are kept, one row of ``forward`` each; Clenshaw's recurrence then sums over q.
    """
    space = named_space(workspace)
    n = space.slot.shape[0]
    n_terms = plane.shape[0]
    n_entries = s.ids.shape[0]
    slot = space.slot
    nodes = space.touched
    middle_ptr = middle.ptr
    middle_ids = middle.ids
    middle_values = middle.values
    hop_sizes = np.empty(n_terms + 1, np.int64)
    ptr = np.empty(n + 1, np.uint64)
    ids = np.empty(n_entries, np.uint32)
    weights = np.empty(n_entries, np.float32)
    unread_copy = np.empty(n_entries, np.float32)
    unread_back = np.empty(n, np.float32)
    for out_row in range(low, high):
        seeds = out_ids[out_ptr[out_row] : out_ptr[out_row + 1]]
        size = find_ball(rows[out_row], seeds, followed, terms.decay, terms.floor, space, hop_sizes)
        copy_ball(
            size,
            s,
            s.values,
            s.over_values,
            space,
            ptr,
            ids,
            weights,
            unread_copy,
            unread_back,
            unread_back,
        )
        forward = np.zeros((n_terms, size), np.float64)
        forward[0, 0] = 1.0
        for p in range(1, n_terms):
            for v in range(size):
                u = 0.0
                for e in range(ptr[v], ptr[v + 1]):
                    u += weights[e] * forward[p - 1, ids[e]]
                forward[p, v] = u if p == 1 else 2.0 * u - forward[p - 2, v]
        next_sum = np.zeros(size)  # Clenshaw's sum of term q + 1
        second_next_sum = np.zeros(size)  # and of term q + 2
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
                    u += weights[e] * next_sum[ids[e]]
                current[v] += factor * u - second_next_sum[v]
            second_next_sum = next_sum
            next_sum = current
        for e in range(out_ptr[out_row], out_ptr[out_row + 1]):
            local = slot[out_ids[e]]
            out[e] = max(next_sum[local], 0.0) if local >= 0 else 0.0
        release(size, space)
