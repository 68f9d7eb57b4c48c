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
from kinrank.kernels.lanes import LANES, next_direction


@kernel
def half_rows(low, high, ptr, ids, values, alpha, upper):
    """Rows [low, high) of alpha S on one side of the diagonal, which are minus L or minus L^T.

    ptr, ids, values : S, rows ascending; upper : the side above, entries from right to left
    Returns lengths, indices, data.
    """
    lengths = np.zeros(high - low, np.int64)
    room = ptr[high] - ptr[low]
    half_ids = np.empty(room, np.int32)
    half_values = np.empty(room, np.float32)
    at = 0
    for row in range(low, high):
        begin = at
        for t in range(ptr[row + 1] - ptr[row]):
            e = ptr[row + 1] - 1 - t if upper else ptr[row] + t
            if (ids[e] > row) if upper else (ids[e] < row):
                half_ids[at] = ids[e]
                half_values[at] = alpha * values[e]
                at += 1
        lengths[row - low] = at - begin
    return lengths, half_ids[:at].copy(), half_values[:at].copy()


@inner_sum
def sweep_back(upper, p, out):
    """T = (I + L)^-T P; upper : minus L^T, see ``Csr``."""
    ptr = upper.ptr
    ids = upper.ids
    values = upper.values
    for row in range(ptr.shape[0] - 2, -1, -1):
        row_p = p[row]
        row_out = out[row]
        for t in range(LANES):
            row_out[t] = row_p[t]
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, out, out, row)


@inner_sum
def sweep_forth(lower, two_minus_d, p, back, out, p_dot_ap):
    """(I + L)^-1 (P - (2 - D) T), and p . A p of each lane, A the preconditioned matrix.

    lower : minus L, see ``Csr``; back : T
    """
    ptr = lower.ptr
    ids = lower.ids
    values = lower.values
    p_dot_ap[:] = 0
    for row in range(ptr.shape[0] - 1):
        row_p = p[row]
        row_back = back[row]
        row_out = out[row]
        for t in range(LANES):
            row_out[t] = row_p[t] - two_minus_d * row_back[t]
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, out, out, row)
        for t in range(LANES):
            p_dot_ap[t] += np.float64(row_p[t] * (row_back[t] + row_out[t]))


@inner_sum
def advance(x, residual, back, forth, step, residual_sq):
    """x += step T and residual -= step (T + forth), by lane; the squared norms of the residual.

    back, forth : of ``sweep_back`` and ``sweep_forth``, whose sum is A p
    """
    residual_sq[:] = 0
    for row in range(x.shape[0]):
        row_x = x[row]
        row_residual = residual[row]
        row_back = back[row]
        row_forth = forth[row]
        for t in range(LANES):
            row_x[t] += step[t] * row_back[t]
            value = row_residual[t] - step[t] * (row_back[t] + row_forth[t])
            row_residual[t] = value
            residual_sq[t] += np.float64(value * value)


@inner_sum
def first_residual(lower, y, residual, rhs_sq):
    """(I + L)^-1 Y in ``residual``, 0 in place of Y; the squared norms of Y; lower : minus L."""
    ptr = lower.ptr
    ids = lower.ids
    values = lower.values
    rhs_sq[:] = 0
    for row in range(y.shape[0]):
        row_y = y[row]
        row_residual = residual[row]
        for t in range(LANES):
            row_residual[t] = row_y[t]
            rhs_sq[t] += np.float64(row_y[t] * row_y[t])
        for t in range(LANES):
            row_y[t] = 0
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, residual, residual, row)


@summing_kernel
def relaxed_gradients(lower, upper, two_minus_d, tol, y, steps, residual, p, back, forth):
    """Solve A X = Y for each lane, X in place of Y.

    lower, upper : minus L and minus L^T of ``half_rows``, see ``Csr``; two_minus_d : 2 - D
    tol : a lane stands still once its residual is below this part of Y; steps : at most so many
    residual, p, back, forth : (n, LANES) room
    """
    residual_sq = np.zeros(LANES)
    residual_sq_before = np.zeros(LANES)
    p_dot_ap = np.zeros(LANES)
    rhs_sq = np.zeros(LANES)
    step = np.zeros(LANES, np.float32)
    factor = np.zeros(LANES, np.float32)
    first_residual(lower, y, residual, rhs_sq)
    back[:] = 0
    forth[:] = 0
    p[:] = 0
    advance(y, residual, back, forth, step, residual_sq)  # no step yet: norms of the residual
    for _ in range(steps):
        if (residual_sq <= tol * tol * rhs_sq).all():
            break
        next_direction(residual, p, factor)
        sweep_back(upper, p, back)
        sweep_forth(lower, two_minus_d, p, back, forth, p_dot_ap)
        for t in range(LANES):
            active = residual_sq[t] > tol * tol * rhs_sq[t] and p_dot_ap[t] > 0
            step[t] = residual_sq[t] / p_dot_ap[t] if active else 0
            residual_sq_before[t] = residual_sq[t]
        advance(y, residual, back, forth, step, residual_sq)
        for t in range(LANES):
            before = residual_sq_before[t]
            factor[t] = residual_sq[t] / before if before > 0 else 0
