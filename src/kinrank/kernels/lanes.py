"""A sparse symmetric matrix and a few vectors at once, side by side in lanes that vectorise.

A block is always LANES wide, filled up with zeros, and lanes never meet: a vector's result does not
depend on its company, so that neither threads nor block sizes can change a bit.
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
    """S X for X of (n, LANES)."""
    for row in range(ptr.shape[0] - 1):
        out[row] = 0
        add_rows(LANES, ptr[row], ptr[row + 1], ids, values, x, out, row)


@inner_sum
def recur(product, now, before, centre, double, weight, total):
    """before <- double (product - centre now) - before, and weight times that onto the total."""
    for row in range(product.shape[0]):
        a = product[row]
        b = now[row]
        c = before[row]
        d = total[row]
        for t in range(a.shape[0]):
            value = double * (a[t] - centre * b[t]) - c[t]
            c[t] = value
            d[t] += weight * value


@summing
def chebyshev(ptr, ids, values, series, centre, radius, x, work):
    """The sum of series[t] T_t((S - centre) / radius) X, in place of X; two terms or more.

    work : (3, n, LANES)
    """
    before = work[0]
    now = work[1]
    product = work[2]
    multiply(ptr, ids, values, x, now)
    for row in range(x.shape[0]):
        a = before[row]
        b = now[row]
        c = x[row]
        for t in range(a.shape[0]):
            a[t] = c[t]
            b[t] = (b[t] - centre * a[t]) / radius
            c[t] = series[0] * a[t] + series[1] * b[t]
    for term in range(2, series.shape[0]):
        multiply(ptr, ids, values, now, product)
        recur(product, now, before, centre, np.float32(2) / radius, series[term], x)
        before, now = now, before


@inner_sum
def curvature(direction, product, alpha, curve):
    """product <- direction - alpha product, and the sums of direction times that."""
    curve[:] = 0
    for row in range(direction.shape[0]):
        a = direction[row]
        b = product[row]
        for t in range(curve.shape[0]):
            value = a[t] - alpha * b[t]
            b[t] = value
            curve[t] += np.float64(a[t] * value)


@inner_sum
def advance(x, residual, direction, product, step, power):
    """One step along the direction; the squared norms of what is left."""
    power[:] = 0
    for row in range(x.shape[0]):
        a = x[row]
        b = residual[row]
        c = direction[row]
        d = product[row]
        for t in range(power.shape[0]):
            a[t] += step[t] * c[t]
            value = b[t] - step[t] * d[t]
            b[t] = value
            power[t] += np.float64(value * value)


@inner_sum
def turn(residual, direction, back):
    """The next direction: what is left, and a share of the last direction."""
    for row in range(residual.shape[0]):
        a = residual[row]
        b = direction[row]
        for t in range(back.shape[0]):
            b[t] = a[t] + back[t] * b[t]


@summing_kernel
def conjugate_gradients(ptr, ids, values, alpha, y, steps, tol, work):
    """Solve (I - alpha S) X = Y for each lane, X in place of Y; work : (3, n, LANES).

    A lane stands still once its residual is below ``tol`` times its right side.
    """
    lanes = y.shape[1]
    residual = work[0]
    direction = work[1]
    product = work[2]
    power = np.zeros(lanes)
    before = np.zeros(lanes)
    curve = np.zeros(lanes)
    step = np.zeros(lanes, np.float32)
    back = np.zeros(lanes, np.float32)
    residual[:] = y
    direction[:] = y
    product[:] = 0
    y[:] = 0
    advance(y, residual, direction, product, step, power)  # no step yet: the norms of Y
    goal = power * (tol * tol)
    for _ in range(steps):
        if (power <= goal).all():
            break
        multiply(ptr, ids, values, direction, product)
        curvature(direction, product, alpha, curve)
        for t in range(lanes):
            active = power[t] > goal[t] and curve[t] > 0
            step[t] = power[t] / curve[t] if active else 0
            before[t] = power[t]
        advance(y, residual, direction, product, step, power)
        for t in range(lanes):
            back[t] = power[t] / before[t] if before[t] > 0 else 0
        turn(residual, direction, back)
