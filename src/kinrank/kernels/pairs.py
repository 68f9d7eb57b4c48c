"""Rows against each other: a tile of products is looked at once, for its rows and its columns.

What is known of rows so far is in ``records.Contenders``. A column y has the value |y|^2 - 2 xy for
the row x, in the order of its distance.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.heap import packed
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import select_rank, squared_distance

_HALVINGS = 16  # of the range of a row's values, to find what parts the nearest from the others
_SPARE = 32  # one column more in so many may be left: products are rounded
_NUMBER = 0x7FFFFFFF  # the lower half of a packed number: the column


@inner
def packed_value(key):
    """The value in a packed number; its lower half is the column."""
    bits = key >> 32
    return np.int32(bits ^ ((bits >> 63) & 0x7FFFFFFF)).view(np.float32)


@filling
def first_bounds(products, norms, first, rank, least, most, contenders):
    """Bounds and reaches of the rows first, first + 1, ... of the band, by a sample of columns.

    products : (rows, sample); norms : |y|^2 of the sample
    rank : at least so many columns of the sample are within the bound
    least, most : (groups,) room; their number divides the sample's. With fewer groups than 2 rank
        there is no bound
    """
    bounds = contenders.bounds
    reaches = contenders.reaches
    margins = contenders.margins
    two = np.float32(2)
    groups = least.shape[0]
    for row in range(products.shape[0]):
        product = products[row]
        at = first + row
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
        reaches[at] = largest - two * margins[at]
        bounds[at] = select_rank(least, rank) if 2 * rank <= groups else np.float32(np.inf)


@inner
def mark(product, norms, row_norm, bound, reach, column_bounds, column_reaches, marks):
    """Mark the columns that may be neighbours or the farthest of a row, or the row theirs.

    norms, row_norm : |y|^2 of the columns and |x|^2 of the row
    bound, reach : of the row; column_bounds, column_reaches : of the columns
    """
    two = np.float32(2)
    for t in range(product.shape[0]):
        double = two * product[t]
        value = norms[t] - double
        back = row_norm - double  # the value of the row for the column
        marks[t] = (
            (value < bound)
            | (value > reach)
            | (back < column_bounds[t])
            | (back > column_reaches[t])
        )


@inner
def marked(marks, words, filled_words, out):
    """The numbers of the marks that are set, in ``out``, without a branch; returns how many.

    marks : a byte each; words : the same, eight at a time; filled_words : room
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
    column_reaches,
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
    column_bounds, column_reaches : (columns,) of these; -inf and inf, which nothing passes, else
    keep : how many columns a row keeps at least
    marks : a byte for each column, zeros at first; words : the same, eight at a time
    filled_words, hits : room for as many as marks, and one
    """
    bounds = contenders.bounds
    reaches = contenders.reaches
    low = contenders.low[0]
    two = np.float32(2)
    for row in range(products.shape[0]):
        product = products[row]
        row_norm = row_norms[row]
        number = first_row + row
        at = number - low
        mark(
            product,
            norms,
            row_norm,
            bounds[at],
            reaches[at],
            column_bounds,
            column_reaches,
            marks,
        )
        for hit in range(marked(marks, words, filled_words, hits)):
            t = hits[hit]
            double = two * product[t]
            column = first_column + t
            value = norms[t] - double
            back = row_norm - double
            keep_near(at, packed(value, column), value < bounds[at], keep, contenders)
            if value > reaches[at]:
                keep_far(at, value, column, contenders)
            if mutual:
                wanted = back < column_bounds[t]
                keep_near(column - low, packed(back, number), wanted, keep, contenders)
                column_bounds[t] = bounds[column - low]
            if back > column_reaches[t]:
                keep_far(column - low, back, number, contenders)
                column_reaches[t] = reaches[column - low]


@inner
def keep_near(at, key, wanted, keep, contenders):
    """Keep a column, packed, for the row ``at`` of the band, if it is wanted.

    Where no more fit, the ``keep`` nearest stay and give the bound. The column is written in any
    case: whether it counts would be guessed wrong too often.
    """
    counts = contenders.counts
    nearest = contenders.nearest[at]
    nearest[counts[at]] = key
    counts[at] += np.int64(wanted)
    if counts[at] == nearest.shape[0]:
        contenders.bounds[at] = packed_value(select_rank(nearest, keep))
        counts[at] = keep


@inner
def keep_far(at, value, column, contenders):
    """Keep a column that may be the farthest of the row ``at``; drop those that no longer may."""
    reaches = contenders.reaches
    margin = contenders.margins[at]
    counts = contenders.far_counts
    farthest = contenders.farthest[at]
    count = counts[at]
    room = farthest.shape[0]
    reach = reaches[at]
    if value - margin >= reach + margin:
        count = 0  # none before can be the farthest any more
    reach = max(reach, value - margin)
    reaches[at] = reach
    if count == room:
        count = 0
        for t in range(room):
            if packed_value(farthest[t]) > reach:
                farthest[count] = farthest[t]
                count += 1
    if count < room:
        farthest[count] = packed(value, column)
    counts[at] = min(count, room) + 1


@inner
def count_below(key, keys):
    """How many keys are less."""
    count = np.int64(0)
    for t in range(keys.shape[0]):
        count += np.int64(keys[t] < key)
    return count


@inner
def least_key(keys, k):
    """A key that at least ``k`` do not exceed, and few more: halving takes no branches.

    Where many values are equal it is the largest of them.
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
        count = count_below(packed(middle, _NUMBER), keys)
        if count < k:
            low_value = middle
            continue
        high_value = middle
        high = packed(middle, _NUMBER)
        if count <= most:
            break
    return high


@filling
def choose(low, high, k, n, contenders):
    """For rows [low, high) of the band, keep the columns that may be among the ``k`` nearest.

    n : columns there are
    The bound of a row becomes infinity where no other column can be among them, else -infinity.
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

    rows : vectors; first : the number of the first; each begins its own list
    gallery : vectors of the columns
    counts, nearest : of ``records.Contenders``; the keys are overwritten
    indices, values : (n_rows, k), squared distances

    To count what is before each is quicker than to sort: it takes no branches.
    """
    k = indices.shape[1]
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        x = rows[row]
        number = first + row
        keys = nearest[row, : counts[row]]
        for t in range(keys.shape[0]):
            column = np.int32(keys[t] & _NUMBER)
            following = keys[min(t + 2, keys.shape[0] - 1)] & _NUMBER
            fetch(128, gallery, following * gallery.shape[1])
            y = row_of(gallery, column, space)
            # Before all others, whatever equals it.
            value = np.float32(-1) if column == number else squared_distance(x, y)
            keys[t] = packed(value, column)
        for t in range(keys.shape[0]):
            rank = count_below(keys[t], keys)
            if rank < k:
                indices[row, rank] = np.int32(keys[t] & _NUMBER)
                values[row, rank] = max(packed_value(keys[t]), np.float32(0))


@kernel
def settle_farthest(low, high, rows, gallery, counts, farthest, out):
    """The largest squared distance of rows [low, high), among the columns that may be the farthest.

    counts, farthest : ``far_counts`` and ``farthest`` of ``records.Contenders``; where they are too
    many, all columns are looked at
    """
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        too_many = counts[row] > farthest.shape[1]
        largest = np.float32(0)
        for t in range(gallery.shape[0] if too_many else counts[row]):
            column = t if too_many else farthest[row, t] & _NUMBER
            y = row_of(gallery, column, space)
            largest = max(largest, squared_distance(rows[row], y))
        out[row] = largest
