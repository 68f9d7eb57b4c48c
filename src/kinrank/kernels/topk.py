"""Selection of the smallest: heaps of (value, id), and candidates from products of vectors.

A max-heap is two arrays, values and ids, of which the first ``size`` are filled; the largest
(value, id) is first. "|y|^2 - 2 xy" is the squared distance of x and y less |x|^2, and so in the
same order for one x.

Functions under ``kernel`` and ``summing`` are called from Python, those under ``inner`` by kernels;
the sums of ``summing`` may be regrouped (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel, summing

CHUNK = 32  # columns that are looked at together
GROUPS = 512  # of columns, at most, whose minima give a first bound
FEW_GROUPS = 32  # of columns, at least, where there are fewer columns


@summing
def squared_distance(x, y):
    """Sum of (x - y)^2 of float32 vectors: 0 for equal ones, and the same bits in every kernel."""
    total = np.float32(0)
    for t in range(x.shape[0]):
        difference = x[t] - y[t]
        total += difference * difference
    return total


@inner
def sift_down(values, ids, slot, size):
    """Restore a max-heap by (value, id) whose entry ``slot`` may be smaller than those below it.

    values, ids : the heap, of which the first ``size`` are filled
    """
    value = values[slot]
    key = ids[slot]
    while True:
        child = 2 * slot + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            values[right] > values[child]
            or (values[right] == values[child] and ids[right] > ids[child])
        ):
            child = right
        if values[child] < value or (values[child] == value and ids[child] < key):
            break
        values[slot] = values[child]
        ids[slot] = ids[child]
        slot = child
    values[slot] = value
    ids[slot] = key


@inner
def sort_heap(values, ids, size):
    """Turn a max-heap of ``size`` into arrays that ascend by (value, id)."""
    for end in range(size - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        ids[0], ids[end] = ids[end], ids[0]
        sift_down(values, ids, 0, end)


@inner
def heap_offer(values, ids, size, capacity, value, key):
    """Keep (value, key) in a max-heap if it is among the ``capacity`` smallest.

    values, ids, size : the heap, and how many it holds; value, key : what is offered, with its id
    Returns the new size.
    """
    if size < capacity:
        slot = size
        values[slot] = value
        ids[slot] = key
        while slot > 0:
            parent = (slot - 1) // 2
            if values[parent] < value or (values[parent] == value and ids[parent] < key):
                values[slot] = values[parent]
                ids[slot] = ids[parent]
                slot = parent
            else:
                break
        values[slot] = value
        ids[slot] = key
        return size + 1
    if value < values[0] or (value == values[0] and key < ids[0]):
        values[0] = value
        ids[0] = key
        sift_down(values, ids, 0, capacity)
    return size


@inner
def move_less(values, low, high, pivot, equal):
    """Move the values of values[low:high] below ``pivot`` to the front; returns where they end.

    equal : whether those equal to the pivot are moved too
    Every value is swapped, and stays if it counts: a branch would be guessed wrong too often.
    """
    end = low
    for t in range(low, high):
        value = values[t]
        values[t] = values[end]
        values[end] = value
        end += np.int64(value <= pivot) if equal else np.int64(value < pivot)
    return end


@inner
def select_rank(values, rank):
    """The ``rank``-th smallest value, counted from 1 (quickselect).

    values : (m,) float32, reordered: no value behind values[rank - 1] is smaller than it
    rank : 1 to m
    """
    low = np.int64(0)
    high = np.int64(values.shape[0])
    target = rank - 1
    while high - low > 1:
        pivot = values[(low + high) // 2]
        end = move_less(values, low, high, pivot, False)
        if target < end:
            high = end
            continue
        low = end
        end = move_less(values, end, high, pivot, True)
        if target < end:
            break
        low = max(end, low + 1)  # a NaN equals nothing: go on by one, or the loop never ends
    return values[target]


@inner
def first_bound(product, norms, least, rank):
    """A value that at least ``rank`` of |y|^2 - 2 xy do not exceed: a bound by group minima.

    It is the rank-th smallest minimum. Group g has the columns g, g + groups, ..., so that minima
    are taken eight at a time; with 512 groups the bound lets through hardly more than it must,
    which spares the heap most of its work.
    product, norms : (columns,) float32, xy and |y|^2; least : (groups,) float32
        scratch
    """
    two = np.float32(2)
    groups = least.shape[0]
    for t in range(groups):
        least[t] = norms[t] - two * product[t]
    for begin in range(groups, product.shape[0] - groups + 1, groups):
        part_products = product[begin : begin + groups]
        part_norms = norms[begin : begin + groups]
        for t in range(part_products.shape[0]):
            value = part_norms[t] - two * part_products[t]
            least[t] = value if value < least[t] else least[t]
    return select_rank(least, rank)


@kernel
def scan_products(low, high, products, norms, first, heap_values, heap_ids, sizes):
    """Offer |y|^2 - 2 xy of one tile of columns y to the heaps of its rows x, for rows [low, high).

    products : (rows, columns) float32, xy
    norms : (columns,) float32, |y|^2
    first : number of the tile's first column
    heap_values, heap_ids : (rows, capacity) max-heaps of values and column numbers
    sizes : (rows,) how full they are

    Most chunks hold nothing new; one branch-free look tells.
    """
    capacity = heap_values.shape[1]
    columns = products.shape[1]
    two = np.float32(2)
    groups = GROUPS
    while groups > FEW_GROUPS and columns < 4 * groups:
        groups //= 2
    bounded = 2 * capacity <= groups and columns >= 4 * groups
    least = np.empty(groups, np.float32)
    for row in range(low, high):
        values = heap_values[row]
        ids = heap_ids[row]
        product = products[row]
        size = sizes[row]
        worst = values[0] if size == capacity else np.float32(np.inf)
        if size == 0 and bounded:
            bound = first_bound(product, norms, least, capacity)
            worst = np.nextafter(bound, worst)
        for begin in range(0, columns, CHUNK):
            end = min(begin + CHUNK, columns)
            if end - begin == CHUNK:
                hits = np.int32(0)
                for t in range(begin, begin + CHUNK):
                    value = norms[t] - two * product[t]
                    hits += np.int32(value < worst)
                if hits == 0:
                    continue
            for t in range(begin, end):
                value = norms[t] - two * product[t]
                if value < worst:
                    size = heap_offer(values, ids, size, capacity, value, np.int32(first + t))
                    if size == capacity:
                        worst = values[0]
        sizes[row] = size
