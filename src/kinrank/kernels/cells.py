"""Lists of nearest rows made better: rows of one cell against those of the cells around it.

Rows are in the order of their cells. The number that stands for a row in lists and in ties is its
place in the order in which the vectors were given; ``position[number]`` is its place in the order
of cells. Lists are (n, K) int32, a row's own number first, -1 behind the end; ``places`` has the
places of those in a list, so that they need not be looked up again and again.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance

LOOKED = 64  # entries of a list, at most, whose own lists are looked at
_AHEAD = 6  # rows that the memory is asked for before they are compared
_FETCHED = 128  # columns of them


@filling
def list_places(low, high, position, lists, out):
    """The places of those in the lists of rows [low, high); out : (n, K) int32, the output."""
    for row in range(low, high):
        for t in range(lists.shape[1]):
            number = lists[row, t]
            out[row, t] = position[number] if number >= 0 else -1


@kernel
def reverse_lists(low, high, places, is_new, out_rows, out_is_new):
    """Rows that list one of [low, high) without being in its list, those with the best ranks.

    places, is_new : as in ``refine_lists``
    out_rows : (n, R) int32, the output, places in the order of cells, -1 behind the last
    out_is_new : (n, R) of the type of ``is_new``, the output: whether the row of [low, high) is a
        new entry in the list of the row in ``out_rows``
    """
    n, k = places.shape
    counts = np.zeros(high - low, np.int32)
    for row in range(low, high):
        for t in range(out_rows.shape[1]):
            out_rows[row, t] = -1
            out_is_new[row, t] = 0
    for t in range(1, k):
        for row in range(n):
            other = places[row, t]
            if other < low or other >= high or counts[other - low] == out_rows.shape[1]:
                continue
            mutual = False
            for s in range(1, k):
                if places[other, s] == row:
                    mutual = True
                    break
            if not mutual:
                count = counts[other - low]
                out_rows[other, count] = row
                out_is_new[other, count] = is_new[row, t]
                counts[other - low] = count + 1


@inner
def list_candidates(
    row, places, is_new, reverse, reverse_is_new, cell, row_of_cell, seen, candidates
):
    """The entries in the lists of those in a row's list, and of those who list it, and these.

    Without rows that are marked in ``seen``, which are marked then, and without pairs that were
    compared before. Arguments as of ``refine_lists``.
    row_of_cell : (n_cells,) the row itself for cells in which it was searched
    candidates : int32, the output, places in the order of cells; returns how many
    """
    n_looked = min(places.shape[1], LOOKED)
    count = np.int64(0)
    # Entry t of the row's own list where t > 0, else entry -t of those who list it.
    for t in range(1 - reverse.shape[1], n_looked):
        if t > 0:
            other = places[row, t]
            if other < 0:
                break
            entry_is_new = is_new[row, t]
        else:
            other = reverse[row, -t]
            entry_is_new = reverse_is_new[row, -t]
            if other < 0:
                continue
        for s in range(0 if t <= 0 else 1, n_looked):
            candidate = places[other, s]
            if candidate < 0:
                break
            if not entry_is_new and not is_new[other, s]:
                continue
            if seen[candidate] != row:
                seen[candidate] = row
                candidates[count] = candidate
                count += row_of_cell[cell[candidate]] != row
    return count


@kernel
def refine_lists(
    low,
    high,
    vectors,
    cell,
    searched,
    lists,
    places,
    list_squared,
    is_new,
    reverse,
    reverse_is_new,
    out_ids,
    out,
    out_is_new,
):
    """Rows [low, high): the nearest among a row's list, those who list it, and the lists of both.

    vectors : (n, d) in the order of cells, as lists, places and list_squared
    cell : (n,) int32, the cell of each row
    searched : (n, any) int32, the cells in which a row was searched, -1 for none: what they hold
        was compared before
    lists, places, list_squared : (n, k) numbers, the row itself first, of ``list_places``, and
        squared distances
    is_new : (n, k) which entries were found the last time; pairs of two others were compared before
    reverse, reverse_is_new : (n, R) of ``reverse_lists``
    out_ids, out : (n, k) int32 and float32, the output: the new lists and squared distances
    out_is_new : (n, k) the output, which entries of ``out_ids`` were not in the list
    """
    n, k = lists.shape
    seen = np.full(n, -1, np.int32)
    row_of_cell = np.full(cell[n - 1] + 1, -1, np.int32)
    n_looked = min(k, LOOKED)
    candidates = np.empty((n_looked + reverse.shape[1]) * n_looked + 1, np.int32)
    best = np.empty(k, np.float32)
    best_numbers = np.empty(k, np.int32)
    x_buffer = np.empty(vectors.shape[1], np.float32)
    y_buffer = np.empty(vectors.shape[1], np.float32)
    flat = vectors.reshape(vectors.size)
    width = np.int64(vectors.shape[1])
    for row in range(low, high):
        x = row_of(vectors, row, x_buffer)
        seen[row] = row
        size = np.int64(0)
        for t in range(1, k):
            if lists[row, t] >= 0:
                seen[places[row, t]] = row
                size = heap_offer(
                    best, best_numbers, size, k - 1, list_squared[row, t], lists[row, t]
                )
        for t in range(searched.shape[1]):
            if searched[row, t] >= 0:
                row_of_cell[searched[row, t]] = row
        count = list_candidates(
            row,
            places,
            is_new,
            reverse,
            reverse_is_new,
            cell,
            row_of_cell,
            seen,
            candidates,
        )
        for t in range(min(_AHEAD, count)):
            fetch(_FETCHED, flat, candidates[t] * width)
        for t in range(count):
            if t + _AHEAD < count:
                fetch(_FETCHED, flat, candidates[t + _AHEAD] * width)
            candidate = candidates[t]
            squared = squared_distance(x, row_of(vectors, candidate, y_buffer))
            if size < k - 1 or squared <= best[0]:
                size = heap_offer(best, best_numbers, size, k - 1, squared, lists[candidate, 0])
        sort_heap(best, best_numbers, size)
        out_ids[row, 0] = lists[row, 0]
        out[row, 0] = 0
        out_is_new[row, 0] = 0
        for t in range(1, k):
            filled = t <= size
            number = best_numbers[t - 1] if filled else np.int32(-1)
            was_listed = False
            for s in range(1, k):
                if lists[row, s] == number:
                    was_listed = True
                    break
            out_ids[row, t] = number
            out_is_new[row, t] = not was_listed
            out[row, t] = best[t - 1] if filled else np.float32(np.inf)
