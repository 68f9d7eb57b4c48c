"""The distance d' of rows of F': sums over shared columns, of a row with all others or in pairs.

F' is the encoding of a row, a sparse row of sum 1; d' is the Jensen-Shannon divergence or another
distance, of which ``kernels/measures.py`` says what is summed over the columns that two rows share,
and how the sum becomes a distance. "entropies" are x log2 x of entries x.

A sparse matrix is ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]]. Rows are
marked where ``seen``, (n,) int32, has a stamp, a number used for nothing else; ``touched``,
(n + 1,) int32, lists the marked rows, the first ``count`` of it, and ``total``, (n,) float64, has
their sums.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``helper`` and
``inner`` by kernels (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import filling, helper, inner, kernel
from kinrank.kernels.logarithms import ENTRIES, WIDTH, lane_sums
from kinrank.kernels.measures import JS, column_terms, finish, shared_sum, xlog2x
from kinrank.kernels.rows import begin_sums, enlarge

BUFFER = 256  # entries of a column whose terms are computed at a time


@filling
def norm_rows(low, high, ptr, values, out):
    """Squared Euclidean norm of rows [low, high) of a sparse matrix; out : (n,) float64."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += np.float64(values[e]) * values[e]
        out[row] = total


@kernel
def row_norms(ptr, values):
    """Squared Euclidean norm of every row of a sparse matrix; (n,) float64."""
    norms = np.empty(ptr.shape[0] - 1, np.float64)
    norm_rows(np.int64(0), norms.shape[0], ptr, values, norms)
    return norms


@filling
def entropy_rows(low, high, ptr, values, out):
    """x log2 x of the entries of rows [low, high); out : an entry for each of ``values``."""
    for e in range(ptr[low], ptr[high]):
        out[e] = xlog2x(values[e])


@helper
def add_columns(measure, ids, values, entropies, columns, stamp, total, seen, touched, count):
    """Add the sums of one row with all rows that share a column with it.

    measure : a code of ``kernels.measures``
    ids, values, entropies : the columns of the row, its values, and x log2 x of these
    columns : the other rows by columns, ``records.Columns``: column c has the entries ptr[c] to
        ptr[c + 1] of ``rows, values, entropies``
    stamp, total, seen, touched, count : see the top of the file; returns the new count
    """
    terms = np.empty(BUFFER, np.float32)
    column_ptr = columns.ptr
    column_rows = columns.rows
    column_values = columns.values
    column_entropies = columns.entropies
    for e in range(ids.shape[0]):
        column = ids[e]
        for begin in range(column_ptr[column], column_ptr[column + 1], BUFFER):
            part = slice(begin, min(begin + BUFFER, column_ptr[column + 1]))
            factor = column_terms(
                measure, values[e], entropies[e], column_values[part], column_entropies[part], terms
            )
            others = column_rows[part]
            count = begin_sums(others, stamp, count, seen, total, touched)
            for t in range(others.shape[0]):
                total[np.uint32(others[t])] += factor * terms[t]
    return count


@helper
def add_ranges(
    measure, begins, ends, values, entropies, columns, first, stamp, total, seen, touched, count
):
    """As ``add_columns``, over given ranges of entries, where most rows >= ``first`` share one.

    begins, ends : for each entry of the row, the range of entries of its column that are summed
    touched : rows whose sum is not 0 are added to it; they are not marked in ``seen``
    Sums of all rows begin with 0 and none is looked up, which saves about a third of the time.
    """
    terms = np.empty(BUFFER, np.float32)
    column_rows = columns.rows
    column_values = columns.values
    column_entropies = columns.entropies
    total[first:] = 0.0
    for e in range(begins.shape[0]):
        for begin in range(begins[e], ends[e], BUFFER):
            part = slice(begin, min(begin + BUFFER, ends[e]))
            factor = column_terms(
                measure, values[e], entropies[e], column_values[part], column_entropies[part], terms
            )
            others = column_rows[part]
            for t in range(others.shape[0]):
                total[np.uint32(others[t])] += factor * terms[t]
    for other in range(first, total.shape[0]):
        touched[np.uint64(count)] = other
        count += (seen[other] != stamp) & (total[other] != 0)
    return count


