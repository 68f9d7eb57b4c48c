"""All rows against each other: a tile of products is looked at once, for its rows and its columns.

A search goes through the rows of a band, low, low + 1, ..., and finds for each the k nearest of all
n rows, and the farthest. A column y has the value |y|^2 - 2 xy for the row x: the squared distance
less |x|^2, and so in the same order; it is rounded, as products are. "Packed" is a value and its
column as one int64, which sorts by value, then column (``kernels/heap.py``).

What is known of rows so far is ``contenders``, a ``records.Contenders``; its arrays have an entry
for each row of the band:
    bounds : a column whose value is not below it is no neighbour
    counts, nearest : how many columns are kept, and these, packed
    far_bounds : a column whose value is not above it is not the farthest
    margins : values that differ by less may be the other way round
    far_counts, farthest : columns that may be the farthest, packed; a count beyond the capacity
        says that there were too many

    first_bounds, scan_pairs, choose, arrange, settle_farthest   are called in this order

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.heap import packed
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import select_rank, squared_distance

_HALVINGS = 16  # at most, of the range of a row's values, to find the value of the k-th nearest
_SPARE = 32  # keep one spare candidate in 32: fewer halvings
_COLUMN = 0x7FFFFFFF  # the bits of a packed pair that are the column


@inner
def packed_value(key):
    """The value of a packed pair."""
    bits = key >> 32
    return np.int32(bits ^ ((bits >> 63) & 0x7FFFFFFF)).view(np.float32)


@filling
def first_bounds(products, norms, first, rank, least, most, contenders):
    """Set bounds and far_bounds of the band's rows first, first + 1, ..., by a sample of columns.

    products : (rows, sample) xy; norms : (sample,) |y|^2
    rank : at least so many columns of the sample have a value within the bound
    least, most : (groups,) scratch; their number divides the sample's. With fewer groups than 2
        rank there is no bound
    """
    bounds = contenders.bounds
    far_bounds = contenders.far_bounds
    margins = contenders.margins
    two = np.float32(2)
    groups = least.shape[0]
    for row in range(products.shape[0]):
        product = products[row]
        band_row = first + row
        largest = np.float32(-np.inf)
        for t in range(groups):
            value = norms[t] - two * product[t]
            least[t] = value
            most[t] = value
        for begin in range(groups, product.shape[0], groups):
            part_products = product[begin : begin + groups]
            part_norms = norms[begin : begin + groups]
            for t in range(groups):
                value = part_norms[t] - two * part_products[t]
                least[t] = value if value < least[t] else least[t]
                most[t] = value if value > most[t] else most[t]
        for t in range(groups):
            largest = max(largest, most[t])
        far_bounds[band_row] = largest - two * margins[band_row]
        bounds[band_row] = select_rank(least, rank) if 2 * rank <= groups else np.float32(np.inf)


@inner
def mark(product, norms, row_norm, bound, far_bound, column_bounds, column_far_bounds, marks):
    """Mark the columns that may be neighbours or the farthest of a row, or the row theirs.

    product, norms, row_norm : xy and |y|^2 of the columns, and |x|^2 of the row
    bound, far_bound : of the row; column_bounds, column_far_bounds : of the columns, as rows of the
        band
    marks : a byte for each column, the output
    """
    two = np.float32(2)
    for t in range(product.shape[0]):
        double = two * product[t]
        value = norms[t] - double
        back = row_norm - double  # the value of the row for the column
        marks[t] = (
            (value < bound)
            | (value > far_bound)
            | (back < column_bounds[t])
            | (back > column_far_bounds[t])
        )


@inner
def marked(marks, words, filled_words, out):
    """The columns that are marked, written to ``out``, without a branch; returns how many.

    marks : a byte each; words : the same memory, eight bytes at a time; filled_words : scratch
    """
    filled = np.int64(0)
    for word in range(words.shape[0]):
        filled_words[filled] = word
        filled += np.int64(words[word] != 0)
    count = np.int64(0)
    for f in range(filled):
        for t in range(8):
            out[count] = 8 * filled_words[f] + t
            count += np.int64(marks[8 * filled_words[f] + t])
    return count


@filling
def scan_pairs(
    products,
    norms,
    first_column,
    row_norms,
    first_row,
    mutual,
    column_bounds,
    column_far_bounds,
    keep,
    marks,
    words,
    filled_words,
    hits,
    contenders,
):
    """Offer the columns of a tile to its rows, and its rows to its columns.

    products : (rows, columns) float32, xy; norms, row_norms : |y|^2 and |x|^2
    first_column, first_row : the numbers of the first column and row
    mutual : whether the columns are rows of the band too, and look for neighbours
    column_bounds, column_far_bounds : (columns,) bounds and far_bounds of the columns; where they
        look for nothing, -inf and inf, which no value passes
    keep : how many columns a row keeps at least
    marks : (columns,) uint8 scratch, zeros at first; words : the same memory, eight at a time
    filled_words, hits : scratch, one entry longer than ``words`` and ``marks``
    """
    bounds = contenders.bounds
    far_bounds = contenders.far_bounds
    low = contenders.low[0]
    two = np.float32(2)
    for row in range(products.shape[0]):
        product = products[row]
        row_norm = row_norms[row]
        number = first_row + row
        band_row = number - low
        mark(
            product,
            norms,
            row_norm,
            bounds[band_row],
            far_bounds[band_row],
            column_bounds,
            column_far_bounds,
            marks,
        )
        for hit in range(marked(marks, words, filled_words, hits)):
            t = hits[hit]
            double = two * product[t]
            column = first_column + t
            value = norms[t] - double
            back = row_norm - double
            keep_near(band_row, packed(value, column), value < bounds[band_row], keep, contenders)
            if value > far_bounds[band_row]:
                keep_far(band_row, value, column, contenders)
            if mutual:
                wanted = back < column_bounds[t]
                keep_near(column - low, packed(back, number), wanted, keep, contenders)
                column_bounds[t] = bounds[column - low]
            if back > column_far_bounds[t]:
                keep_far(column - low, back, number, contenders)
                column_far_bounds[t] = far_bounds[column - low]


@inner
def keep_near(band_row, key, wanted, keep, contenders):
    """Keep a column for a row of the band, if it is wanted.

    band_row : the row, counted from ``low``; key : the column, packed; wanted : bool
    When the list is full, the ``keep`` nearest are moved to its front, and the last of these is the
    new bound. The column is written in any case: a branch would be mispredicted too often.
    """
    counts = contenders.counts
    nearest = contenders.nearest[band_row]
    nearest[counts[band_row]] = key
    counts[band_row] += np.int64(wanted)
    if counts[band_row] == nearest.shape[0]:
        contenders.bounds[band_row] = packed_value(select_rank(nearest, keep))
        counts[band_row] = keep


@inner
def keep_far(band_row, value, column, contenders):
    """Keep a column that may be the farthest of a row of the band; drop those that no longer may.

    The bound becomes the largest value so far less the margin of rounding.
    band_row : the row, counted from ``low``; value, column : what is offered
    """
    far_bounds = contenders.far_bounds
    margin = contenders.margins[band_row]
    counts = contenders.far_counts
    farthest = contenders.farthest[band_row]
    count = counts[band_row]
    capacity = farthest.shape[0]
    far_bound = far_bounds[band_row]
    if value - margin >= far_bound + margin:
        count = 0  # none before can be the farthest any more
    far_bound = max(far_bound, value - margin)
    far_bounds[band_row] = far_bound
    if count == capacity:
        count = 0
        for t in range(capacity):
            if packed_value(farthest[t]) > far_bound:
                farthest[count] = farthest[t]
                count += 1
    if count < capacity:
        farthest[count] = packed(value, column)
    counts[band_row] = min(count, capacity) + 1


@inner
def count_below(key, keys):
    """How many of ``keys`` are less than ``key``."""
    count = np.int64(0)
    for t in range(keys.shape[0]):
        count += np.int64(keys[t] < key)
    return count


@inner
def least_key(keys, k):
    """A packed pair that at least ``k`` of ``keys`` do not exceed, and few more than ``k``.

    Found by halving the range of values, which takes no branches. Where many values are equal it is
    the largest of them.
    keys : (m,) int64, packed pairs, m at least ``k``
    """
    low = keys[0]
    high = keys[0]
    for t in range(keys.shape[0]):
        low = min(low, keys[t])
        high = max(high, keys[t])
    low_value = packed_value(low)
    high_value = packed_value(high)
    most = k + k // _SPARE
    for _ in range(_HALVINGS):
        middle = low_value + (high_value - low_value) / 2
        count = count_below(packed(middle, _COLUMN), keys)
        if count < k:
            low_value = middle
            continue
        high_value = middle
        high = packed(middle, _COLUMN)
        if count <= most:
            break
    return high


@filling
def choose(low, high, k, n, contenders):
    """Of each row, keep the columns that may be among the ``k`` nearest.

    low, high : rows, counted from the first of the band; n : how many columns there are
    ``bounds`` then says what ``settle`` takes: infinity, the columns that are kept are enough, or
    -infinity, all columns must be compared.
    """
    bounds = contenders.bounds
    counts = contenders.counts
    margins = contenders.margins
    for row in range(low, high):
        nearest = contenders.nearest[row]
        count = counts[row]
        limit = np.float32(np.inf)
        if count > k:
            limit = packed_value(least_key(nearest[:count], k)) + margins[row]
        size = np.int64(0)
        for t in range(count):
            key = nearest[t]
            nearest[size] = key
            size += np.int64(packed_value(key) <= limit)
        counts[row] = size
        sure = count == n or (count > k and limit < bounds[row])
        bounds[row] = np.float32(np.inf if sure else -np.inf)


@kernel
def arrange(low, high, rows, first, gallery, counts, nearest, indices, values):
    """The first k of the columns that ``choose`` left, ascending by (exact distance, number).

    rows : (rows, d) vectors of the band; first : the number of the first; each begins its own list
    gallery : (n, d) vectors of the columns
    counts, nearest : of ``contenders``; the pairs are overwritten
    indices, values : (rows, k) numbers and squared distances, the output

    To count what is before each is quicker than to sort: it takes no branches.
    """
    k = indices.shape[1]
    buffer = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        x = rows[row]
        number = first + row
        keys = nearest[row, : counts[row]]
        for t in range(keys.shape[0]):
            column = np.int32(keys[t] & _COLUMN)
            next_column = keys[min(t + 2, keys.shape[0] - 1)] & _COLUMN
            fetch(128, gallery, next_column * gallery.shape[1])
            y = row_of(gallery, column, buffer)
            # Before all others, whatever equals it.
            value = np.float32(-1) if column == number else squared_distance(x, y)
            keys[t] = packed(value, column)
        for t in range(keys.shape[0]):
            rank = count_below(keys[t], keys)
            if rank < k:
                indices[row, rank] = np.int32(keys[t] & _COLUMN)
                values[row, rank] = max(packed_value(keys[t]), np.float32(0))


@kernel
def settle_farthest(low, high, rows, gallery, counts, farthest, out):
    """The largest squared distance of rows [low, high), among the columns that may be the farthest.

    rows, gallery : vectors of the rows and of the columns
    counts, farthest : ``far_counts`` and ``farthest`` of ``contenders``; where they are too many,
        all columns are looked at
    out : (rows,) float32, the output
    """
    buffer = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        too_many = counts[row] > farthest.shape[1]
        largest = np.float32(0)
        for t in range(gallery.shape[0] if too_many else counts[row]):
            column = t if too_many else farthest[row, t] & _COLUMN
            y = row_of(gallery, column, buffer)
            largest = max(largest, squared_distance(rows[row], y))
        out[row] = largest
