"""Diffusion from every row, on its own nearest rows only."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, kernel
from kinrank.kernels.rows import enlarge


@helper
def own_part(lists, row, ptr, ids, values, local, sub_ptr, sub_ids, sub_values):
    """The rows and columns of S that are in the row's list; returns its entries."""
    at = np.int64(0)
    for t in range(lists.shape[1]):
        member = lists[row, t]
        for e in range(ptr[member], ptr[member + 1]):
            place = local[ids[e]]
            if place >= 0:
                if at == sub_ids.shape[0]:
                    sub_ids = enlarge(sub_ids, at, at + 1)
                    sub_values = enlarge(sub_values, at, at + 1)
                sub_ids[at], sub_values[at] = place, values[e]
                at += 1
        sub_ptr[t + 1] = at
    return sub_ids, sub_values


@helper
def solve_first(ptr, ids, values, alpha, steps, tol):
    """(I - alpha S)^-1 e_0 by conjugate gradients."""
    m = ptr.shape[0] - 1
    x, residual, direction = np.zeros(m), np.zeros(m), np.zeros(m)
    image = np.empty(m)
    residual[0] = direction[0] = power = 1.0
    for _ in range(steps):
        if power <= tol * tol:
            break
        curve = 0.0
        for row in range(m):
            total = 0.0
            for e in range(ptr[row], ptr[row + 1]):
                total += values[e] * direction[ids[e]]
            image[row] = direction[row] - alpha * total
            curve += direction[row] * image[row]
        step, before, power = power / curve, power, 0.0
        for row in range(m):
            x[row] += step * direction[row]
            residual[row] -= step * image[row]
            power += residual[row] * residual[row]
        for row in range(m):
            direction[row] = residual[row] + power / before * direction[row]
    return x


@kernel
def diffused_rows(low, high, lists, ptr, ids, values, alpha, steps, tol, out):
    """Rows [low, high): the solution for a start in the row, at the places of its list."""
    n, m = ptr.shape[0] - 1, lists.shape[1]
    local = np.full(n, -1, np.int32)
    sub_ptr = np.zeros(m + 1, np.int64)
    sub_ids, sub_values = np.empty(16 * m, np.int32), np.empty(16 * m, np.float32)
    for row in range(low, high):
        for t in range(m):
            local[lists[row, t]] = t
        sub_ids, sub_values = own_part(
            lists, row, ptr, ids, values, local, sub_ptr, sub_ids, sub_values
        )
        out[row] = solve_first(sub_ptr, sub_ids, sub_values, alpha, steps, tol)
        for t in range(m):
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
