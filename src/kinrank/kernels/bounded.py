"""The first k by Jensen-Shannon divergence without the sums of all rows that share a column.

With g(u, v) = f(u + v) - f(u) - f(v), f(x) = x log2 x, the distance is 1 - 1/2 sum g(u, v). As g is
concave and homogeneous, columns in which one row has the mass U add at most g(U, 1) to any sum. So
the entries of each row have levels, heavy ones first; sums over the lower levels of both rows bound
the whole sum, and only rows that may still be among the first are summed in full, in the order of
``divergence.add_columns`` and so to the same bits.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import JS, add_listed, add_long_columns, add_ranges, xlog2x
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

LEVELS = 4
SHARES = (0.03, 0.01, 0.003)  # of a row's mass that is above level 0, 1, 2
_SLACK = 2e-5  # more than sums of float32 terms are off
STEPS = 2 * LEVELS - 3
# Of the similarity that is needed, what entries that are left out may add: at best, and at most.
_TIGHT = 0.6
_ENOUGH = 0.85
_BINS = 512  # of values up to 1, four to an octave


@kernel
def level_rows(low, high, ptr, ids, bits, values, marks, rests):
    """LEVELS times the column plus the level, for each entry of rows [low, high).

    bits : the int32 view of values; rests : (n, LEVELS - 1) the mass above each level
    """
    mass = np.empty(_BINS, np.float64)
    level_of = np.empty(_BINS, np.int32)
    for row in range(low, high):
        mass[:] = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            mass[bits[e] >> 21] += values[e]
        level = LEVELS - 1
        total = 0.0
        for t in range(LEVELS - 1):
            rests[row, t] = 0.0
        for slot in range(_BINS):
            while level > 0 and total + mass[slot] > SHARES[level - 1]:
                level -= 1
                rests[row, level] = total
            total += mass[slot]
            level_of[slot] = level
        for e in range(ptr[row], ptr[row + 1]):
            marks[e] = LEVELS * ids[e] + level_of[bits[e] >> 21]


@inner
def most(mass):
    """1/2 g(mass, 1): how much columns of that mass add to a similarity at most."""
    if mass <= 0:
        return 0.0
    return 0.5 * ((1.0 + mass) * np.log2(1.0 + mass) - mass * np.log2(mass))


@inner
def lacking_at(step, rests):
    """How much more similar rows may be than sums over the levels of a step say.

    A step adds a level of the query, the next one a level of the others.
    """
    return most(np.float64(rests[(step + 1) // 2])) + most(SHARES[step // 2]) + _SLACK


@inner
def enough_steps(needed, rests):
    """The first step whose sums bound similarities well; STEPS if none does."""
    step = 0
    while step < STEPS and lacking_at(step, rests) > _TIGHT * needed:
        step += 1
    return step


@helper
def bounded_sums(marks, values, f, step, columns, first, stamp, total, seen, touched, count):
    """``add_long_columns`` over the levels of a step."""
    own_level = (step + 1) // 2
    other_level = step // 2
    ptr = columns[0]
    size = 0
    width = marks.shape[0]
    begins = np.empty(width, np.int64)
    ends = np.empty(width, np.int64)
    v = np.empty(width, np.float32)
    fv = np.empty(width, np.float32)
    for e in range(width):
        level = marks[e] % LEVELS
        if level <= own_level:  # the heavy entries of a column come first
            column = marks[e] - level
            begins[size] = ptr[column]
            ends[size] = ptr[column + other_level + 1]
            v[size] = values[e]
            fv[size] = f[e]
            size += 1
    return add_ranges(
        JS,
        begins[:size],
        ends[:size],
        v[:size],
        fv[:size],
        columns,
        first,
        stamp,
        total,
        seen,
        touched,
        count,
    )


@helper
def complete_sums(rows, ids, values, f, csr, slot, total):
    """The sums of a query with ``rows``.

    ids, values, f : the query; slot : (n,) 0 for every column, and so it is again in the end
    """
    ptr, all_ids, all_values = csr
    width = ids.shape[0]
    beside = np.zeros(width + 1, np.float32)
    shared = np.empty(width + 1, np.uint32)
    u = np.empty(width, np.float32)
    v = np.empty(width, np.float32)
    fu = np.empty(width, np.float32)
    for e in range(width):
        slot[ids[e]] = e + 1  # what the query lacks goes to place 0
    for row in rows:
        part = slice(ptr[row], ptr[row + 1])
        columns = all_ids[part]
        entries = all_values[part]
        for t in range(columns.shape[0]):
            beside[np.uint32(slot[np.uint32(columns[t])])] = entries[t]
        count = np.uint64(0)
        for e in range(width):  # without a branch, which could not be foreseen
            shared[count] = e
            count += np.uint64(beside[e + 1] > 0)
        for t in range(count):
            e = shared[t]
            u[t] = values[e]
            fu[t] = f[e]
            v[t] = beside[e + np.uint32(1)]
            beside[e + np.uint32(1)] = 0
        for t in range(count):
            v[t] = fu[t] + xlog2x(v[t]) - xlog2x(u[t] + v[t])
        sums = 0.0
        for t in range(count):
            sums += v[t]
        total[row] = sums
    for e in range(width):
        slot[ids[e]] = 0


@inner
def likely(count, k, near, total, base, touched, best, chosen):
    """The k touched rows with the smallest d* so far; returns how many there are."""
    size = np.int64(0)
    for t in range(count):
        other = touched[t]
        value = np.float32(near * (1.0 + 0.5 * total[other]) + base[other])
        size = heap_offer(best, chosen, size, k, value, other)
    return size


@inner
def possible(count, near, total, base, touched, done, stamp, bound):
    """Keep the touched rows whose d* so far is within the bound and that are not done yet."""
    kept = 0
    for t in range(count):
        other = touched[t]
        touched[kept] = other
        value = near * (1.0 + 0.5 * total[other]) + base[other]
        kept += value <= bound and done[other] != stamp
    return kept


@helper
def measure_rows(rows, x, scale, fusion, names, exact, stamp, base):
    """omega d of rows in ``base``, where ``exact`` does not say that it is there already."""
    omega = fusion[0]
    root = fusion[1]
    vectors = fusion[2]
    space = np.empty(vectors.shape[1], np.float32)
    for other in rows:
        if exact[other] != stamp:
            exact[other] = stamp
            d = squared_distance(x, row_of(vectors, names[other], space))
            d = min(d / scale, np.float32(1)) if scale > 0 else np.float32(0)
            base[other] = omega * (np.sqrt(d) if root else d)


@inner
def offer_rows(rows, near, names, total, base, best, keys, size):
    """Offer rows whose d' and d are known to the first k; returns how many there are."""
    for other in rows:
        modified = np.float32(min(max(1.0 + 0.5 * total[other], 0.0), 1.0))
        value = near * modified + base[other]
        size = heap_offer(best, keys, size, best.shape[0], value, names[other])
    return size


