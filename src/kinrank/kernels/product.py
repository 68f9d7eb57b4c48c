"""Products of sparse matrices, of each row only the largest entries: P = F F and F' = P P.

A sparse matrix is ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]]. The right
matrix B may have an overlay, rows that stand in for stored ones while a query is computed
(``kernels/overlay.py``); overlay_row[row] is the one that does, -1 for none. ``b`` is B with its
overlay, a ``records.Rows``: ``ptr, ids, values`` and ``over_ptr, over_ids, over_values``. A row of
A times B is a sum of rows of B, held by column: ``total``, float64, for the columns that ``seen``
marks with a stamp, a number used for nothing else; ``touched`` lists these columns.

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import named_space, new_stamp, remove_last_overlay, switch_overlay
from kinrank.kernels.rows import begin_sums, enlarge
from kinrank.kernels.topk import heap_offer

# Sums that differ by less, relatively, are equal at a cut: rounding, and walks that are left out,
# depend on where rows lie, and must not decide between a row and its copy.
TIE = 1e-5


@inner
def add_row(weight, begin, end, ids, values, stamp, count, seen, total, touched):
    """Add ``weight`` times the entries [begin, end) of a sparse row to a sum of rows.

    ids, values : the columns and values of all rows
    total : (n,) float64, the sum by column, of the columns that ``seen`` marks with the stamp
    touched : these columns, the first ``count``; returns how many the sum has now
    """
    columns = ids[begin:end]
    terms = values[begin:end]
    count = begin_sums(columns, stamp, count, seen, total, touched)
    for t in range(columns.shape[0]):
        total[np.uint32(columns[t])] += weight * terms[t]
    return count


@inner
def product_row(begin, end, a_ids, a_values, b, stamp, space):
    """The entries [begin, end) of a row of A, times B: columns in ``touched``, sums in ``total``.

    a_ids, a_values : columns and values of A; b : B with its overlay, ``records.Rows``
    stamp : marks the columns in ``seen``; space : scratch arrays, ``records.Space``
    Returns how many columns there are.
    """
    count = np.int64(0)
    # Arrays are taken out of their records once: each time costs as much as a short row.
    overlay_row = space.overlay_row
    seen = space.seen
    total = space.total
    touched = space.touched
    ptr = b.ptr
    ids = b.ids
    values = b.values
    over_ptr = b.over_ptr
    over_ids = b.over_ids
    over_values = b.over_values
    for a in range(begin, end):
        weight = np.float64(a_values[a])
        middle = a_ids[a]
        over = overlay_row[middle]
        if over >= 0:
            count = add_row(
                weight,
                over_ptr[over],
                over_ptr[over + 1],
                over_ids,
                over_values,
                stamp,
                count,
                seen,
                total,
                touched,
            )
        else:
            count = add_row(
                weight,
                ptr[middle],
                ptr[middle + 1],
                ids,
                values,
                stamp,
                count,
                seen,
                total,
                touched,
            )
    return count


@inner
def keep_largest(count, order, position, best, chosen, space):
    """The columns with the largest sums, as many as ``chosen`` is long; there are more than these.

    count : columns in ``space.touched``, with their sums in ``space.total``
    order, position : (n,) the user's number of each column, and the column of each number; a query,
        column n, comes behind them all
    best : (keep,) float64 scratch; chosen : (keep,) int32, the output
    Columns whose sums equal the last of these, up to TIE, are kept by number, the lower first.
    """
    keep = chosen.shape[0]
    n = order.shape[0]
    total = space.total
    touched = space.touched
    size = np.int64(0)
    for t in range(count):
        c = touched[t]
        if size < keep or -total[c] < best[0]:
            size = heap_offer(best, chosen, size, keep, -total[c], c)
    last = -best[0]
    upper_limit = last * (1 + TIE)
    lower_limit = last * (1 - TIE)
    n_above = np.int64(0)
    candidates = np.int64(0)
    for t in range(count):
        n_above += total[touched[t]] > upper_limit
        candidates += total[touched[t]] >= lower_limit
    if candidates == keep:
        return
    n_larger = size = np.int64(0)
    for t in range(count):
        c = touched[t]
        if total[c] > upper_limit:
            chosen[n_larger] = c
            n_larger += 1
        elif total[c] >= lower_limit:
            number = order[c] if c < n else c
            n_left = keep - n_above
            size = heap_offer(
                best[:n_left], chosen[n_above:], size, n_left, np.float64(number), number
            )
    for t in range(n_above, keep):
        chosen[t] = position[chosen[t]] if chosen[t] < n else chosen[t]


@kernel
def product_rows(
    low, high, a_ptr, a_ids, a_values, row_groups, b, keep, order, position, workspace
):
    """Rows [low, high) of A B, each cut to its ``keep`` largest entries (0: all), L1 norm 1.

    a_ptr, a_ids, a_values : A
    row_groups : (queries + 1,) rows row_groups[t] to row_groups[t + 1] of A belong to query t and
        see its overlay of B; empty without queries
    b : B with its overlay, ``records.Rows``
    order, position : (n,) the user's number of each column, by which ties go, and its inverse
    workspace : scratch arrays, as long as B has columns
    Returns pointers, columns and values of the rows. Sums are float64.
    """
    space = named_space(workspace)
    ptr = np.zeros(high - low + 1, np.int64)
    ids = np.empty((high - low) * max(keep, 64), np.int32)
    values = np.empty(ids.shape[0], np.float32)
    best = np.empty(max(keep, 1), np.float64)
    total = space.total
    touched = space.touched
    overlay_row = space.overlay_row
    last_stamp = space.last_stamp
    b_groups = b.groups
    b_replaced = b.replaced
    size = np.int64(0)
    n_begun = np.int64(0)
    for row in range(low, high):
        n_begun = switch_overlay(row, n_begun, row_groups, b_groups, b_replaced, overlay_row)
        count = product_row(
            a_ptr[row], a_ptr[row + 1], a_ids, a_values, b, new_stamp(last_stamp), space
        )
        if count == 0:  # most rows, where few are made
            ptr[row - low + 1] = size
            continue
        length = count if keep == 0 else min(keep, count)
        if size + length > ids.shape[0]:
            ids = enlarge(ids, size, size + length)
            values = enlarge(values, size, size + length)
        chosen = ids[size : size + length]
        if length == count:
            for t in range(count):
                chosen[t] = touched[t]
        else:
            keep_largest(count, order, position, best, chosen, space)
        norm = 0.0
        for t in range(length):
            norm += total[chosen[t]]
        for t in range(length):
            values[size + t] = total[chosen[t]] / norm if norm > 0 else 0
        size += length
        ptr[row - low + 1] = size
    remove_last_overlay(n_begun, b_groups, b_replaced, overlay_row)
    return ptr, ids[:size].copy(), values[:size].copy()
