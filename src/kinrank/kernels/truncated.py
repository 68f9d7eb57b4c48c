"""Diffusion from every row, restricted to the rows of its own list of neighbours.

``lists`` is (n, m), the members of each row, itself first; S is ``ptr, ids, values``.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel
from kinrank.kernels.rows import enlarge


@helper
def restricted_matrix(members, ptr, ids, values, local, sub_ptr, sub_ids, sub_values):
    """The rows and columns of S that are among ``members``, under local numbers.

    local : (n,) the local number of each member, -1 for other rows
    sub_ptr : (m + 1,) the output's pointers; sub_ids, sub_values : room for its entries
    Returns indices and values, in the room or, where it was too small, in a larger one.
    Every entry is written, and stays if it counts: a branch would be guessed wrong too often.
    """
    at = np.int64(0)
    for t in range(members.shape[0]):
        begin = ptr[members[t]]
        end = ptr[members[t] + 1]
        if at + end - begin > sub_ids.shape[0]:
            sub_ids = enlarge(sub_ids, at, at + end - begin)
            sub_values = enlarge(sub_values, at, at + end - begin)
        row_ids = ids[begin:end]
        row_values = values[begin:end]
        for e in range(row_ids.shape[0]):
            column = local[row_ids[e]]
            sub_ids[at] = np.uint32(column)
            sub_values[at] = row_values[e]
            at += np.int64(column >= 0)
        sub_ptr[t + 1] = at
    return sub_ids, sub_values


@inner
def row_product(ids, values, x):
    """The sum of values[e] x[ids[e]], four at a time."""
    quads = ids.shape[0] // 4
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
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
def solve_first(ptr, ids, values, alpha, steps, tol, x, residual, direction, product):
    """x = (I - alpha S)^-1 e_0 by conjugate gradients; ptr, ids, values : S, m rows.

    steps : at most so many; tol : of the residual; residual, direction, product : (m,) room
    """
    x[:] = 0
    residual[:] = 0
    direction[:] = 0
    m = x.shape[0]
    residual[0] = 1.0
    direction[0] = 1.0
    residual_sq = 1.0
    for _ in range(steps):
        if residual_sq <= tol * tol:
            break
        p_dot_ap = 0.0
        for row in range(m):
            begin = ptr[row]
            end = ptr[row + 1]
            total = row_product(ids[begin:end], values[begin:end], direction)
            product[row] = direction[row] - alpha * total
            p_dot_ap += direction[row] * product[row]
        step = residual_sq / p_dot_ap
        residual_sq_before = residual_sq
        residual_sq = 0.0
        for row in range(m):
            x[row] += step * direction[row]
            residual[row] -= step * product[row]
            residual_sq += residual[row] * residual[row]
        for row in range(m):
            direction[row] = residual[row] + residual_sq / residual_sq_before * direction[row]


@kernel
def diffused_rows(low, high, lists, ptr, ids, values, alpha, steps, tol, out):
    """Rows [low, high): (I - alpha S)^-1 e_row restricted to the members of the row's list.

    out : (n, m) the solution at these members; steps, tol : as in ``solve_first``
    """
    n = ptr.shape[0] - 1
    m = lists.shape[1]
    local = np.full(n, -1, np.int32)
    x = np.empty(m)
    residual = np.empty(m)
    direction = np.empty(m)
    product = np.empty(m)
    sub_ptr = np.zeros(m + 1, np.int64)
    sub_ids = np.empty(16 * m, np.uint32)
    sub_values = np.empty(16 * m, np.float32)
    for row in range(low, high):
        for t in range(m):
            local[lists[row, t]] = t
        sub_ids, sub_values = restricted_matrix(
            lists[row], ptr, ids, values, local, sub_ptr, sub_ids, sub_values
        )
        solve_first(
            sub_ptr, sub_ids, sub_values, alpha, steps, tol, x, residual, direction, product
        )
        for t in range(m):
            out[row, t] = x[t]
            local[lists[row, t]] = -1


@filling
def gathered_rows(low, high, ptr, ids, weights, lists, values, out):
    """out[i - low] = the sum of weights[e] times row ids[e] of the diffusion, over row i's entries.

    ptr, ids, weights : which rows are summed for each row; lists, values : of ``diffused_rows``
    out : (high - low, n)
    """
    out[:] = 0
    for row in range(low, high):
        total = out[row - low]
        for e in range(ptr[row], ptr[row + 1]):
            member = ids[e]
            for t in range(lists.shape[1]):
                total[lists[member, t]] += weights[e] * values[member, t]


@kernel
def row_cosines(low, high, lists, values, first, out):
    """Inner products of rows [low, high) of the diffusion with all rows from ``first`` on.

    lists, values : of ``diffused_rows``, values of norm 1; out : (high - low, n - first)
    """
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