@helper
def add_long_columns(
    measure, ids, values, entropies, columns, first, stamp, total, seen, touched, count
):
    """As ``add_columns``, for columns so long that most rows >= ``first`` share one."""
    column_ptr = columns.ptr
    begins = np.empty(ids.shape[0], np.int64)
    ends = np.empty(ids.shape[0], np.int64)
    for e in range(ids.shape[0]):
        begins[e] = column_ptr[ids[e]]
        ends[e] = column_ptr[ids[e] + 1]
    return add_ranges(
        measure,
        begins,
        ends,
        values,
        entropies,
        columns,
        first,
        stamp,
        total,
        seen,
        touched,
        count,
    )


@inner
def column_entries(ids, column_ptr):
    """How many entries the columns ``ids`` have in all; column_ptr : where each begins."""
    entries = np.int64(0)
    for column in ids:
        entries += column_ptr[column + 1] - column_ptr[column]
    return entries


@inner
def add_listed(listed, first, stamp, total, seen, touched):
    """Mark the listed rows >= ``first`` and set their sums to 0; returns how many there are.

    They are compared with a row whether they share columns or not.
    listed : int32, neighbours of the row
    stamp, total, seen, touched : see the top of the file; ``touched`` is empty before
    """
    count = 0
    for other in listed:
        if other >= first and seen[other] != stamp:
            seen[other] = stamp
            total[other] = 0.0
            touched[count] = other
            count += 1
    return count


