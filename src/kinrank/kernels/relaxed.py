"""Conjugate gradients preconditioned by SSOR: far fewer steps to the same solution, each as cheap.

Solves A X = Y for A = L + D I + L^T, where D is a number, the same on the whole diagonal, and
L + L^T = -alpha S, S a sparse symmetric matrix without a diagonal. The relaxation, 1.25, is in D
and alpha (``methods/diffusion/solve.py``). A is preconditioned by (I + L) (I + L)^T: one sweep
forth and one back. In p = (I + L)^T x the system has the matrix

    (I + L)^-1 A (I + L)^-T p = t + (I + L)^-1 (p - (2 - D) t),  t = (I + L)^-T p

so that a step reads every entry of A once, as without (Stanley Eisenstat: Efficient Implementation
of a Class of Preconditioned Conjugate Gradient Methods, SIAM J. Sci. Stat. Comput. 2, 1981).

Blocks of vectors (X, Y, P, T) are (n, LANES) float32, a vector in each column, its lane. ``lower``
and ``upper`` are sparse matrices, minus L and minus L^T: NamedTuples of ``ptr, ids, values``, row i
with the columns ids[ptr[i]:ptr[i + 1]].

Functions under ``kernel`` and ``summing_kernel`` are called from Python, those under ``inner_sum``
by kernels; the sums of ``summing_kernel`` and ``inner_sum`` may be regrouped (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import add_rows
from kinrank.kernels.jit import inner_sum, kernel, summing_kernel
from kinrank.kernels.lanes import LANES, next_direction


@kernel
def half_rows(low, high, ptr, ids, values, alpha, upper):
    """Rows [low, high) of alpha S on one side of the diagonal, which are minus L or minus L^T.

    ptr, ids, values : S, rows ascending by column
    upper : whether the side above the diagonal is taken. Its entries are written from right to
        left: ``sweep_back`` goes from the last row to the first, and so reads what it set last last
    Returns the length of each row, (high - low,) int64, and the columns, int32, and values,
    float32, of all of them.
    """
    lengths = np.zeros(high - low, np.int64)
    capacity = ptr[high] - ptr[low]
    half_ids = np.empty(capacity, np.int32)
    half_values = np.empty(capacity, np.float32)
    size = 0
    for row in range(low, high):
        row_begin = size
        for t in range(ptr[row + 1] - ptr[row]):
            e = ptr[row + 1] - 1 - t if upper else ptr[row] + t
            if (ids[e] > row) if upper else (ids[e] < row):
                half_ids[size] = ids[e]
                half_values[size] = alpha * values[e]
                size += 1
        lengths[row - low] = size - row_begin
    return lengths, half_ids[:size].copy(), half_values[:size].copy()


@inner_sum
def sweep_back(upper, p, out):
    """out = T = (I + L)^-T P, by back substitution from the last row to the first.

    out[row] = p[row] + the sum over row ``row`` of ``upper``, which is minus L^T, times ``out``.
    p : (n, LANES) P; out : (n, LANES), overwritten; may be ``p``
    """
    ptr = upper.ptr
    ids = upper.ids
    values = upper.values
    for row in range(ptr.shape[0] - 2, -1, -1):
        row_p = p[row]
        row_out = out[row]
        for lane in range(LANES):
            row_out[lane] = row_p[lane]
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, out, out, row)


@inner_sum
def sweep_forth(lower, two_minus_d, p, back, out, p_dot_ap):
    """out = (I + L)^-1 (P - (2 - D) T), by forward substitution from the first row to the last.

    With A' the preconditioned matrix, A' P is T plus ``out``.
    lower : minus L; two_minus_d : 2 - D; p : P; back : T of ``sweep_back``; all (n, LANES), as out
    p_dot_ap : (LANES,) float64, set to p . A' p of each lane
    """
    ptr = lower.ptr
    ids = lower.ids
    values = lower.values
    p_dot_ap[:] = 0
    for row in range(ptr.shape[0] - 1):
        row_p = p[row]
        row_back = back[row]
        row_out = out[row]
        for lane in range(LANES):
            row_out[lane] = row_p[lane] - two_minus_d * row_back[lane]
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, out, out, row)
        for lane in range(LANES):
            p_dot_ap[lane] += np.float64(row_p[lane] * (row_back[lane] + row_out[lane]))


@inner_sum
def advance(x, residual, back, forth, step, residual_sq):
    """x += step T and residual -= step A' p, by lane.

    x : (n, LANES) X of the original system, not of p; residual : (n, LANES)
    back, forth : of ``sweep_back`` and ``sweep_forth``, whose sum is A' p, A' the preconditioned
        matrix
    step : (LANES,) float32
    residual_sq : (LANES,) float64, set to the squared norm of each lane's new residual
    """
    residual_sq[:] = 0
    for row in range(x.shape[0]):
        row_x = x[row]
        row_residual = residual[row]
        row_back = back[row]
        row_forth = forth[row]
        for lane in range(LANES):
            row_x[lane] += step[lane] * row_back[lane]
            value = row_residual[lane] - step[lane] * (row_back[lane] + row_forth[lane])
            row_residual[lane] = value
            residual_sq[lane] += np.float64(value * value)


@inner_sum
def first_residual(lower, y, residual, rhs_sq):
    """Begin at x = 0: residual = (I + L)^-1 Y, and ``y`` is set to 0, as X is written over Y.

    lower : minus L; y : (n, LANES) Y; residual : (n, LANES), overwritten
    rhs_sq : (LANES,) float64, set to the squared norm of each lane of Y
    """
    ptr = lower.ptr
    ids = lower.ids
    values = lower.values
    rhs_sq[:] = 0
    for row in range(y.shape[0]):
        row_y = y[row]
        row_residual = residual[row]
        for lane in range(LANES):
            row_residual[lane] = row_y[lane]
            rhs_sq[lane] += np.float64(row_y[lane] * row_y[lane])
        for lane in range(LANES):
            row_y[lane] = 0
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, residual, residual, row)


@summing_kernel
def relaxed_gradients(lower, upper, two_minus_d, tol, y, steps, residual, p, back, forth):
    """Solve A X = Y for each lane; X is written over Y.

    lower, upper : minus L and minus L^T, of ``half_rows``; two_minus_d : 2 - D
    tol : a lane stands still once the norm of its residual is below this part of that of Y
    y : (n, LANES) Y; steps : at most so many; residual, p, back, forth : (n, LANES) scratch
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
        for lane in range(LANES):
            active = residual_sq[lane] > tol * tol * rhs_sq[lane] and p_dot_ap[lane] > 0
            step[lane] = residual_sq[lane] / p_dot_ap[lane] if active else 0
            residual_sq_before[lane] = residual_sq[lane]
        advance(y, residual, back, forth, step, residual_sq)
        for lane in range(LANES):
            before = residual_sq_before[lane]
            factor[lane] = residual_sq[lane] / before if before > 0 else 0
