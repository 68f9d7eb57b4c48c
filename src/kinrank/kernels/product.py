"""Products of sparse matrices, of each row only the largest entries."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import enter_at, leave_last, named_space, tick
from kinrank.kernels.rows import begin_sums, enlarge
from kinrank.kernels.topk import heap_offer

# Sums that differ by less, relatively, are equal at a cut: rounding, and walks that are left out,
# depend on where rows lie, and must not decide between a row and its copy.
TIE = 1e-5


@inner
def add_row(weight, begin, end, ids, values, stamp, count, seen, total, touched):
    """Add ``weight`` times a sparse row, entries [begin, end), to a sum of rows.

    total : the sum by column; touched : its columns, ``count`` of them, which ``seen`` marks
    Returns how many columns the sum has now.
    """
    columns = ids[begin:end]
    terms = values[begin:end]
    count = begin_sums(columns, stamp, count, seen, total, touched)
    for t in range(columns.shape[0]):
        total[np.uint32(columns[t])] += weight * terms[t]
    return count


@inner
def product_row(begin, end, a_ids, a_values, b, stamp, space):
    """A row of A, entries [begin, end), times B: columns in ``touched``, sums in ``total``.

    b : see ``records.Rows``. Returns how many columns there are.
    """
    count = np.int64(0)
    # Arrays are taken out of their tuples once: each time costs as much as a short row.
    overlaid = space.overlaid
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
        over = overlaid[middle]
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
    """The columns with the largest sums, as many as ``chosen`` has room for.

    count : columns in ``touched``, with sums in ``total``; best : room
    order, position : the number of each column, and the column of each number; a query comes behind
        them all
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
    above = last * (1 + TIE)
    below = last * (1 - TIE)
    larger = np.int64(0)
    candidates = np.int64(0)
    for t in range(count):
        larger += total[touched[t]] > above
        candidates += total[touched[t]] >= below
    if candidates == keep:
        return
    at = size = np.int64(0)
    for t in range(count):
        c = touched[t]
        if total[c] > above:
            chosen[at] = c
            at += 1
        elif total[c] >= below:
            number = order[c] if c < n else c
            room = keep - larger
            size = heap_offer(best[:room], chosen[larger:], size, room, np.float64(number), number)
    for t in range(larger, keep):
        chosen[t] = position[chosen[t]] if chosen[t] < n else chosen[t]


@kernel
def product_rows(low, high, a_ptr, a_ids, a_values, groups, b, keep, order, position, workspace):
    """Rows [low, high) of A B, each cut to its ``keep`` largest entries (0: all), L1 norm 1.

    a_ptr, a_ids, a_values : A; groups : which of its rows belong to each query, or none
    b : B, see ``records.Rows``
    order, position : the number of each column, by which ties go, and the column of each number
    Returns pointers, indices, data. Sums are float64.
    """
    space = named_space(workspace)
    ptr = np.zeros(high - low + 1, np.int64)
    ids = np.empty((high - low) * max(keep, 64), np.int32)
    values = np.empty(ids.shape[0], np.float32)
    best = np.empty(max(keep, 1), np.float64)
    total = space.total
    touched = space.touched
    overlaid = space.overlaid
    clock = space.clock
    b_groups = b.groups
    b_replaced = b.replaced
    at = np.int64(0)
    query = np.int64(0)
    for row in range(low, high):
        query = enter_at(row, query, groups, b_groups, b_replaced, overlaid)
        count = product_row(a_ptr[row], a_ptr[row + 1], a_ids, a_values, b, tick(clock), space)
        if count == 0:  # most rows, where few are made
            ptr[row - low + 1] = at
            continue
        length = count if keep == 0 else min(keep, count)
        if at + length > ids.shape[0]:
            ids = enlarge(ids, at, at + length)
            values = enlarge(values, at, at + length)
        chosen = ids[at : at + length]
        if length == count:
            for t in range(count):
                chosen[t] = touched[t]
        else:
            keep_largest(count, order, position, best, chosen, space)
        norm = 0.0
        for t in range(length):
            norm += total[chosen[t]]
        for t in range(length):
            values[at + t] = total[chosen[t]] / norm if norm > 0 else 0
        at += length
        ptr[row - low + 1] = at
    leave_last(query, b_groups, b_replaced, overlaid)
    return ptr, ids[:at].copy(), values[:at].copy()
