"""Products of rows in 16 bits: which of many rows may be the nearest of each query.

A row x is kept as whole numbers, 16 bits each (``search/short.py`` scales them so that no sum
leaves 32 bits). The nearest y of a query x have the largest x y - |y|^2 / 2. These scores are whole
numbers too, so they are the same on every processor and in every order of summing.

Rows that queries are compared with are kept in panels of LANES: for each pair of columns the two
numbers of every row of the panel, one row behind the other. TILE queries meet a panel at a time.

A reservoir keeps the best of what a query is offered; when it is full only so many stay as are
wanted. A key is a score and the place of a row in one number, smaller for a larger score.

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from kinrank.kernels.gather import fetch, generated
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.stored import row_of
from kinrank.kernels.topk import select_rank

LANES = 16  # rows of a panel
TILE = 12  # queries that are compared with a panel at a time
NO_LIMIT = -(2**31)
_QUERIES = 480  # that meet
_PANELS = 16  # at a time
_AHEAD = 64  # pairs of columns that the memory is asked for before they are read
_PLACE = np.int64(0xFFFFFFFF)  # the lower half of a key

_INT16 = ir.IntType(16)
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)


def _emit_scores(
    builder: Any,
    tile: int,
    pairs: Any,
    ids: Any,
    x: Any,
    panels: Any,
    panel: Any,
    halves: Any,
    limits: Any,
    scores: Any,
    above: Any,
) -> None:
    """``panel_scores`` as LLVM instructions: the sums of all queries stay in registers."""
    sums_type = ir.VectorType(_INT32, LANES)
    pair_type = ir.VectorType(_INT16, 2 * LANES)
    undefined = ir.Constant(sums_type, ir.Undefined)

    def at(pointer: Any, offset: Any, kind: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [offset]), ir.PointerType(kind))

    def shuffled(vector: Any, elements: Any) -> Any:
        mask = ir.Constant(ir.VectorType(_INT32, len(elements)), list(elements))
        return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    def number(value: int) -> Any:
        return ir.Constant(_INT64, value)

    first = builder.mul(panel, number(LANES))
    start = builder.load(at(halves, first, sums_type), align=4)
    width = builder.mul(pairs, number(2))
    base = at(panels, builder.mul(first, width), pair_type)
    rows = []
    for t in range(tile):
        row = builder.zext(builder.load(builder.gep(ids, [number(t)])), _INT64)
        rows.append(at(x, builder.mul(row, width), _INT32))
    entry_block = builder.block
    loop_block = builder.append_basic_block()
    exit_block = builder.append_basic_block()
    builder.branch(loop_block)
    builder.position_at_end(loop_block)
    pair = builder.phi(_INT64)
    sums = [builder.phi(sums_type) for _ in range(tile)]
    wide = ir.VectorType(_INT32, 2 * LANES)
    y = builder.sext(builder.load(builder.gep(base, [pair]), align=2), wide)
    new_sums = []
    for row, total in zip(rows, sums, strict=True):
        both = builder.load(builder.gep(row, [pair]), align=2)
        both = builder.insert_element(undefined, both, ir.Constant(_INT32, 0))
        both = builder.bitcast(shuffled(both, [0] * LANES), pair_type)
        # A product of all, of which neighbours are added: one instruction of the processor.
        products = builder.mul(builder.sext(both, wide), y)
        even = shuffled(products, range(0, 2 * LANES, 2))
        odd = shuffled(products, range(1, 2 * LANES, 2))
        new_sums.append(builder.add(total, builder.add(even, odd)))
    following = builder.add(pair, number(1))
    pair.add_incoming(number(0), entry_block)
    pair.add_incoming(following, loop_block)
    for total, new_total in zip(sums, new_sums, strict=True):
        total.add_incoming(start, entry_block)
        total.add_incoming(new_total, loop_block)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop_block, exit_block)
    builder.position_at_end(exit_block)
    for t, total in enumerate(new_sums):
        limit = builder.load(builder.gep(limits, [number(t)]))
        limit = shuffled(builder.insert_element(undefined, limit, ir.Constant(_INT32, 0)), [0] * 16)
        found = builder.bitcast(builder.icmp_signed(">", total, limit), ir.IntType(LANES))
        builder.store(builder.zext(found, _INT32), builder.gep(above, [number(t)]))
        builder.store(total, at(scores, number(LANES * t), sums_type), align=4)


@generated(_emit_scores)
def panel_scores(tile, pairs, ids, x, panels, panel, halves, limits, scores, above):
    """The scores x y - |y|^2 / 2 of ``tile`` queries x with the rows y of a panel.

    tile : a constant; pairs : half the columns
    ids : (tile,) int32, the rows of ``x`` that are the queries; x : (n, 2 pairs) int16
    panels, panel : (n_panels, LANES 2 pairs) int16, and the number of one of them
    halves : (n_panels, LANES) int32, -|y|^2 / 2
    limits : (tile,) int32
    scores, above : (tile LANES,) and (tile,) int32, the output: the scores, and bits that tell
        which of them are above the limit of the query
    """
    lanes = panels[panel].reshape(pairs, LANES, 2).astype(np.int64)
    for t in range(tile):
        query = x[ids[t]].reshape(pairs, 1, 2).astype(np.int64)
        total = halves[panel] + (lanes * query).sum(axis=2).sum(axis=0)
        scores[t * LANES : (t + 1) * LANES] = total
        above[t] = ((total > limits[t]) << np.arange(LANES)).sum()


@inner
def shorten_row(row, origin, longest, factor, out):
    """A row in 16 bits: what it differs from the origin, times ``factor``; its squared length.

    row, origin : (d,) float32; out : (width,) int16, the output, zeros behind the last column
    longest : rows that are farther from it are drawn in to this distance
    """
    total = 0.0
    for t in range(row.shape[0]):
        difference = np.float64(row[t]) - origin[t]
        total += difference * difference
    if total > longest * longest:
        factor *= longest / np.sqrt(total)
    squared = np.int64(0)
    for t in range(out.shape[0]):
        number = np.int64(0)
        if t < row.shape[0]:
            number = np.int64(np.rint((np.float64(row[t]) - origin[t]) * factor))
        out[t] = number
        squared += number * number
    return squared


@kernel
def shorten(low, high, vectors, origin, longest, factor, out):
    """The rows [low, high) in 16 bits, as ``shorten_row`` has them; out : (n, width) int16."""
    buffer = np.empty(vectors.shape[1], np.float32)
    for row in range(low, high):
        shorten_row(row_of(vectors, row, buffer), origin, longest, factor, out[row])


@kernel
def make_panels(low, high, rows, vectors, origin, longest, factor, panels, halves):
    """The panels [low, high): rows in 16 bits, as ``shorten_row`` has them, and their halves.

    rows : (n_panels, LANES) int32, the row of ``vectors`` in each lane, -1 for none
    panels, halves : (n_panels, LANES width) int16 and (n_panels, LANES) int32, the output; a lane
        without a row has a score that exceeds no limit
    """
    buffer = np.empty(vectors.shape[1], np.float32)
    short = np.empty(panels.shape[1] // LANES, np.int16)
    for panel in range(low, high):
        for lane in range(LANES):
            row = rows[panel, lane]
            if row < 0:
                short[:] = 0
                halves[panel, lane] = NO_LIMIT
            else:
                x = row_of(vectors, row, buffer)
                squared = shorten_row(x, origin, longest, factor, short)
                halves[panel, lane] = -((squared + 1) // 2)
            for pair in range(short.shape[0] // 2):
                at = 2 * (LANES * pair + lane)
                panels[panel, at] = short[2 * pair]
                panels[panel, at + 1] = short[2 * pair + 1]


@inner
def keep_best(keys, size, count):
    """Move the ``count`` smallest of the first ``size`` keys to the front; the largest of them."""
    last = select_rank(keys[:size], count)
    kept = np.int64(0)
    for t in range(size):
        key = keys[t]
        if key <= last:
            keys[kept] = key
            kept += 1
    return last


@inner
def scan_panels(queries, x, panels, halves, first, last, count, limits, sizes, keys, scratch):
    """Offer the rows of the panels [first, last) to the reservoirs of some queries.

    queries : (m,) int32, which rows of ``x`` they are; x, panels, halves : as in ``panel_scores``
    count : keys that a reservoir keeps
    limits, sizes, keys : (n,) int32, (n,) int32 and (n, count + LANES or more) int64: the score
        that a row must exceed, and the reservoir, of each row of ``x``
    scratch : (LANES + 3, TILE) int32
    """
    pairs = x.shape[1] // 2
    words = x.view(np.int32).reshape(x.shape[0] * pairs)
    ids = scratch[0]
    tile_limits = scratch[1]
    above = scratch[2]
    scores = scratch[3:]  # read flat: TILE times LANES
    flat = scores.reshape(TILE * LANES)
    for begin in range(0, queries.shape[0], TILE):
        n_tile = min(TILE, queries.shape[0] - begin)
        for t in range(TILE):
            query = queries[begin + min(t, n_tile - 1)]
            ids[t] = query
            tile_limits[t] = limits[query]
        for following in queries[begin + TILE : begin + 2 * TILE]:
            fetch(_AHEAD, words, np.int64(following) * pairs)
        for panel in range(first, last):
            panel_scores(TILE, pairs, ids, x, panels, panel, halves, tile_limits, flat, above)
            for t in range(n_tile):
                bits = above[t]
                if bits == 0:
                    continue
                query = ids[t]
                size = np.int64(sizes[query])
                while bits != 0:
                    lowest = bits & -bits
                    bits ^= lowest
                    # The exponent of a power of two says which it is.
                    lane = (np.float32(lowest).view(np.int32) >> 23) - 127
                    place = np.int64(panel) * LANES + lane
                    keys[query, size] = (-np.int64(flat[LANES * t + lane]) << 32) | place
                    size += 1
                if size > keys.shape[1] - LANES:
                    last_key = keep_best(keys[query], size, count)
                    tile_limits[t] = -np.int32(last_key >> 32)
                    limits[query] = tile_limits[t]
                    size = np.int64(count)
                sizes[query] = size


@kernel
def rows_by_cell(cells, n_cells):
    """Which rows name each cell: where those of each begin, (n_cells + 1,), and the rows, int32.

    cells : (m, any) int32, the cells that each row names, -1 for none
    """
    starts = np.zeros(n_cells + 1, np.int64)
    for row in range(cells.shape[0]):
        for t in range(cells.shape[1]):
            if cells[row, t] >= 0:
                starts[cells[row, t] + 1] += 1
    for cell in range(n_cells):
        starts[cell + 1] += starts[cell]
    ends = starts[:-1].copy()
    rows = np.empty(starts[-1], np.int32)
    for row in range(cells.shape[0]):
        for t in range(cells.shape[1]):
            cell = cells[row, t]
            if cell >= 0:
                rows[ends[cell]] = row
                ends[cell] += 1
    return starts, rows


@kernel
def scan_cells(starts, queries, x, panels, halves, firsts, count, limits, sizes, keys):
    """Offer the rows of each cell to the queries that name it; arguments as of ``scan_panels``.

    starts, queries : of ``rows_by_cell``; firsts : (n_cells + 1,) the first panel of each cell
    """
    scratch = np.empty((LANES + 3, TILE), np.int32)
    for cell in range(starts.shape[0] - 1):
        few = queries[starts[cell] : starts[cell + 1]]
        first = firsts[cell]
        last = firsts[cell + 1]
        scan_panels(few, x, panels, halves, first, last, count, limits, sizes, keys, scratch)


@kernel
def scan_all(x, panels, halves, count, limits, sizes, keys):
    """Offer the rows of all panels to every query; arguments as of ``scan_panels``.

    A few of each at a time, so that both stay in the caches.
    """
    scratch = np.empty((LANES + 3, TILE), np.int32)
    n = x.shape[0]
    for begin in range(0, n, _QUERIES):
        few = np.arange(begin, min(begin + _QUERIES, n)).astype(np.int32)
        for first in range(0, panels.shape[0], _PANELS):
            last = min(first + _PANELS, panels.shape[0])
            scan_panels(few, x, panels, halves, first, last, count, limits, sizes, keys, scratch)


@kernel
def limits_of(count, sizes, keys, limits):
    """Set the limits of queries so that the ``count`` best of their reservoirs just exceed them.

    sizes, keys : reservoirs; limits : (n,) int32, left as it is where they hold fewer
    """
    for query in range(limits.shape[0]):
        if sizes[query] >= count:
            last = select_rank(keys[query, : sizes[query]], count)
            limits[query] = -np.int32(last >> 32) - 1


@kernel
def best_places(rows, count, sizes, keys, out):
    """The rows at the best places of each reservoir, the very best first and others in any order.

    rows : (n_panels, LANES) int32, the row in each lane
    out : (n, count) int32, the output, -1 behind the last
    """
    flat = rows.reshape(rows.size)
    for query in range(out.shape[0]):
        size = np.int64(sizes[query])
        if size > count:
            keep_best(keys[query], size, count)
            size = np.int64(count)
        for t in range(1, size):
            if keys[query, t] < keys[query, 0]:
                best = keys[query, t]
                keys[query, t] = keys[query, 0]
                keys[query, 0] = best
        for t in range(count):
            out[query, t] = flat[keys[query, t] & _PLACE] if t < size else -1
