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

Arrays with an entry for each of n rows: ``total``, float32, the sums of f(u) + f(v) - f(u + v) so
far; ``omega_d``, omega d or a bound from below; ``measured`` and ``done``, int32, in which a row is
marked where the entry equals ``stamp``, a number that is used for this query alone; ``value_at``,
float32, the query's values by column, 0 for columns that it lacks. ``candidates``, (n + 1,) int32,
lists rows, the first ``count`` of it.

Functions under ``kernel`` are called from Python, those under ``helper`` and ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import BUFFER
from kinrank.kernels.fusion import put_first, scaled_distance
from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.logarithms import TERMS, pair_terms
from kinrank.kernels.measures import JS, column_terms
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, squared_distance

LEVELS = 4
SHARES = (0.03, 0.01, 0.003)  # of a row's weight, at most, in levels above 0, 1, 2
# Step 0 sums level 0 of the query and of the others; the next adds a level of the query, the one
# after it a level of the others, and so on. The last one sums all entries.
STEPS = 2 * LEVELS - 1
_NO_STEP = -2  # before the first: no level of either
_SLACK = 2e-5  # more than terms are off in all
_ROUNDING = 1e-7  # more than a sum is off by an addition in float32
_BELOW_ZERO = np.float32(-1e-38)  # the sum of a row that shares a column is not above it
# How many entries of columns are added rather than an entry of a row that may have to be compared.
_WORTH = 3
_FEW = 0.5  # part of the similarity that was needed last, from which on rows look near
_ROWS = 4  # that are compared in full side by side
_PART = 512  # entries of each that are looked at together, a multiple of TERMS
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
def query_level(step):
    """The last level of the query's entries that a step sums."""
    return (step + 1) // 2


@inner
def other_level(step):
    """The last level of the other rows' entries that a step sums."""
    return step // 2


@inner
def left_out_at(step, rests, width):
    """How much more similar two rows may be than sums over the levels of a step say.

    step : 0 to STEPS - 1; rests : (LEVELS - 1,) the query's weight above each level
    width : how many entries the query has
    """
    left_out = _SLACK + _ROUNDING * width
    if query_level(step) < LEVELS - 1:
        left_out += most_similarity(np.float64(rests[query_level(step)]))
    if other_level(step) < LEVELS - 1:
        left_out += most_similarity(SHARES[other_level(step)])
    return left_out


@inner
def added_levels(mark, before, step):
    """Which levels of a column are summed for an entry of the query after a step, and not before.

    mark : of the entry, LEVELS times its column plus its level
    before, step : steps, ``before`` _NO_STEP where nothing is summed yet
    Returns the first of these levels, and the one behind the last.
    """
    level = mark % LEVELS
    if level > query_level(step):
        return 0, 0
    if level > query_level(before):
        return 0, other_level(step) + 1
    return other_level(before) + 1, other_level(step) + 1


@inner
def added_entries(marks, before, step, starts):
    """How many entries of columns are summed after a step, and not before.

    marks : of the query's entries; before, step : as in ``added_levels``; starts : of ``Levels``
    """
    count = np.int64(0)
    for mark in marks:
        low_level, high_level = added_levels(mark, before, step)
        column = mark // LEVELS * LEVELS
        count += starts[column + high_level] - starts[column + low_level]
    return count


@helper
def add_levels(marks, values, entropies, before, step, starts, columns, terms, total):
    """Add what is summed after a step, and not before, to the sums of a query with all rows.

    marks, values, entropies : of the query's entries
    before, step : as in ``added_levels``; starts : of ``Levels``; columns : ``records.Columns``
    terms : (BUFFER,) float32 scratch; total : see the top of the file
    """
    rows = columns.rows
    column_values = columns.values
    column_entropies = columns.entropies
    width = marks.shape[0]
    summed = np.empty(width + 1, np.int32)  # entries of the query
    begins = np.empty(width + 1, np.int64)
    ends = np.empty(width + 1, np.int64)
    n_summed = 0
    for e in range(width):
        low_level, high_level = added_levels(marks[e], before, step)
        column = marks[e] // LEVELS * LEVELS
        summed[n_summed] = e
        begins[n_summed] = starts[column + low_level]
        ends[n_summed] = starts[column + high_level]
        n_summed += begins[n_summed] < ends[n_summed]
    for i in range(n_summed):
        following = begins[min(i + 2, n_summed - 1)]
        fetch(32, rows, following)
        fetch(32, column_values, following)
        fetch(32, column_entropies, following)
        e = summed[i]
        for begin in range(begins[i], ends[i], BUFFER):
            part = slice(begin, min(begin + BUFFER, ends[i]))
            column_terms(
                JS, values[e], entropies[e], column_values[part], column_entropies[part], terms
            )
            others = rows[part]
            for t in range(others.shape[0]):
                total[np.uint32(others[t])] += terms[t]


