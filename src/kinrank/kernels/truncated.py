"""Diffusion from every row, on its own nearest rows only."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel
from kinrank.kernels.rows import enlarge


@helper
def own_part(lists, row, ptr, ids, values, local, sub_ptr, sub_ids, sub_values):
    """The rows and columns of S that are in the row's list; returns its entries.

    Every entry is written, and stays if it counts: a branch would be guessed wrong too often.
    """
    at = np.int64(0)
    for t in range(lists.shape[1]):
        member = lists[row, t]
        begin = ptr[member]
        end = ptr[member + 1]
        if at + end - begin > sub_ids.shape[0]:
            sub_ids = enlarge(sub_ids, at, at + end - begin)
            sub_values = enlarge(sub_values, at, at + end - begin)
        own_ids = ids[begin:end]
        own_values = values[begin:end]
        for e in range(own_ids.shape[0]):
            place = local[own_ids[e]]
            sub_ids[at] = np.uint32(place)
            sub_values[at] = own_values[e]
            at += np.int64(place >= 0)
        sub_ptr[t + 1] = at
    return sub_ids, sub_values


@inner
def row_product(ids, values, x):
    """The sum of values[e] x[ids[e]], four at a time."""
    quads = ids.shape[0] // 4
    a = b = c = d = 0.0
    for q in range(quads):
        e = 4 * q
        a += values[e] * x[ids[e]]
        b += values[e + 1] * x[ids[e + 1]]
        c += values[e + 2] * x[ids[e + 2]]
        d += values[e + 3] * x[ids[e + 3]]
    for e in range(4 * quads, ids.shape[0]):
        a += values[e] * x[ids[e]]
    return (a + b) + (c + d)


@inner
def solve_first(ptr, ids, values, alpha, steps, tol, work):
    """(I - alpha S)^-1 e_0 by conjugate gradients, in work[0]; work : (4, m)."""
    work[:3] = 0
    x = work[0]
    residual = work[1]
    direction = work[2]
    image = work[3]
    m = x.shape[0]
    residual[0] = direction[0] = power = 1.0
    for _ in range(steps):
        if power <= tol * tol:
            break
        curve = 0.0
        for row in range(m):
            begin = ptr[row]
            end = ptr[row + 1]
            total = row_product(ids[begin:end], values[begin:end], direction)
            image[row] = direction[row] - alpha * total
            curve += direction[row] * image[row]
        step = power / curve
        before = power
        power = 0.0
        for row in range(m):
            x[row] += step * direction[row]
            residual[row] -= step * image[row]
            power += residual[row] * residual[row]
        for row in range(m):
            direction[row] = residual[row] + power / before * direction[row]


@kernel
def diffused_rows(low, high, lists, ptr, ids, values, alpha, steps, tol, out):
    """Rows [low, high): the solution for a start in the row, at the places of its list."""
    n = ptr.shape[0] - 1
    m = lists.shape[1]
    local = np.full(n, -1, np.int32)
    work = np.empty((4, m))
    sub_ptr = np.zeros(m + 1, np.int64)
    sub_ids = np.empty(16 * m, np.uint32)
    sub_values = np.empty(16 * m, np.float32)
    for row in range(low, high):
        for t in range(m):
            local[lists[row, t]] = t
        sub_ids, sub_values = own_part(
            lists, row, ptr, ids, values, local, sub_ptr, sub_ids, sub_values
        )
        solve_first(sub_ptr, sub_ids, sub_values, alpha, steps, tol, work)
        for t in range(m):
            out[row, t] = work[0, t]
            local[lists[row, t]] = -1


@filling
def gathered_rows(low, high, ptr, ids, weights, lists, values, out):
    """out[i - low] = the sum of weights times the rows ids[ptr[i]:ptr[i + 1]] of the diffusion."""
    out[:] = 0
    for row in range(low, high):
        total = out[row - low]
        for e in range(ptr[row], ptr[row + 1]):
            member = ids[e]
            for t in range(lists.shape[1]):
                total[lists[member, t]] += weights[e] * values[member, t]


@kernel
def row_cosines(low, high, lists, values, first, out):
    """Products of rows [low, high) with all rows from ``first`` on."""
    n = lists.shape[0]
    dense = np.zeros(n, np.float32)
    for row in range(low, high):
        for t in range(lists.shape[1]):
            dense[lists[row, t]] = values[row, t]
        for other in range(first, n):
            total = np.float32(0)
            for t in range(lists.shape[1]):
                total += dense[lists[other, t]] * values[other, t]
            out[row - low, other - first] = total
        for t in range(lists.shape[1]):
            dense[lists[row, t]] = 0
