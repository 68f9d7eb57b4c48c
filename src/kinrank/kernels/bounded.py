"""The first k by Jensen-Shannon divergence without the sums of all rows that share a column.

With g(u, v) = f(u + v) - f(u) - f(v), f(x) = x log2 x, the distance is 1 - 1/2 sum g(u, v), and the
sum is the similarity of two rows. As g is concave and homogeneous, columns in which one row has the
weight U add at most g(U, 1) to any sum. So the entries of each row have levels, heavy ones first;
sums over the lower levels of both rows bound the whole sum, and only rows that may still be among
the first are summed in full, in the order of ``divergence.add_columns`` and so to the same bits.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import add_listed, add_long_columns, add_ranges
from kinrank.kernels.fusion import plain_distance, put_first
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.measures import JS, xlog2x
from kinrank.kernels.records import Columns
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, squared_distance

LEVELS = 4
SHARES = (0.03, 0.01, 0.003)  # of a row's weight that is above level 0, 1, 2
STEPS = 2 * LEVELS - 3  # a step adds a level of the query, the next one a level of the others
_SLACK = 2e-5  # more than sums of float32 terms are off
# Of the similarity that is needed, what entries that are left out may add: at best, and at most.
_TIGHT = 0.6
_ENOUGH = 0.85
_BINS = 512  # of values up to 1, four to an octave


@kernel
def level_rows(low, high, ptr, ids, bits, values, marks, rests):
    """The level of each entry of rows [low, high); marks, rests : see ``records.Levels``.

    ptr, ids, values : F' by rows; bits : the int32 view of the values
    """
    weights = np.empty(_BINS, np.float64)
    level_of = np.empty(_BINS, np.int32)
    for row in range(low, high):
        weights[:] = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            weights[bits[e] >> 21] += values[e]
        level = LEVELS - 1
        total = 0.0
        for t in range(LEVELS - 1):
            rests[row, t] = 0.0
        for value_bin in range(_BINS):
            while level > 0 and total + weights[value_bin] > SHARES[level - 1]:
                level -= 1
                rests[row, level] = total
            total += weights[value_bin]
            level_of[value_bin] = level
        for e in range(ptr[row], ptr[row + 1]):
            marks[e] = LEVELS * ids[e] + level_of[bits[e] >> 21]


@inner
def most_similarity(weight):
    """1/2 g(weight, 1): how much columns of that weight add to a similarity at most."""
    if weight <= 0:
        return 0.0
    return 0.5 * ((1.0 + weight) * np.log2(1.0 + weight) - weight * np.log2(weight))


@inner
def left_out_at(step, rests):
    """How much more similar two rows may be than sums over the levels of a step say.

    rests : of the query, see ``records.Levels``
    """
    of_query = most_similarity(np.float64(rests[(step + 1) // 2]))
    of_others = most_similarity(SHARES[step // 2])
    return of_query + of_others + _SLACK


@inner
def enough_steps(needed, rests):
    """The first step whose sums bound similarities well; STEPS if none does.

    needed : the least similarity of a row that can be among the first; rests : of the query
    """
    step = 0
    while step < STEPS and left_out_at(step, rests) > _TIGHT * needed:
        step += 1
    return step


@helper
def bounded_sums(
    marks, values, entropies, step, columns, first, stamp, total, seen, touched, count
):
    """``divergence.add_long_columns`` over the levels of a step alone.

    marks, values, entropies : of the query; columns : by levels, the heavy entries of each first
    """
    query_level = (step + 1) // 2
    other_level = step // 2
    starts = columns.ptr
    width = marks.shape[0]
    begins = np.empty(width, np.int64)
    ends = np.empty(width, np.int64)
    summed_values = np.empty(width, np.float32)
    summed_entropies = np.empty(width, np.float32)
    size = 0
    for e in range(width):
        level = marks[e] % LEVELS
        if level <= query_level:
            column = marks[e] - level
            begins[size] = starts[column]
            ends[size] = starts[column + other_level + 1]
            summed_values[size] = values[e]
            summed_entropies[size] = entropies[e]
            size += 1
    return add_ranges(
        JS,
        begins[:size],
        ends[:size],
        summed_values[:size],
        summed_entropies[:size],
        columns,
        first,
        stamp,
        total,
        seen,
        touched,
        count,
    )


@helper
def complete_sums(rows, ids, values, entropies, encodings, slot, total):
    """The whole sums of a query with ``rows``, in ``total``.

    ids, values, entropies : the query; encodings : see ``records.Encodings``
    slot : (n,) 0 for every column, and so it is again in the end
    """
    ptr = encodings.ptr
    all_ids = encodings.ids
    all_values = encodings.values
    width = ids.shape[0]
    beside = np.zeros(width + 1, np.float32)  # the row's value at each entry of the query
    shared = np.empty(width + 1, np.uint32)
    u = np.empty(width, np.float32)
    v = np.empty(width, np.float32)
    fu = np.empty(width, np.float32)
    for e in range(width):
        slot[ids[e]] = e + 1  # columns that the query lacks go to 0
    for row in rows:
        entries = slice(ptr[row], ptr[row + 1])
        row_ids = all_ids[entries]
        row_values = all_values[entries]
        for t in range(row_ids.shape[0]):
            beside[np.uint32(slot[np.uint32(row_ids[t])])] = row_values[t]
        count = np.uint64(0)
        for e in range(width):  # without a branch, which could not be foreseen
            shared[count] = e
            count += np.uint64(beside[e + 1] > 0)
        for t in range(count):
            e = shared[t]
            u[t] = values[e]
            fu[t] = entropies[e]
            v[t] = beside[e + np.uint32(1)]
            beside[e + np.uint32(1)] = 0
        for t in range(count):
            v[t] = fu[t] + xlog2x(v[t]) - xlog2x(u[t] + v[t])
        row_total = 0.0
        for t in range(count):
            row_total += v[t]
        total[row] = row_total
    for e in range(width):
        slot[ids[e]] = 0


@inner
def nearest_so_far(rows, k, share, total, plain, best, chosen):
    """The k of ``rows`` with the smallest d* by the sums so far, in ``chosen``; how many.

    share : 1 - omega; plain : (n,) omega d of each row, or a bound of it; best : room for k values
    """
    size = np.int64(0)
    for other in rows:
        value = np.float32(share * (1.0 + 0.5 * total[other]) + plain[other])
        size = heap_offer(best, chosen, size, k, value, other)
    return size


@inner
def keep_possible(count, share, total, plain, touched, done, stamp, bound):
    """Keep the touched rows whose d* so far is within a bound and that are not done yet; how many.

    done : (n,) marks the rows whose d* is known with the stamp
    """
    kept = 0
    for t in range(count):
        other = touched[t]
        touched[kept] = other
        value = share * (1.0 + 0.5 * total[other]) + plain[other]
        kept += value <= bound and done[other] != stamp
    return kept


@helper
def measure_rows(rows, x, farthest, fusion, measured, stamp, plain):
    """omega d from x to ``rows``, in ``plain``, but for rows that ``measured`` marks already.

    farthest : the largest squared distance of the query
    """
    omega = fusion.omega
    root = fusion.root
    vectors = fusion.vectors
    order = fusion.order
    space = np.empty(vectors.shape[1], np.float32)
    for other in rows:
        if measured[other] != stamp:
            measured[other] = stamp
            squared = squared_distance(x, row_of(vectors, order[other], space))
            plain[other] = omega * plain_distance(squared, farthest, root)


@inner
def offer_rows(rows, share, order, total, plain, best, numbers, size):
    """Offer rows whose d' and d are known to the heap of the first k; returns its size."""
    for other in rows:
        d_prime = np.float32(min(max(1.0 + 0.5 * total[other], 0.0), 1.0))
        value = share * d_prime + plain[other]
        size = heap_offer(best, numbers, size, best.shape[0], value, order[other])
    return size