@inner
def take_part(ids, values, value_at, u, v):
    """The values of two rows in some columns, and zeros behind them up to a multiple of TERMS.

    ids, values : columns and values of one row, at most _PART; value_at : (n,) the other's
    u, v : (_PART,) float32, the values of the other row and of this one, the output
    Returns how many there are, with the zeros.
    """
    size = ids.shape[0]
    for t in range(size):
        u[t] = value_at[np.uint32(ids[t])]
    for t in range(size):
        v[t] = values[t]
    padded = (size + TERMS - 1) // TERMS * TERMS
    for t in range(size, padded):
        u[t] = 0.0
        v[t] = 0.0
    return padded


@helper
def complete_sums(rows, encodings, value_at, sums):
    """The whole sums of f(u) + f(v) - f(u + v) of a query with ``rows``, written to ``sums``.

    rows : int32; encodings : F' of all rows, ``records.Encodings``
    value_at : see the top of the file; sums : float64, as long or longer
    The terms of a row are added one by one, as everywhere, so several rows are summed side by side:
    an addition waits for the one before it.
    """
    count = rows.shape[0]
    ptr = encodings.ptr
    ids = encodings.ids
    values = encodings.values
    u = np.empty(_PART, np.float32)
    v = np.empty(_PART, np.float32)
    terms = np.zeros((_ROWS, _PART), np.float32)
    for first_row in range(0, count, _ROWS):
        n_rows = min(_ROWS, count - first_row)
        longest = 0
        for j in range(n_rows):
            row = rows[first_row + j]
            longest = max(longest, ptr[row + 1] - ptr[row])
            following = ptr[rows[min(first_row + j + _ROWS, count - 1)]]
            fetch(64, ids, following)
            fetch(64, values, following)
        sum_0 = 0.0
        sum_1 = 0.0
        sum_2 = 0.0
        sum_3 = 0.0
        for begin in range(0, longest, _PART):
            size = min(_PART, longest - begin)
            for j in range(_ROWS):
                n_terms = np.int64(0)
                if j < n_rows:
                    row = rows[first_row + j]
                    part_begin = min(ptr[row] + begin, ptr[row + 1])
                    part = slice(part_begin, min(part_begin + _PART, ptr[row + 1]))
                    n_terms = take_part(ids[part], values[part], value_at, u, v)
                    for t in range(0, n_terms, TERMS):
                        pair_terms(TERMS, t, u, v, terms[j])
                for t in range(n_terms, size):
                    terms[j, t] = 0.0
            for t in range(size):
                sum_0 += terms[0, t]
                sum_1 += terms[1, t]
                sum_2 += terms[2, t]
                sum_3 += terms[3, t]
        four_sums = (sum_0, sum_1, sum_2, sum_3)
        for j in range(n_rows):
            sums[first_row + j] = four_sums[j]


@inner
def add_summed(total, most, first, measured, stamp, candidates, count):
    """Add the rows whose sum so far is at most ``most`` to the candidates; returns their number.

    total, measured, stamp, candidates, count : see the top of the file; rows that are marked as
        measured are left out
    most : less than 0; first : the first gallery row
    """
    for row in range(first, total.shape[0]):
        candidates[np.uint64(count)] = row
        count += (total[row] <= most) & (measured[row] != stamp)
    return count


@inner
def least_distance(total, omega_d, one_minus_omega):
    """d* of a row by its sum so far, without what that leaves out."""
    return np.float32(one_minus_omega * (1.0 + 0.5 * total) + omega_d)


@inner
def nearest_so_far(rows, k, one_minus_omega, total, omega_d, best, chosen):
    """The k of ``rows`` with the smallest d* by the sums so far, written to ``chosen``.

    one_minus_omega, total, omega_d : d* is one_minus_omega (1 + total / 2) + omega_d
    best : (k,) float32 scratch; chosen : (k,) int32, of which as many are written as there are
    Returns how many there are, at most k.
    """
    n_chosen = np.int64(0)
    for row in rows:
        value = least_distance(total[row], omega_d[row], one_minus_omega)
        n_chosen = heap_offer(best, chosen, n_chosen, k, value, row)
    return n_chosen