@kernel
def first_bounded(low, high, levels, csr, f, columns, fusion, least, first, names, outs):
    """As ``select.first_near`` for Jensen-Shannon, where columns are long.

    levels : marks and rests of ``level_rows``, and where each level of each column begins
    The k rows that look nearest by the heavy entries give a bound, which rules out most others.
    """
    ptr, ids, values = csr
    marks, rests, starts = levels
    by_level = (starts, columns[1], columns[2], columns[3])
    omega = fusion[0]
    vectors = fusion[2]
    farthest = fusion[3]
    lists = fusion[4]
    list_d = fusion[5]
    out_ids, out, complete = outs
    n = vectors.shape[0]
    k = out_ids.shape[1]
    near = np.float32(1) - omega
    best = np.empty(k, np.float32)
    keys = np.empty(k, np.int32)
    wide = np.empty(2 * k, np.float32)
    chosen = np.empty(2 * k, np.int32)
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    exact = np.full(n, -1, np.int32)
    done = np.full(n, -1, np.int32)
    base = np.empty(n, np.float32)
    slot = np.zeros(n, np.int32)
    mine = np.empty(vectors.shape[1], np.float32)
    step = 2
    for row in range(low, high):
        own = slice(ptr[row], ptr[row + 1])
        beyond = omega * list_d[row, list_d.shape[1] - 1]
        query = (ids[own], values[own], f[own])
        x = row_of(vectors, names[row], mine)
        at_hand = add_listed(lists[row], first, row, total, seen, touched)
        sums = (first, row, total, seen, touched, at_hand)
        count = bounded_sums(marks[own], values[own], f[own], step, by_level, *sums)
        for t in range(count):
            base[touched[t]] = beyond
        for t in range(lists.shape[1]):
            if lists[row, t] >= first:
                base[lists[row, t]] = omega * list_d[row, t]
                exact[lists[row, t]] = row
        asked = (x, farthest[row], fusion, names, exact, row, base)
        # Twice, as rows that are not listed look nearer than they are before they are measured.
        size = likely(count, 2 * k, near, total, base, touched, wide, chosen)
        measure_rows(chosen[:size], *asked)
        size = likely(count, k, near, total, base, touched, best, chosen)
        measure_rows(chosen[:size], *asked)
        complete_sums(chosen[:size], *query, csr, slot, total)
        for t in range(size):
            done[chosen[t]] = row
        size = offer_rows(chosen[:size], near, names, total, base, best, keys, np.int64(0))
        needed = 1.0 - (best[0] + 1e-6 - beyond) / near if size == k else 0.0
        scanned = step
        step = enough_steps(needed, rests[row])
        lacking = lacking_at(scanned, rests[row])
        if step > scanned and lacking > _ENOUGH * needed:
            lacking = 0.0
            if step < STEPS:
                lacking = lacking_at(step, rests[row])
                count = bounded_sums(marks[own], values[own], f[own], step, by_level, *sums)
            else:
                count = add_long_columns(JS, *query, columns, *sums)
            for t in range(count):
                if exact[touched[t]] != row:
                    base[touched[t]] = beyond
        while count > 0:  # the likely ones first, since each makes the bound tighter
            bound = best[0] + 1e-6 + near * lacking if size == k else np.inf
            for _ in range(2):
                count = possible(count, near, total, base, touched, done, row, bound)
                measure_rows(touched[:count], *asked)
            few = likely(count, k, near, total, base, touched, wide, chosen)
            if lacking > 0:
                complete_sums(chosen[:few], *query, csr, slot, total)
            for t in range(few):
                done[chosen[t]] = row
            size = offer_rows(chosen[:few], near, names, total, base, best, keys, size)
        step = min(step, STEPS - 1)
        complete[row] = size == k and best[0] < near * least[row] + beyond
        sort_heap(best, keys, size)
        for t in range(k):
            out_ids[row, t] = keys[t] - first if t < size else -1
            out[row, t] = best[t] if t < size else np.float32(np.inf)
