"""Conjugate gradients with relaxation: far fewer steps to the same solution, each as cheap.

A symmetric matrix A = L + D + L^T, D a number, is preconditioned by (I + L) (I + L)^T: one sweep
forth and one back. In p = (I + L)^T x the system has the matrix

    (I + L)^-1 A (I + L)^-T p = t + (I + L)^-1 (p - (2 - D) t),  t = (I + L)^-T p

so that a step reads every entry of A once, as without (Stanley Eisenstat: Efficient Implementation
of a Class of Preconditioned Conjugate Gradient Methods, SIAM J. Sci. Stat. Comput. 2, 1981).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import add_rows
from kinrank.kernels.jit import inner_sum, kernel, summing_kernel
from kinrank.kernels.lanes import LANES, turn


@kernel
def half_rows(low, high, ptr, ids, values, pull, upper):
    """Rows [low, high) of pull S on one side of the diagonal.

    Returns lengths, indices, data.
    """
    lengths = np.zeros(high - low, np.int64)
    room = ptr[high] - ptr[low]
    half_ids = np.empty(room, np.int32)
    half = np.empty(room, np.float32)
    at = 0
    for row in range(low, high):
        begin = at
        for t in range(ptr[row + 1] - ptr[row]):
            e = ptr[row + 1] - 1 - t if upper else ptr[row] + t
            if (ids[e] > row) if upper else (ids[e] < row):
                half_ids[at] = ids[e]
                half[at] = pull * values[e]
                at += 1
        lengths[row - low] = at - begin
    return lengths, half_ids[:at].copy(), half[:at].copy()


@inner_sum
def sweep_back(ptr, ids, values, p, out):
    """(I + L)^-T P."""
    for row in range(ptr.shape[0] - 2, -1, -1):
        a = p[row]
        total = out[row]
        for t in range(LANES):
            total[t] = a[t]
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, out, out, row)


@inner_sum
def sweep_forth(ptr, ids, values, rest, p, back, out, curve):
    """(I + L)^-1 (P - rest T), and the sums of P times that and T."""
    curve[:] = 0
    for row in range(ptr.shape[0] - 1):
        a = p[row]
        b = back[row]
        total = out[row]
        for t in range(LANES):
            total[t] = a[t] - rest * b[t]
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, out, out, row)
        for t in range(LANES):
            curve[t] += np.float64(a[t] * (b[t] + total[t]))


@inner_sum
def move(x, residual, back, forth, step, power):
    """One step; the squared norms of what is left."""
    power[:] = 0
    for row in range(x.shape[0]):
        a = x[row]
        b = residual[row]
        c = back[row]
        d = forth[row]
        for t in range(LANES):
            a[t] += step[t] * c[t]
            value = b[t] - step[t] * (c[t] + d[t])
            b[t] = value
            power[t] += np.float64(value * value)


@inner_sum
def begin_sweeps(ptr, ids, values, y, residual, size):
    """The first residual, (I + L)^-1 Y, 0 in place of Y; the squared norms of Y."""
    size[:] = 0
    for row in range(y.shape[0]):
        a = y[row]
        total = residual[row]
        for t in range(LANES):
            total[t] = a[t]
            size[t] += np.float64(a[t] * a[t])
        for t in range(LANES):
            a[t] = 0
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, residual, residual, row)


@summing_kernel
def relaxed_gradients(lower, upper, rest, goal, y, steps, work):
    """Solve A X = Y for each lane, X in place of Y.

    lower, upper : the arrays of minus L and of minus L^T, see ``half_rows``; rest : 2 - D
    goal : a lane stands still once what is left is below this part of Y
    work : (4, n, LANES)
    """
    residual = work[0]
    p = work[1]
    back = work[2]
    forth = work[3]
    power, before, curve, size = np.zeros((4, LANES))
    step = np.zeros(LANES, np.float32)
    share = np.zeros(LANES, np.float32)
    begin_sweeps(*lower, y, residual, size)
    back[:] = 0
    forth[:] = 0
    p[:] = 0
    move(y, residual, back, forth, step, power)  # no step yet: the norms of the residual
    for _ in range(steps):
        if (power <= goal * goal * size).all():
            break
        turn(residual, p, share)
        sweep_back(*upper, p, back)
        sweep_forth(*lower, rest, p, back, forth, curve)
        for t in range(LANES):
            active = power[t] > goal * goal * size[t] and curve[t] > 0
            step[t] = power[t] / curve[t] if active else 0
            before[t] = power[t]
        move(y, residual, back, forth, step, power)
        for t in range(LANES):
            share[t] = power[t] / before[t] if before[t] > 0 else 0
