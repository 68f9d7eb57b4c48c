"""Rows against each other: a tile of products is looked at once, for its rows and its columns.

What is known of rows so far is their ``race``, a tuple of arrays with something for each row:

bounds : columns whose |y|^2 - 2 xy is not below it are no neighbours
counts, nearest : how many columns are kept, and these as numbers of ``heap.packed``
reaches : columns whose |y|^2 - 2 xy is not above it are not the farthest
margins : values nearer to each other than this may be the other way round, as products are rounded
far_counts, farthest : columns that may be the farthest, packed; a count beyond the room: too many
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.heap import packed
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import select_rank, squared_distance

_HALVINGS = 16  # of the values of a row's columns, to find what parts the nearest from the others
_FEW_MORE = 32  # one of so many more than must be are left


@inner
def packed_value(key):
    """The value in a packed number; its lower half is the row."""
    bits = key >> 32
    return np.int32(bits ^ ((bits >> 63) & 0x7FFFFFFF)).view(np.float32)


@filling
def first_bounds(products, norms, first, rank, space, race):
    """Bounds and reaches of the rows from ``first`` on, by a sample of columns.

    products : (rows, sample); norms : of the sample
    rank : as many columns of the sample are within the bound, at least
    space : (2, groups), whose number divides the sample's; with too few groups there is no bound
    """
    bounds = race[0]
    reaches = race[3]
    margins = race[4]
    least = space[0]
    most = space[1]
    two = np.float32(2)
    groups = least.shape[0]
    for row in range(products.shape[0]):
        product = products[row]
        at = first + row
        top = np.float32(-np.inf)
        for t in range(groups):
            least[t] = most[t] = norms[t] - two * product[t]
        for begin in range(groups, product.shape[0], groups):
            part = product[begin : begin + groups]
            own = norms[begin : begin + groups]
            for t in range(groups):
                value = own[t] - two * part[t]
                least[t] = value if value < least[t] else least[t]
                most[t] = value if value > most[t] else most[t]
        for t in range(groups):
            top = max(top, most[t])
        reaches[at] = top - two * margins[at]
        bounds[at] = select_rank(least, rank) if 2 * rank <= groups else np.float32(np.inf)


@inner
def mark(product, norms, norm, bound, reach, edges, marks):
    """Which columns tell something new, to the row or of it."""
    nearer = edges[0]
    farther = edges[1]
    two = np.float32(2)
    for t in range(product.shape[0]):
        double = two * product[t]
        value = norms[t] - double
        back = norm - double
        marks[t] = (value < bound) | (value > reach) | (back < nearer[t]) | (back > farther[t])


@inner
def marked(marks, words, some, out):
    """The numbers of marks that are set, without a branch; returns how many."""
    filled = np.int64(0)
    for word in range(words.shape[0]):
        some[filled] = word
        filled += np.int64(words[word] != 0)
    count = np.int64(0)
    for s in range(filled):
        for t in range(8):
            out[count] = 8 * some[s] + t
            count += np.int64(marks[8 * some[s] + t])
    return count


@filling
def scan_pairs(products, norms, first, own, own_first, both, edges, keep, marks, words, hits, race):
    """Offer |y|^2 - 2 xy of a tile to its rows, and |x|^2 - 2 xy to its columns.

    products : (rows, columns) float32, xy; norms, own : |y|^2 and |x|^2; first, own_first : the
        numbers of the first column and row
    both : whether columns race too
    edges : (2, columns) bounds and reaches of columns; none can pass where these do not race
    keep : how many columns a row keeps at least
    marks : a byte for each column, zeros at first; words : the same, eight at a time
    hits : (2, as many as marks and one)
    """
    bounds = race[0]
    reaches = race[3]
    start = race[7][0]
    two = np.float32(2)
    for row in range(products.shape[0]):
        product = products[row]
        norm = own[row]
        number = own_first + row
        at = number - start
        mark(product, norms, norm, bounds[at], reaches[at], edges, marks)
        for hit in range(marked(marks, words, hits[0], hits[1])):
            t = hits[1, hit]
            double = two * product[t]
            key = first + t
            value = norms[t] - double
            back = norm - double
            keep_near(at, packed(value, key), value < bounds[at], keep, race)
            if value > reaches[at]:
                keep_far(at, value, key, race)
            if both:
                keep_near(key - start, packed(back, number), back < edges[0, t], keep, race)
                edges[0, t] = bounds[key - start]
            if back > edges[1, t]:
                keep_far(key - start, back, number, race)
                edges[1, t] = reaches[key - start]


@inner
def keep_near(at, key, wanted, keep, race):
    """Keep a column if it is wanted; where no more fit, the ``keep`` nearest give the bound.

    It is written in any case: whether it counts would be guessed wrong too often.
    """
    counts = race[1]
    nearest = race[2][at]
    nearest[counts[at]] = key
    counts[at] += np.int64(wanted)
    if counts[at] == nearest.shape[0]:
        race[0][at] = packed_value(select_rank(nearest, keep))
        counts[at] = keep


@inner
def keep_far(at, value, number, race):
    """Keep a column that may be the farthest, and drop those that no longer may."""
    reaches = race[3]
    margin = race[4][at]
    counts = race[5]
    farthest = race[6][at]
    count = counts[at]
    room = farthest.shape[0]
    reach = reaches[at]
    if value - margin >= reach + margin:
        count = 0  # all before are out of the race
    reaches[at] = reach = max(reach, value - margin)
    if count == room:
        count = 0
        for t in range(room):
            if packed_value(farthest[t]) > reach:
                farthest[count] = farthest[t]
                count += 1
    if count < room:
        farthest[count] = packed(value, number)
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

    Where many are alike it is the largest of them.
    """
    low = high = keys[0]
    for t in range(keys.shape[0]):
        low = min(low, keys[t])
        high = max(high, keys[t])
    near = packed_value(low)
    far = packed_value(high)
    most = k + k // _FEW_MORE
    for _ in range(_HALVINGS):
        middle = near + (far - near) / 2
        count = count_below(packed(middle, 0x7FFFFFFF), keys)
        if count < k:
            near = middle
            continue
        far = middle
        high = packed(middle, 0x7FFFFFFF)
        if count <= most:
            break
    return high


