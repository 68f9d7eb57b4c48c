"""A sparse symmetric matrix S and a few vectors at once, side by side in lanes that vectorise.

A block X of vectors is (n, LANES), filled up with zeros, and lanes never meet: a vector's result
does not depend on its company, so that neither threads nor block sizes can change a bit.
``ptr, ids, values`` are S.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import add_rows
from kinrank.kernels.jit import filling, inner_sum, summing, summing_kernel

LANES = 64


@filling
def multiply_one(ptr, ids, values, x, out):
    """S x for a single x, in float64."""
    for row in range(ptr.shape[0] - 1):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += values[e] * x[ids[e]]
        out[row] = total


@inner_sum
def multiply(ptr, ids, values, x, out):
    """S X."""
    for row in range(ptr.shape[0] - 1):
        out[row] = 0
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, x, out, row)


@inner_sum
def chebyshev_step(product, now, before, centre, factor, coefficient, total):
    """The next Chebyshev term, in place of the one before: factor (S - centre) now - before.

    product : S now; coefficient times the term is added to ``total``
    """
    for row in range(product.shape[0]):
        row_product = product[row]
        row_now = now[row]
        row_before = before[row]
        row_total = total[row]
        for t in range(row_product.shape[0]):
            value = factor * (row_product[t] - centre * row_now[t]) - row_before[t]
            row_before[t] = value
            row_total[t] += coefficient * value


@summing
def chebyshev(ptr, ids, values, series, centre, radius, x, before, now, product):
    """The sum of series[t] T_t((S - centre) / radius) X, in place of X; two terms or more.

    before, now, product : (n, LANES) room
    """
    multiply(ptr, ids, values, x, now)
    for row in range(x.shape[0]):
        row_before = before[row]
        row_now = now[row]
        row_x = x[row]
        for t in range(row_before.shape[0]):
            row_before[t] = row_x[t]
            row_now[t] = (row_now[t] - centre * row_before[t]) / radius
            row_x[t] = series[0] * row_before[t] + series[1] * row_now[t]
    for term in range(2, series.shape[0]):
        multiply(ptr, ids, values, now, product)
        chebyshev_step(product, now, before, centre, np.float32(2) / radius, series[term], x)
        before, now = now, before


@inner_sum
def subtract_product(direction, product, alpha, p_dot_ap):
    """A p = p - alpha S p, in place of ``product`` = S p; and p . A p of each lane.

    direction : p
    """
    p_dot_ap[:] = 0
    for row in range(direction.shape[0]):
        row_p = direction[row]
        row_product = product[row]
        for t in range(p_dot_ap.shape[0]):
            value = row_p[t] - alpha * row_product[t]
            row_product[t] = value
            p_dot_ap[t] += np.float64(row_p[t] * value)


@inner_sum
def advance(x, residual, direction, product, step, residual_sq):
    """x += step p and residual -= step A p, lane by lane; the squared norms of the residual.

    direction : p; product : A p
    """
    residual_sq[:] = 0
    for row in range(x.shape[0]):
        row_x = x[row]
        row_residual = residual[row]
        row_p = direction[row]
        row_product = product[row]
        for t in range(residual_sq.shape[0]):
            row_x[t] += step[t] * row_p[t]
            value = row_residual[t] - step[t] * row_product[t]
            row_residual[t] = value
            residual_sq[t] += np.float64(value * value)


@inner_sum
def next_direction(residual, direction, factor):
    """p <- residual + factor p, lane by lane; direction : p."""
    for row in range(residual.shape[0]):
        row_residual = residual[row]
        row_p = direction[row]
        for t in range(factor.shape[0]):
            row_p[t] = row_residual[t] + factor[t] * row_p[t]


@summing_kernel
def conjugate_gradients(ptr, ids, values, alpha, y, steps, tol, residual, direction, product):
    """Solve (I - alpha S) X = Y for each lane, X in place of Y.

    steps : at most so many; residual, direction, product : (n, LANES) room
    A lane stands still once its residual is below ``tol`` times its right side.
    """
    lanes = y.shape[1]
    residual_sq = np.zeros(lanes)
    residual_sq_before = np.zeros(lanes)
    p_dot_ap = np.zeros(lanes)
    step = np.zeros(lanes, np.float32)
    factor = np.zeros(lanes, np.float32)
    residual[:] = y
    direction[:] = y
    product[:] = 0
    y[:] = 0
    advance(y, residual, direction, product, step, residual_sq)  # no step yet: the norms of Y
    goal = residual_sq * (tol * tol)
    for _ in range(steps):
        if (residual_sq <= goal).all():
            break
        multiply(ptr, ids, values, direction, product)
        subtract_product(direction, product, alpha, p_dot_ap)
        for t in range(lanes):
            active = residual_sq[t] > goal[t] and p_dot_ap[t] > 0
            step[t] = residual_sq[t] / p_dot_ap[t] if active else 0
            residual_sq_before[t] = residual_sq[t]
        advance(y, residual, direction, product, step, residual_sq)
        for t in range(lanes):
            before = residual_sq_before[t]
            factor[t] = residual_sq[t] / before if before > 0 else 0
        next_direction(residual, direction, factor)
