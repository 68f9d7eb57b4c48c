"""A sparse symmetric matrix S times a few vectors at once, side by side in lanes that vectorise.

A block of vectors X, or any other capital letter but S, is (n, LANES) float32: column t, a lane, is
one vector, and lanes that are not needed are 0. Lanes never meet: a vector's result does not depend
on its company, so that neither threads nor block sizes can change a bit.
``ptr, ids, values`` is S: row i has the columns ids[ptr[i]:ptr[i + 1]] and the values in the same
places. Names of conjugate gradients, each of one lane: the solution x, residual y - A x, direction
p, A p, step = |residual|^2 / p . A p.

Functions under ``summing_kernel``, ``filling`` and ``summing`` are called from Python, those under
``inner_sum`` by kernels; the sums of ``summing_kernel``, ``summing`` and ``inner_sum`` may be
regrouped (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import add_rows
from kinrank.kernels.jit import filling, inner_sum, summing, summing_kernel

LANES = 64


@filling
def multiply_one(ptr, ids, values, x, out):
    """out = S x for a single vector x, both (n,) float64."""
    for row in range(ptr.shape[0] - 1):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += values[e] * x[ids[e]]
        out[row] = total


@inner_sum
def multiply(ptr, ids, values, x, out):
    """out = S X; x, out : (n, LANES) float32."""
    for row in range(ptr.shape[0] - 1):
        out[row] = 0
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, x, out, row)


@inner_sum
def chebyshev_step(product, current, previous, centre, factor, coefficient, total):
    """The next Chebyshev term, written over the one before: factor (S - centre) current - previous.

    product : S times the current term; current, previous : the current term and the one before
    coefficient : of the series; coefficient times the new term is added to ``total``
    All of these blocks are (n, LANES).
    """
    for row in range(product.shape[0]):
        row_product = product[row]
        row_now = current[row]
        row_before = previous[row]
        row_total = total[row]
        for lane in range(row_product.shape[0]):
            value = factor * (row_product[lane] - centre * row_now[lane]) - row_before[lane]
            row_before[lane] = value
            row_total[lane] += coefficient * value


@summing
def chebyshev(ptr, ids, values, series, centre, radius, x, previous, current, product):
    """The sum over t of series[t] T_t((S - centre) / radius) X, written over X.

    T_t are the Chebyshev polynomials; series : two coefficients or more
    centre, radius : the eigenvalues of S lie in [centre - radius, centre + radius]
    x : (n, LANES) X; previous, current, product : (n, LANES) scratch
    """
    multiply(ptr, ids, values, x, current)
    for row in range(x.shape[0]):
        row_before = previous[row]
        row_now = current[row]
        row_x = x[row]
        for lane in range(row_before.shape[0]):
            row_before[lane] = row_x[lane]
            row_now[lane] = (row_now[lane] - centre * row_before[lane]) / radius
            row_x[lane] = series[0] * row_before[lane] + series[1] * row_now[lane]
    for term in range(2, series.shape[0]):
        multiply(ptr, ids, values, current, product)
        chebyshev_step(product, current, previous, centre, np.float32(2) / radius, series[term], x)
        previous, current = current, previous


@inner_sum
def subtract_product(direction, product, alpha, p_dot_ap):
    """A p = p - alpha S p of each lane, written over ``product``, which has S p.

    direction, product : (n, LANES) p and S p
    p_dot_ap : (LANES,) float64, set to p . A p of each lane
    """
    p_dot_ap[:] = 0
    for row in range(direction.shape[0]):
        row_p = direction[row]
        row_product = product[row]
        for lane in range(p_dot_ap.shape[0]):
            value = row_p[lane] - alpha * row_product[lane]
            row_product[lane] = value
            p_dot_ap[lane] += np.float64(row_p[lane] * value)


@inner_sum
def advance(x, residual, direction, product, step, residual_sq):
    """x += step p and residual -= step A p, by lane.

    direction : p; product : A p, (n, LANES) as x and residual; step : (LANES,) float32
    residual_sq : (LANES,) float64, set to the squared norm of each lane's new residual
    """
    residual_sq[:] = 0
    for row in range(x.shape[0]):
        row_x = x[row]
        row_residual = residual[row]
        row_p = direction[row]
        row_product = product[row]
        for lane in range(residual_sq.shape[0]):
            row_x[lane] += step[lane] * row_p[lane]
            value = row_residual[lane] - step[lane] * row_product[lane]
            row_residual[lane] = value
            residual_sq[lane] += np.float64(value * value)


@inner_sum
def next_direction(residual, direction, factor):
    """direction = residual + factor direction, by lane.

    residual, direction : (n, LANES), the latter p, overwritten; factor : (LANES,) float32
    """
    for row in range(residual.shape[0]):
        row_residual = residual[row]
        row_p = direction[row]
        for lane in range(factor.shape[0]):
            row_p[lane] = row_residual[lane] + factor[lane] * row_p[lane]


@summing_kernel
def conjugate_gradients(ptr, ids, values, alpha, y, steps, tol, residual, direction, product):
    """Solve (I - alpha S) X = Y for each lane; X is written over Y.

    y : (n, LANES) Y; steps : at most so many; residual, direction, product : (n, LANES) scratch
    tol : a lane stands still once its residual is below ``tol`` times the norm of its column of Y
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
        for lane in range(lanes):
            active = residual_sq[lane] > goal[lane] and p_dot_ap[lane] > 0
            step[lane] = residual_sq[lane] / p_dot_ap[lane] if active else 0
            residual_sq_before[lane] = residual_sq[lane]
        advance(y, residual, direction, product, step, residual_sq)
        for lane in range(lanes):
            before = residual_sq_before[lane]
            factor[lane] = residual_sq[lane] / before if before > 0 else 0
        next_direction(residual, direction, factor)