@filling
def choose(low, high, k, n, race):
    """Leave the columns that may be among the ``k`` nearest; bounds below which others cannot be.

    n : columns there are. Where a row's bound is -inf afterwards, any column may be.
    """
    bounds = race[0]
    counts = race[1]
    margins = race[4]
    for row in range(low, high):
        nearest = race[2][row]
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
    """The first k of the columns that were chosen, ascending by (exact distance, number).

    first : the number of the first row; each begins its own list
    counts, nearest : of ``choose``, which become other numbers

    To count what is before each is quicker than to sort: it takes no branches.
    """
    k = indices.shape[1]
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        x = rows[row]
        name = first + row
        keys = nearest[row, : counts[row]]
        for t in range(keys.shape[0]):
            j = np.int32(keys[t] & 0x7FFFFFFF)
            later = keys[min(t + 2, keys.shape[0] - 1)] & 0x7FFFFFFF
            fetch(128, gallery, later * gallery.shape[1])
            y = row_of(gallery, j, space)
            # Before all others, whatever equals it.
            value = np.float32(-1) if j == name else squared_distance(x, y)
            keys[t] = packed(value, j)
        for t in range(keys.shape[0]):
            rank = count_below(keys[t], keys)
            if rank < k:
                indices[row, rank] = np.int32(keys[t] & 0x7FFFFFFF)
                values[row, rank] = max(packed_value(keys[t]), np.float32(0))


@kernel
def settle_farthest(low, high, rows, gallery, counts, farthest, out):
    """The largest distance to the columns that may be the farthest; to all if they are too many."""
    space = np.empty(gallery.shape[1], np.float32)
    for row in range(low, high):
        many = counts[row] > farthest.shape[1]
        largest = np.float32(0)
        for t in range(gallery.shape[0] if many else counts[row]):
            j = t if many else farthest[row, t] & 0x7FFFFFFF
            y = row_of(gallery, j, space)
            largest = max(largest, squared_distance(rows[row], y))
        out[row] = largest
