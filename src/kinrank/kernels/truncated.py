"""Diffusion from every row, restricted to the rows of its own list of neighbours.

For row i it is (I - alpha S)^-1 e, with S cut to the rows and columns that are members of the list
of i, and e the unit vector of i. S is a sparse matrix ``ptr, ids, values``: row i has the columns
ids[ptr[i]:ptr[i + 1]]. ``lists`` is (n, m) int32, the members of each row, itself first.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``helper`` and
``inner`` by kernels (``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel
from kinrank.kernels.rows import enlarge


@helper
def restricted_matrix(members, ptr, ids, values, local, out_ptr, out_ids, out_values):
    """The rows and columns of S that are among ``members``, under their local numbers 0 to m - 1.

    members : (m,) int32; ptr, ids, values : S
    local : (n,) int32, the local number of each member, -1 for other rows
    out_ptr : (m + 1,) the output's pointers; out_ids, out_values : arrays for its entries
    Returns the columns and values, in these arrays or, where they were too short, in longer ones.
    Every entry is written, and stays if it counts: a branch would be guessed wrong too often.
    """
    size = np.int64(0)
    for t in range(members.shape[0]):
        begin = ptr[members[t]]
        end = ptr[members[t] + 1]
        if size + end - begin > out_ids.shape[0]:
            out_ids = enlarge(out_ids, size, size + end - begin)
            out_values = enlarge(out_values, size, size + end - begin)
        row_ids = ids[begin:end]
        row_values = values[begin:end]
        for e in range(row_ids.shape[0]):
            column = local[row_ids[e]]
            out_ids[size] = np.uint32(column)
            out_values[size] = row_values[e]
            size += np.int64(column >= 0)
        out_ptr[t + 1] = size
    return out_ids, out_values


@inner
def row_product(ids, values, x):
    """The sum of values[e] x[ids[e]] over a sparse row, four sums side by side."""
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
    """x = (I - alpha S)^-1 e, e = (1, 0, 0, ...), by conjugate gradients.

    ptr, ids, values : S, m rows; x : (m,) float64, the output
    steps : at most so many; tol : of the norm of the residual
    residual, direction, product : (m,) scratch; ``product`` is (I - alpha S) direction
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
    """Rows [low, high): (I - alpha S)^-1 e restricted to the members of the row's list.

    lists, ptr, ids, values : the lists and S, see the top of the file
    steps, tol : as in ``solve_first``; out : (n, m), the solution at each member, the output
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
    """out[i - low] = the sum of weights[e] times diffusion row ids[e], over the entries e of row i.

    ptr, ids, weights : a sparse matrix: which diffusion rows are summed for each of [low, high)
    lists, values : (n, m), the diffusion of each row at the members of its list (``diffused_rows``)
    out : (high - low, n), the output
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

    lists, values : (n, m), the diffusion of each row at the members of its list, of norm 1
    out : (high - low, n - first) float32, the output
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