@kernel
def divergence_rows(low, high, encodings, lists, first):
    """d' of rows [low, high) to all rows >= ``first`` that share a column or are listed for them.

    encodings : ``records.Encodings``: ``measure``; F' by rows, ``ptr, ids, values``, with their
        ``entropies`` and squared ``norms``; F' by ``columns``, those of rows >= ``first`` alone
    lists : (``high`` or more, K) int32, row i has further rows to compare row i with; those below
        ``first``, and -1, are skipped
    Returns the length of each row, (high - low,) int64, and the other rows, int32, in no order, and
    the distances, float32, of all of them.
    """
    measure = encodings.measure
    ptr = encodings.ptr
    ids = encodings.ids
    values = encodings.values
    entropies = encodings.entropies
    norms = encodings.norms
    n = ptr.shape[0] - 1
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty((high - low) * 64, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    size = np.int64(0)
    for row in range(low, high):
        entries = slice(ptr[row], ptr[row + 1])
        count = add_listed(lists[row], first, row, total, seen, touched)
        count = add_columns(
            measure,
            ids[entries],
            values[entries],
            entropies[entries],
            encodings.columns,
            row,
            total,
            seen,
            touched,
            count,
        )
        if size + count > out_ids.shape[0]:
            out_ids = enlarge(out_ids, size, size + count)
            out = enlarge(out, size, size + count)
        for t in range(count):
            other = touched[t]
            out_ids[size] = other
            out[size] = finish(measure, total[other], norms[row], norms[other])
            size += 1
        lengths[row - low] = count
    return lengths, out_ids[:size].copy(), out[:size].copy()


@kernel
def divergence_to_all(queries, ptr, ids, values, first, out):
    """d' of each of ``queries`` to all rows >= ``first``, by Jensen-Shannon.

    queries : (m,) int32, row numbers; ptr, ids, values : F' by rows
    out : (m, n - first) float32, the output
    WIDTH queries stand side by side: the entries of each row are read once for all of them. The
    terms of two rows are added in the order of their columns, as ``add_columns`` does.
    """
    n = ptr.shape[0] - 1
    longest = np.int64(0)
    for row in range(first, n):
        longest = max(longest, ptr[row + 1] - ptr[row])
    u = np.zeros((n, WIDTH), np.float32)
    fu = np.zeros((n, WIDTH), np.float32)
    held = np.zeros(n, np.bool_)  # whether one of the queries has a column
    row_ids = np.empty(longest + ENTRIES, np.int32)
    row_values = np.empty(longest + ENTRIES, np.float32)
    row_entropies = np.empty(longest + ENTRIES, np.float32)
    sums = np.empty(WIDTH, np.float64)
    for begin in range(0, queries.shape[0], WIDTH):
        lanes = min(WIDTH, queries.shape[0] - begin)
        for lane in range(lanes):
            query = queries[begin + lane]
            for e in range(ptr[query], ptr[query + 1]):
                u[ids[e], lane] = values[e]
                fu[ids[e], lane] = xlog2x(values[e])
                held[ids[e]] = True
        for row in range(first, n):
            size = np.int64(0)
            for e in range(ptr[row], ptr[row + 1]):  # without a branch, which could not be foreseen
                row_ids[np.uint64(size)] = ids[e]
                row_values[np.uint64(size)] = values[e]
                size += held[np.uint32(ids[e])]
            padded = (size + ENTRIES - 1) // ENTRIES * ENTRIES
            for t in range(size, padded):  # a value of 0 adds nothing
                row_ids[t] = 0
                row_values[t] = 0.0
            for t in range(padded):
                row_entropies[t] = xlog2x(row_values[t])
            lane_sums(ENTRIES, padded, row_ids, row_values, row_entropies, u, fu, sums)
            for lane in range(lanes):
                out[begin + lane, row - first] = finish(JS, sums[lane], 0.0, 0.0)
        for lane in range(lanes):
            query = queries[begin + lane]
            for e in range(ptr[query], ptr[query + 1]):
                u[ids[e], lane] = 0.0
                fu[ids[e], lane] = 0.0
                held[ids[e]] = False


@kernel
def divergence_pairs(
    low, high, measure, ptr, ids, values, entropies, norms, list_ptr, list_ids, back_ptr, back_ids
):
    """d' of rows [low, high) to the rows of larger number that they list or that list them.

    measure : a code of ``kernels.measures``
    ptr, ids, values, entropies, norms : F' by rows, x log2 x of its values, squared norms of its
        rows
    list_ptr, list_ids : which rows each row lists; back_ptr, back_ids : which rows list it
    A pair is compared once, at its lower row. A column that only one of two rows holds adds
    nothing: f(0) + f(v) - f(0 + v) = 0.
    Returns the length of each row, (high - low,) int64, and the other rows, int32, in no order, and
    the distances, float32, of all of them.
    """
    n = ptr.shape[0] - 1
    held = np.zeros(n, np.uint8)  # 1 for the columns that the row holds
    row_values = np.empty(n, np.float32)
    row_entropies = np.empty(n, np.float32)
    shared = np.empty(n + 1, np.uint32)
    compared_with = np.full(n, -1, np.int32)
    u = np.empty(n, np.float32)
    v = np.empty(n, np.float32)
    entropy_sums = np.empty(n, np.float32)
    terms = np.empty(n, np.float32)
    lengths = np.zeros(high - low, np.int64)
    capacity = list_ptr[high] - list_ptr[low] + back_ptr[high] - back_ptr[low]
    out_ids = np.empty(capacity, np.int32)
    out = np.empty(capacity, np.float32)
    size = np.int64(0)
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            held[ids[e]] = 1
            row_values[ids[e]] = values[e]
            row_entropies[ids[e]] = entropies[e]
        row_begin = size
        for others in (
            list_ids[list_ptr[row] : list_ptr[row + 1]],
            back_ids[back_ptr[row] : back_ptr[row + 1]],
        ):
            for other in others:
                out_ids[size] = other
                size += other > row and compared_with[other] != row
                compared_with[other] = row
        for t in range(row_begin, size):
            other = out_ids[t]
            next_begin = ptr[out_ids[t + (t + 1 < size)]]
            fetch(128, ids, next_begin)
            fetch(128, values, next_begin)
            fetch(128, entropies, next_begin)
            entries = slice(ptr[other], ptr[other + 1])
            other_ids = ids[entries]
            other_values = values[entries]
            other_entropies = entropies[entries]
            count = np.uint64(0)
            for e in range(other_ids.shape[0]):  # without a branch, which could not be foreseen
                shared[count] = e
                count += held[np.uint32(other_ids[e])]
            for c in range(count):
                e = shared[c]
                column = np.uint32(other_ids[e])
                u[c] = row_values[column]
                v[c] = other_values[e]
                entropy_sums[c] = row_entropies[column] + other_entropies[e]
            total = shared_sum(measure, u[:count], v[:count], entropy_sums[:count], terms)
            out[t] = finish(measure, total, norms[row], norms[other])
        lengths[row - low] = size - row_begin
        for e in range(ptr[row], ptr[row + 1]):
            held[ids[e]] = 0
    return lengths, out_ids[:size].copy(), out[:size].copy()