@kernel
def first_bounded(
    low, high, levels, encodings, fusion, least_background, first, out_ids, out, complete
):
    """As ``select.first_by_columns`` for Jensen-Shannon, where columns are long.

    levels : see ``records.Levels``
    The k rows that look nearest by the heavy entries give a bound, which rules out most others.
    """
    ptr = encodings.ptr
    ids = encodings.ids
    values = encodings.values
    entropies = encodings.entropies
    columns = encodings.columns
    marks = levels.marks
    rests = levels.rests
    by_level = Columns(levels.starts, columns.rows, columns.values, columns.entropies)
    omega = fusion.omega
    vectors = fusion.vectors
    order = fusion.order
    farthest = fusion.farthest
    lists = fusion.lists
    list_d = fusion.list_d
    n = vectors.shape[0]
    k = out_ids.shape[1]
    share = np.float32(1) - omega
    best = np.empty(k, np.float32)
    numbers = np.empty(k, np.int32)
    spare = np.empty(2 * k, np.float32)
    chosen = np.empty(2 * k, np.int32)
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    measured = np.full(n, -1, np.int32)
    done = np.full(n, -1, np.int32)
    plain = np.empty(n, np.float32)
    slot = np.zeros(n, np.int32)
    x_space = np.empty(vectors.shape[1], np.float32)
    step = 2
    for row in range(low, high):
        entries = slice(ptr[row], ptr[row + 1])
        query_ids = ids[entries]
        query_values = values[entries]
        query_entropies = entropies[entries]
        query_marks = marks[entries]
        least_d = omega * list_d[row, list_d.shape[1] - 1]  # of rows that are not listed
        x = row_of(vectors, order[row], x_space)
        listed = add_listed(lists[row], first, row, total, seen, touched)
        count = bounded_sums(
            query_marks,
            query_values,
            query_entropies,
            step,
            by_level,
            first,
            row,
            total,
            seen,
            touched,
            listed,
        )
        for t in range(count):
            plain[touched[t]] = least_d
        for t in range(lists.shape[1]):
            if lists[row, t] >= first:
                plain[lists[row, t]] = omega * list_d[row, t]
                measured[lists[row, t]] = row
        # Twice, as rows that are not listed look nearer than they are before they are measured.
        size = nearest_so_far(touched[:count], 2 * k, share, total, plain, spare, chosen)
        measure_rows(chosen[:size], x, farthest[row], fusion, measured, row, plain)
        size = nearest_so_far(touched[:count], k, share, total, plain, best, chosen)
        measure_rows(chosen[:size], x, farthest[row], fusion, measured, row, plain)
        complete_sums(
            chosen[:size], query_ids, query_values, query_entropies, encodings, slot, total
        )
        for t in range(size):
            done[chosen[t]] = row
        size = offer_rows(chosen[:size], share, order, total, plain, best, numbers, np.int64(0))
        needed = 1.0 - (best[0] + 1e-6 - least_d) / share if size == k else 0.0
        summed_step = step
        step = enough_steps(needed, rests[row])
        left_out = left_out_at(summed_step, rests[row])
        if step > summed_step and left_out > _ENOUGH * needed:
            left_out = 0.0
            if step < STEPS:
                left_out = left_out_at(step, rests[row])
                count = bounded_sums(
                    query_marks,
                    query_values,
                    query_entropies,
                    step,
                    by_level,
                    first,
                    row,
                    total,
                    seen,
                    touched,
                    listed,
                )
            else:
                count = add_long_columns(
                    JS,
                    query_ids,
                    query_values,
                    query_entropies,
                    columns,
                    first,
                    row,
                    total,
                    seen,
                    touched,
                    listed,
                )
            for t in range(count):
                if measured[touched[t]] != row:
                    plain[touched[t]] = least_d
        while count > 0:  # the likely ones first, since each makes the bound tighter
            bound = best[0] + 1e-6 + share * left_out if size == k else np.inf
            for _ in range(2):
                count = keep_possible(count, share, total, plain, touched, done, row, bound)
                measure_rows(touched[:count], x, farthest[row], fusion, measured, row, plain)
            likely = nearest_so_far(touched[:count], k, share, total, plain, spare, chosen)
            if left_out > 0:
                complete_sums(
                    chosen[:likely],
                    query_ids,
                    query_values,
                    query_entropies,
                    encodings,
                    slot,
                    total,
                )
            for t in range(likely):
                done[chosen[t]] = row
            size = offer_rows(chosen[:likely], share, order, total, plain, best, numbers, size)
        step = min(step, STEPS - 1)
        complete[row] = size == k and best[0] < share * least_background[row] + least_d
        put_first(best, numbers, size, first, out_ids[row], out[row])
