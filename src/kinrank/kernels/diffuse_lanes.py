"""Diffusion of many rows side by side: what ``diffuse.power_rows`` computes, LANES rows at a time.

Row i of F, the similarity diffused over the normalised graph S (n x n, sparse, symmetric), is a
polynomial of S times the unit vector of i, of which only some entries are asked for. Weight that
leaves the surroundings of the row and of these entries is next to nothing, so the polynomial runs
over the part of S inside them, a ball. Rows that follow each other have much of their surroundings
in common, so that one ball for all of them costs less than one for each, and products run over
lanes that vectorise. Which rows share a ball is fixed by their numbers, or by the list of rows
asked for; a shared ball holds every row's own, so nothing is lost to it. Steps out of the ball and
back are made up for as in ``power_rows`` (``RETURNING``).

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.diffuse import SEED_MASS, copy_ball, release, spread
from kinrank.kernels.gather import diffusion_step
from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.overlay import named_space

LANES = 16


@inner
def find_balls(rows, out_ptr, out_ids, s, terms, space, hop_sizes):
    """Number the ball of ``rows`` and of the entries asked for: slot[node], touched[local].

    rows : int32, at most LANES; they have the first local numbers
    out_ptr, out_ids : the columns asked for, out_ids[out_ptr[i]:out_ptr[i + 1]] of row i
    s : S, ``records.Rows``; terms : ``records.DiffusionTerms``, of which decay and floor are used
    space : ``records.Space``: slot[row] is the local number of a row, -1 outside; touched[local]
        the row
    hop_sizes : int64, set here: how many nodes are within h hops
    Returns how many nodes there are; as ``diffuse.find_ball`` for one row.
    """
    slot = space.slot
    nodes = space.touched
    mass = space.scratch
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
    return spread(size, s, terms.decay, terms.floor, space, hop_sizes)


@kernel
def power_groups(low, high, rows, s, b_values, terms, out_ptr, out_ids, out, workspace):
    """Entries of sum_t powers[t] S^t + sum_t binomial[t] S^t B S^(T-t), for rows[low:high].

    rows : int32; a group is LANES of them from a multiple of LANES on; of one that begins before
        ``low`` or ends behind ``high`` only the rows in between are written
    s : S, ``records.Rows`` without an overlay; b_values : the values of B^T on its pattern
    terms : ``records.DiffusionTerms``: powers and binomial, (T + 1,); decay and floor, by which the
        ball is found
    out_ptr, out_ids, out : the columns asked for and the output, their values, by row, of all rows
    workspace : of ``overlay.free_workspace``, for as many rows as S has
    The powers come in on the way, the highest first: r <- S r + binomial[t] B u + powers[T - t] e.
    """
    space = named_space(workspace)
    powers = terms.powers
    binomial = terms.binomial
    n = space.slot.shape[0]
    steps = powers.shape[0]
    n_entries = s.ids.shape[0]
    hop_sizes = np.empty(steps // 2 + 1, np.int64)
    ptr = np.empty(n + 1, np.int64)
    ids = np.empty(n_entries, np.int32)
    weights = np.empty(n_entries, np.float32)
    b = np.empty(n_entries, np.float32)
    back = np.empty(n, np.float32)
    b_back = np.empty(n, np.float32)
    current = np.empty((0, 2 * LANES), np.float32)  # u of each lane, then r of each
    following = np.empty((0, 2 * LANES), np.float32)  # after a step; until then, one before
    for begin in range(low - low % LANES, high, LANES):
        group = rows[begin : begin + LANES]
        size = find_balls(group, out_ptr, out_ids, s, terms, space, hop_sizes)
        copy_ball(size, s, b_values, b_values[:0], space, ptr, ids, weights, b, back, b_back)
        if size > current.shape[0]:
            current = np.empty((size, 2 * LANES), np.float32)
            following = np.empty((size, 2 * LANES), np.float32)
        current[:size] = 0
        following[:size] = 0
        for lane in range(group.shape[0]):
            current[lane, lane] = 1
        last_factor = np.float32(0)
        for t in range(steps):
            # Farther out nothing has arrived yet, or it cannot be back in time.
            count = hop_sizes[min(t + 1, steps - 1 - t)]
            b_factor = np.float32(binomial[t])
            back_factor = b_factor + last_factor
            last_factor = b_factor
            for v in range(count):
                diffusion_step(
                    LANES,
                    ptr[v],
                    ptr[v + 1],
                    ids,
                    weights,
                    b,
                    b_factor,
                    back[v],
                    back_factor * b_back[v],
                    current,
                    following,
                    v,
                )
            for lane in range(group.shape[0]):
                following[lane, LANES + lane] += np.float32(powers[steps - 1 - t])
            current, following = following, current
        for lane in range(max(low - begin, 0), min(high - begin, group.shape[0])):
            for e in range(out_ptr[group[lane]], out_ptr[group[lane] + 1]):
                out[e] = current[space.slot[out_ids[e]], LANES + lane]
        release(size, space)