@inner
def keep_possible(rows, one_minus_omega, total, omega_d, done, stamp, bound):
    """Keep the rows whose d* so far is within a bound and whose d* is not known yet.

    rows : compacted; returns how many are left
    done, stamp : see the top of the file
    """
    n_kept = np.int64(0)
    for row in rows:
        rows[n_kept] = row
        value = one_minus_omega * (1.0 + 0.5 * total[row]) + omega_d[row]
        n_kept += value <= bound and done[row] != stamp
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
def offer_rows(rows, sums, one_minus_omega, order, omega_d, done, stamp, best, numbers, size):
    """Offer rows whose d' and d are known to the heap of the first k, and mark them as done.

    rows : int32; sums : whole sums of f(u) + f(v) - f(u + v) of each of ``rows``
    omega_d, done, stamp : see the top of the file
    order : (n,) the number that stands for each row in results and in ties
    best, numbers, size : a max-heap of d* and of these numbers, both (k,), and how many it holds
    Returns how many it holds then.
    """
    for t in range(rows.shape[0]):
        row = rows[t]
        d_prime = np.float32(min(max(1.0 + 0.5 * sums[t], 0.0), 1.0))
        value = one_minus_omega * d_prime + omega_d[row]
        size = heap_offer(best, numbers, size, best.shape[0], value, order[row])
        done[row] = stamp
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
    Lighter entries are added as long as that costs less than to compare the rows that are left.
    """
    ptr = encodings.ptr
    ids = encodings.ids
    values = encodings.values
    entropies = encodings.entropies
    columns = encodings.columns
    marks = levels.marks
    rests = levels.rests
    starts = levels.starts
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
    likely = np.empty(2 * k, np.int32)
    nearest = np.empty(k, np.int32)
    sums = np.empty(2 * k, np.float64)
    terms = np.empty(BUFFER, np.float32)
    total = np.zeros(n, np.float32)
    value_at = np.zeros(n, np.float32)
    candidates = np.empty(n + 1, np.int32)
    measured = np.full(n, -1, np.int32)
    done = np.full(n, -1, np.int32)
    omega_d = np.empty(n, np.float32)
    x_buffer = np.empty(vectors.shape[1], np.float32)
    step = np.int64(2)
    needed = 0.0
    for row in range(low, high):
        entries = slice(ptr[row], ptr[row + 1])
        width = ptr[row + 1] - ptr[row]
        query_marks = marks[entries]
        query_values = values[entries]
        query_entropies = entropies[entries]
        x = row_of(vectors, order[row], x_buffer)
        for e in range(ptr[row], ptr[row + 1]):
            value_at[ids[e]] = values[e]
        total[first:] = np.float32(0)
        before = np.int64(_NO_STEP)
        if step > 0:
            step -= 1
        add_levels(
            query_marks, query_values, query_entropies, before, step, starts, columns, terms, total
        )
        # The least omega d of a row that is not listed.
        least_omega_d = omega * list_d[row, list_d.shape[1] - 1]
        n_measured = np.int64(0)
        for t in range(lists.shape[1]):
            listed_row = lists[row, t]
            if listed_row >= first and measured[listed_row] != row:
                omega_d[listed_row] = omega * list_d[row, t]
                measured[listed_row] = row
                candidates[n_measured] = listed_row
                n_measured += 1
        most = min(np.float32(-2 * _FEW * needed), _BELOW_ZERO)
        count = add_summed(total, most, first, measured, row, candidates, n_measured)
        if count < n_measured + 2 * k:
            count = add_summed(total, _BELOW_ZERO, first, measured, row, candidates, n_measured)
        for t in range(n_measured, count):
            omega_d[candidates[t]] = least_omega_d
        # Twice, as rows that are not listed look nearer than they are before they are measured.
        n_likely = nearest_so_far(
            candidates[:count], 2 * k, one_minus_omega, total, omega_d, spare, likely
        )
        for t in range(n_likely):
            candidates[n_measured] = likely[t]
            n_measured += measured[likely[t]] != row
        compute_plain_distances(likely[:n_likely], x, farthest[row], fusion, measured, row, omega_d)
        size = nearest_so_far(likely[:n_likely], k, one_minus_omega, total, omega_d, best, nearest)
        complete_sums(nearest[:size], encodings, value_at, sums)
        size = offer_rows(
            nearest[:size],
            sums,
            one_minus_omega,
            order,
            omega_d,
            done,
            row,
            best,
            numbers,
            np.int64(0),
        )
        # The least similarity of a row that is not listed and may be among the first.
        needed = 1.0 - (best[0] + 1e-6 - least_omega_d) / one_minus_omega if size == k else 0.0
        while True:
            left_out = left_out_at(step, rests[row], width)
            most = min(np.float32(2 * (left_out - needed)), _BELOW_ZERO)
            count = add_summed(total, most, first, measured, row, candidates, n_measured)
            if step == STEPS - 1:
                break
            n_entries = added_entries(query_marks, step, step + 1, starts)
            if left_out < needed and (count - n_measured) * width <= _WORTH * n_entries:
                break
            before = step
            step += 1
            add_levels(
                query_marks,
                query_values,
                query_entropies,
                before,
                step,
                starts,
                columns,
                terms,
                total,
            )
        for t in range(n_measured, count):
            omega_d[candidates[t]] = least_omega_d
        while count > 0:  # the likely ones first, since each makes the bound tighter
            bound = best[0] + 1e-6 + one_minus_omega * left_out if size == k else np.inf
            for _ in range(2):
                count = keep_possible(
                    candidates[:count], one_minus_omega, total, omega_d, done, row, bound
                )
                compute_plain_distances(
                    candidates[:count], x, farthest[row], fusion, measured, row, omega_d
                )
            n_likely = nearest_so_far(
                candidates[:count], 2 * k, one_minus_omega, total, omega_d, spare, likely
            )
            complete_sums(likely[:n_likely], encodings, value_at, sums)
            size = offer_rows(
                likely[:n_likely],
                sums,
                one_minus_omega,
                order,
                omega_d,
                done,
                row,
                best,
                numbers,
                size,
            )
        complete[row] = (
            size == k and best[0] < one_minus_omega * least_background[row] + least_omega_d
        )
        put_first(best, numbers, size, first, out_ids[row], out[row])
        for e in range(ptr[row], ptr[row + 1]):
            value_at[ids[e]] = 0.0
