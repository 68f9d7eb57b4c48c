"""Diffusion of many rows side by side: the sums of ``diffuse.power_rows``, LANES rows at a time.

Rows that follow each other have much of their surroundings in common, so that one ball for all of
them costs less than one for each, and products run over lanes that vectorise. Which rows share a
ball is fixed by their numbers, or by the list of rows asked for; a shared ball holds every row's
own, so nothing is lost to it.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.diffuse import SEED_MASS, copy_ball, release, spread
from kinrank.kernels.gather import diffusion_step
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import named_space

LANES = 16


@inner
def find_balls(rows, out_ptr, out_ids, s, terms, space, reach):
    """As ``diffuse.find_ball`` for ``rows`` and all places asked for of them; the rows come first.

    out_ptr, out_ids : the places, by row
    """
    slot = space.slot
    nodes = space.touched
    mass = space.mass
    size = np.int64(0)
    for row in rows:
        slot[row] = size
        nodes[size] = row
        mass[size] = 1.0
        size += 1
    for row in rows:
        for e in range(out_ptr[row], out_ptr[row + 1]):
            node = out_ids[e]
            if slot[node] < 0:
                slot[node] = size
                nodes[size] = node
                mass[size] = SEED_MASS
                size += 1
    return spread(size, s, terms.decay, terms.floor, space, reach)


@kernel
def power_groups(low, high, rows, s, b_values, terms, out_ptr, out_ids, out, workspace):
    """``diffuse.power_rows`` for rows[low:high], LANES of them at a time; arguments as there.

    out_ptr, out_ids, out : the places and their values, by row, of all rows
    A group is LANES of ``rows`` from a multiple of LANES on; of one that begins before ``low`` or
    ends behind ``high`` only the rows in between are answered.
    The powers come in on the way, the highest first: r <- S r + binomial[t] B u + powers[T - t] e.
    """
    space = named_space(workspace)
    powers = terms.powers
    binomial = terms.binomial
    n = space.slot.shape[0]
    steps = powers.shape[0]
    room = s.ids.shape[0]
    reach = np.empty(steps // 2 + 1, np.int64)
    ptr = np.empty(n + 1, np.int64)
    ids = np.empty(room, np.int32)
    weights = np.empty(room, np.float32)
    b = np.empty(room, np.float32)
    now = np.empty((0, 2 * LANES), np.float32)  # u of each lane, then r of each
    then = np.empty((0, 2 * LANES), np.float32)
    for begin in range(low - low % LANES, high, LANES):
        group = rows[begin : begin + LANES]
        size = find_balls(group, out_ptr, out_ids, s, terms, space, reach)
        copy_ball(size, s, b_values, b_values[:0], space, ptr, ids, weights, b)
        if size > now.shape[0]:
            now = np.empty((size, 2 * LANES), np.float32)
            then = np.empty((size, 2 * LANES), np.float32)
        now[:size] = 0
        then[:size] = 0
        for lane in range(group.shape[0]):
            now[lane, lane] = 1
        for t in range(steps):
            # Farther out nothing has arrived yet, or it cannot be back in time.
            count = reach[min(t + 1, steps - 1 - t)]
            b_factor = np.float32(binomial[t])
            for v in range(count):
                diffusion_step(LANES, ptr[v], ptr[v + 1], ids, weights, b, b_factor, now, then, v)
            for lane in range(group.shape[0]):
                then[lane, LANES + lane] += np.float32(powers[steps - 1 - t])
            now, then = then, now
        for lane in range(max(low - begin, 0), min(high - begin, group.shape[0])):
            for e in range(out_ptr[group[lane]], out_ptr[group[lane] + 1]):
                out[e] = now[space.slot[out_ids[e]], LANES + lane]
        release(size, space)
