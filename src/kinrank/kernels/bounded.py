"""The first k by Jensen-Shannon divergence without the sums of all rows that share a column.

F' is the sparse encoding of a row, entries of sum 1; d' = 1 + 1/2 sum f(u) + f(v) - f(u + v) over
the columns that two rows share, f(x) = x log2 x ("entropies"), and rows are ranked by d* =
(1 - omega) d' + omega d, d the squared distance over the largest one of the query, at most 1, or
the root of this ratio; 0 where all rows are equal.

With g(u, v) = f(u + v) - f(u) - f(v) the distance is d' = 1 - 1/2 sum g(u, v), and 1/2 sum g is the
similarity of two rows. As g is concave and homogeneous, columns in which one row has the
weight U add at most g(U, 1) to any sum. So the entries of each row have levels, heavy ones first;
sums over the lower levels of both rows bound the whole sum, and only rows that may still be among
the first are summed in full, in the order of ``divergence.add_columns`` and so to the same bits.

Records (``kernels/records.py``):
    encodings : Encodings: ``measure``, a code; F' by rows, ``ptr, ids, values``: row i has the
        columns ids[ptr[i]:ptr[i + 1]]; ``entropies``, x log2 x of the values; ``columns``, F' by
        columns, of the gallery alone; ``norms``, (n,) squared norms of the rows
    fusion : Fusion: ``omega``; ``root``, whether d is a root; ``vectors``, and ``order``, (n,): row
        i has the vector order[i], which is also the number that stands for it in results and in
        ties; ``farthest``, (n,) the largest squared distance of each row; ``lists, list_d``,
        (n_queries, K) the nearest rows of each query, and d to them
    levels : Levels: ``marks``, of each entry of F' by rows LEVELS times its column plus its level;
        ``rests``, (n, LEVELS - 1) the weight of a row in levels above each; ``starts``, where level
        l of column c begins, at LEVELS c + l

Arrays with an entry for each of n rows: ``total``, the sums of f(u) + f(v) - f(u + v) so far;
``omega_d``, omega d or a bound from below; ``measured``, ``done`` and ``seen``, int32, in which a
row is marked where the entry equals ``stamp``, a number that is used for this query alone.
``touched`` lists the rows that share a column with the query, or are in its list of neighbours.

Functions under ``kernel`` are called from Python, those under ``helper`` and ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import add_listed, add_long_columns, add_ranges
from kinrank.kernels.fusion import put_first, scaled_distance
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.measures import JS, xlog2x
from kinrank.kernels.records import Columns
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, squared_distance

LEVELS = 4
SHARES = (0.03, 0.01, 0.003)  # of a row's weight, at most, in levels above 0, 1, 2
# Step 0 sums level 0 of the query and of the others; the next adds a level of the query, the one
# after it a level of the others, and so on.
STEPS = 2 * LEVELS - 3
_SLACK = 2e-5  # more than sums of float32 terms are off
# What part of the similarity that is needed may be left out of sums: as aimed at, and at most.
_TIGHT = 0.6
_LOOSEST = 0.85
_BINS = 512  # of values up to 1, four to an octave: the upper bits of a float32


@kernel
def level_rows(low, high, ptr, ids, bits, values, marks, rests):
    """The level of each entry of rows [low, high) of F', the heavy entries of a row in level 0.

    ptr, ids, values : F' by rows; bits : the int32 view of the values
    marks : int32, of each entry of these rows set to LEVELS times its column plus its level
    rests : (n, LEVELS - 1) float32, set for these rows: rests[i, l] is the sum of the entries of
        row i in levels above l, which are lighter
    """
    bin_weights = np.empty(_BINS, np.float64)
    level_of = np.empty(_BINS, np.int32)
    for row in range(low, high):
        bin_weights[:] = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            bin_weights[bits[e] >> 21] += values[e]
        level = LEVELS - 1
        total = 0.0
        for t in range(LEVELS - 1):
            rests[row, t] = 0.0
        for value_bin in range(_BINS):
            while level > 0 and total + bin_weights[value_bin] > SHARES[level - 1]:
                level -= 1
                rests[row, level] = total
            total += bin_weights[value_bin]
            level_of[value_bin] = level
        for e in range(ptr[row], ptr[row + 1]):
            marks[e] = LEVELS * ids[e] + level_of[bits[e] >> 21]


@inner
def most_similarity(weight):
    """1/2 g(weight, 1): how much columns of that weight in one row add to a similarity at most."""
    if weight <= 0:
        return 0.0
    return 0.5 * ((1.0 + weight) * np.log2(1.0 + weight) - weight * np.log2(weight))


@inner
def left_out_at(step, rests):
    """How much more similar two rows may be than sums over the levels of a step say.

    step : 0 to STEPS - 1; rests : (LEVELS - 1,) the query's weight above each level
    """
    of_query = most_similarity(np.float64(rests[(step + 1) // 2]))
    of_others = most_similarity(SHARES[step // 2])
    return of_query + of_others + _SLACK


@inner
def enough_steps(needed, rests):
    """The first step, 0 to STEPS - 1, whose sums leave out at most _TIGHT of ``needed``.

    STEPS if none does: whole sums are needed then.
    needed : the least similarity of a row that can be among the first
    rests : (LEVELS - 1,) the query's weight above each level
    """
    step = 0
    while step < STEPS and left_out_at(step, rests) > _TIGHT * needed:
        step += 1
    return step


@helper
def bounded_sums(
    marks, values, entropies, step, columns, first, stamp, total, seen, touched, count
):
    """The sums of a query with all rows, over the levels of a step alone.

    marks, values, entropies : of the query, LEVELS times the column plus the level of each entry
    step : 0 to STEPS - 1
    columns : F' by columns, ``records.Columns``, with ``ptr`` by levels: where level l of column c
        begins, at LEVELS c + l
    first : the first gallery row; stamp, total, seen, touched, count : see the top of the file; the
        first ``count`` of ``touched`` are there already
    Returns how many rows ``touched`` has (``divergence.add_ranges``).
    """
    query_level = (step + 1) // 2
    other_level = step // 2
    starts = columns.ptr
    width = marks.shape[0]
    begins = np.empty(width, np.int64)
    ends = np.empty(width, np.int64)
    summed_values = np.empty(width, np.float32)
    summed_entropies = np.empty(width, np.float32)
    n_summed = 0
    for e in range(width):
        level = marks[e] % LEVELS
        if level <= query_level:
            column = marks[e] - level
            begins[n_summed] = starts[column]
            ends[n_summed] = starts[column + other_level + 1]
            summed_values[n_summed] = values[e]
            summed_entropies[n_summed] = entropies[e]
            n_summed += 1
    return add_ranges(
        JS,
        begins[:n_summed],
        ends[:n_summed],
        summed_values[:n_summed],
        summed_entropies[:n_summed],
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
    """The whole sums of f(u) + f(v) - f(u + v) of a query with ``rows``, written to ``total``.

    ids, values, entropies : the columns of the query, its values u, and f(u)
    encodings : F' of all rows, ``records.Encodings``
    slot : (n,) int32, 0 for every column, and so it is again in the end
    """
    ptr = encodings.ptr
    all_ids = encodings.ids
    all_values = encodings.values
    width = ids.shape[0]
    row_value_at = np.zeros(width + 1, np.float32)  # the row's value at each entry of the query
    shared = np.empty(width + 1, np.uint32)
    u = np.empty(width, np.float32)
    v = np.empty(width, np.float32)
    fu = np.empty(width, np.float32)
    for e in range(width):
        slot[ids[e]] = e + 1  # 1 + the entry of a column; 0 for columns that the query lacks
    for row in rows:
        entries = slice(ptr[row], ptr[row + 1])
        row_ids = all_ids[entries]
        row_values = all_values[entries]
        for t in range(row_ids.shape[0]):
            row_value_at[np.uint32(slot[np.uint32(row_ids[t])])] = row_values[t]
        count = np.uint64(0)
        for e in range(width):  # without a branch, which could not be foreseen
            shared[count] = e
            count += np.uint64(row_value_at[e + 1] > 0)
        for t in range(count):
            e = shared[t]
            u[t] = values[e]
            fu[t] = entropies[e]
            v[t] = row_value_at[e + np.uint32(1)]
            row_value_at[e + np.uint32(1)] = 0
        for t in range(count):
            v[t] = fu[t] + xlog2x(v[t]) - xlog2x(u[t] + v[t])
        row_total = 0.0
        for t in range(count):
            row_total += v[t]
        total[row] = row_total
    for e in range(width):
        slot[ids[e]] = 0


@inner
def nearest_so_far(rows, k, one_minus_omega, total, omega_d, best, chosen):
    """The k of ``rows`` with the smallest d* by the sums so far, written to ``chosen``.

    one_minus_omega, total, omega_d : d* is one_minus_omega (1 + total / 2) + omega_d
    best : (k,) float32 scratch; chosen : (k,) int32, of which as many are written as there are
    Returns how many there are, at most k.
    """
    n_chosen = np.int64(0)
    for other in rows:
        value = np.float32(one_minus_omega * (1.0 + 0.5 * total[other]) + omega_d[other])
        n_chosen = heap_offer(best, chosen, n_chosen, k, value, other)
    return n_chosen


@inner
def keep_possible(count, one_minus_omega, total, omega_d, touched, done, stamp, bound):
    """Keep the touched rows whose d* so far is within a bound and whose d* is not known yet.

    count : rows in ``touched``, which is compacted; returns how many are left
    done : (n,) marks the rows whose d* is known with the stamp
    """
    n_kept = 0
    for t in range(count):
        other = touched[t]
        touched[n_kept] = other
        value = one_minus_omega * (1.0 + 0.5 * total[other]) + omega_d[other]
        n_kept += value <= bound and done[other] != stamp
    return n_kept


@helper
def compute_plain_distances(rows, x, farthest, fusion, measured, stamp, omega_d):
    """Set omega_d[i] = omega d(query, i) for each i of ``rows`` that is not marked, and mark it.

    x, farthest : the vector of the query, and its largest squared distance
    fusion : omega, vectors and their order, ``records.Fusion``
    measured, stamp : row i is marked where measured[i] == stamp
    omega_d : (n,) float32; entries of other rows are left as they are
    """
    omega = fusion.omega
    root = fusion.root
    vectors = fusion.vectors
    order = fusion.order
    buffer = np.empty(vectors.shape[1], np.float32)
    for other in rows:
        if measured[other] != stamp:
            measured[other] = stamp
            squared = squared_distance(x, row_of(vectors, order[other], buffer))
            omega_d[other] = omega * scaled_distance(squared, farthest, root)


@inner
def offer_rows(rows, one_minus_omega, order, total, omega_d, best, numbers, size):
    """Offer rows whose d' and d are known to the heap of the first k.

    rows : int32; total, omega_d : see the top of the file
    order : (n,) the number that stands for each row in results and in ties
    best, numbers, size : a max-heap of d* and of these numbers, both (k,), and how many it holds
    Returns how many it holds then.
    """
    for other in rows:
        d_prime = np.float32(min(max(1.0 + 0.5 * total[other], 0.0), 1.0))
        value = one_minus_omega * d_prime + omega_d[other]
        size = heap_offer(best, numbers, size, best.shape[0], value, order[other])
    return size


@kernel
def first_bounded(
    low, high, levels, encodings, fusion, least_background, first, out_ids, out, complete
):
    """The first k of queries [low, high) by d*, for Jensen-Shannon where columns are long.

    levels, encodings, fusion : see the top of the file; the entries of a column are by levels
    least_background : (n_queries,) no row that is not listed and shares no column has a smaller d'
    first : the first gallery row
    out_ids, out : (n_queries, k) int32 and float32, ``order`` of the results less ``first``, and d*
    complete : (n_queries,) bool, whether no row that is not listed and shares no column can be
        among them. Of all three what belongs to queries [low, high) is written.
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
    one_minus_omega = np.float32(1) - omega
    best = np.empty(k, np.float32)
    numbers = np.empty(k, np.int32)
    spare = np.empty(2 * k, np.float32)
    chosen = np.empty(2 * k, np.int32)
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    measured = np.full(n, -1, np.int32)
    done = np.full(n, -1, np.int32)
    omega_d = np.empty(n, np.float32)
    slot = np.zeros(n, np.int32)
    x_buffer = np.empty(vectors.shape[1], np.float32)
    step = 2
    for row in range(low, high):
        entries = slice(ptr[row], ptr[row + 1])
        query_ids = ids[entries]
        query_values = values[entries]
        query_entropies = entropies[entries]
        query_marks = marks[entries]
        # The least omega d of a row that is not listed.
        least_omega_d = omega * list_d[row, list_d.shape[1] - 1]
        x = row_of(vectors, order[row], x_buffer)
        n_listed = add_listed(lists[row], first, row, total, seen, touched)
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
            n_listed,
        )
        for t in range(count):
            omega_d[touched[t]] = least_omega_d
        for t in range(lists.shape[1]):
            if lists[row, t] >= first:
                omega_d[lists[row, t]] = omega * list_d[row, t]
                measured[lists[row, t]] = row
        # Twice, as rows that are not listed look nearer than they are before they are measured.
        size = nearest_so_far(
            touched[:count], 2 * k, one_minus_omega, total, omega_d, spare, chosen
        )
        compute_plain_distances(chosen[:size], x, farthest[row], fusion, measured, row, omega_d)
        size = nearest_so_far(touched[:count], k, one_minus_omega, total, omega_d, best, chosen)
        compute_plain_distances(chosen[:size], x, farthest[row], fusion, measured, row, omega_d)
        complete_sums(
            chosen[:size], query_ids, query_values, query_entropies, encodings, slot, total
        )
        for t in range(size):
            done[chosen[t]] = row
        size = offer_rows(
            chosen[:size], one_minus_omega, order, total, omega_d, best, numbers, np.int64(0)
        )
        needed = 1.0 - (best[0] + 1e-6 - least_omega_d) / one_minus_omega if size == k else 0.0
        summed_step = step
        step = enough_steps(needed, rests[row])
        left_out = left_out_at(summed_step, rests[row])
        if step > summed_step and left_out > _LOOSEST * needed:
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
                    n_listed,
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
                    n_listed,
                )
            for t in range(count):
                if measured[touched[t]] != row:
                    omega_d[touched[t]] = least_omega_d
        while count > 0:  # the likely ones first, since each makes the bound tighter
            bound = best[0] + 1e-6 + one_minus_omega * left_out if size == k else np.inf
            for _ in range(2):
                count = keep_possible(
                    count, one_minus_omega, total, omega_d, touched, done, row, bound
                )
                compute_plain_distances(
                    touched[:count], x, farthest[row], fusion, measured, row, omega_d
                )
            n_likely = nearest_so_far(
                touched[:count], k, one_minus_omega, total, omega_d, spare, chosen
            )
            if left_out > 0:
                complete_sums(
                    chosen[:n_likely],
                    query_ids,
                    query_values,
                    query_entropies,
                    encodings,
                    slot,
                    total,
                )
            for t in range(n_likely):
                done[chosen[t]] = row
            size = offer_rows(
                chosen[:n_likely], one_minus_omega, order, total, omega_d, best, numbers, size
            )
        step = min(step, STEPS - 1)
        complete[row] = (
            size == k and best[0] < one_minus_omega * least_background[row] + least_omega_d
        )
        put_first(best, numbers, size, first, out_ids[row], out[row])
