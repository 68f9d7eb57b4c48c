"""Sums of sparse products, and cosines between rows of a product P M that is never stored.

A sparse matrix is a NamedTuple ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]].
A sum of rows is held by column: ``total``, (n,) float64, for the columns that ``seen``, (n,) int32,
marks with a stamp; ``touched``, (n + 1,) int32, lists these columns, the first ``count`` of it.

Functions under ``kernel`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.product import add_row
from kinrank.kernels.rows import enlarge


@inner
def add_rows(stamp, members, weights, matrix, total, seen, touched, count):
    """Add weights[t] times row members[t] of a sparse matrix to a sum of rows, for all t.

    stamp, total, seen, touched, count : the sum, see above; returns the new count
    """
    ptr = matrix.ptr
    ids = matrix.ids
    values = matrix.values
    for t in range(members.shape[0]):
        begin = ptr[members[t]]
        end = ptr[members[t] + 1]
        count = add_row(weights[t], begin, end, ids, values, stamp, count, seen, total, touched)
    return count


@kernel
def product_sum_rows(low, high, left, right, n):
    """Rows [low, high) of the sum over s of left[s] right[s], products of sparse matrices.

    left, right : tuples of as many sparse matrices; n : how many columns the products have
    Returns the length of each row, (high - low,) int64, and the columns, int32, in no order, and
    values, float32, of all of them.
    """
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty((high - low) * 64, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    size = np.int64(0)
    for row in range(low, high):
        count = np.int64(0)
        for s in range(len(left)):
            begin = left[s].ptr[row]
            end = left[s].ptr[row + 1]
            members = left[s].ids[begin:end]
            weights = left[s].values[begin:end].astype(np.float64)
            count = add_rows(row, members, weights, right[s], total, seen, touched, count)
        if size + count > out_ids.shape[0]:
            out_ids = enlarge(out_ids, size, size + count)
            out = enlarge(out, size, size + count)
        for t in range(count):
            out_ids[size + t] = touched[t]
            out[size + t] = total[touched[t]]
        lengths[row - low] = count
        size += count
    return lengths, out_ids[:size].copy(), out[:size].copy()


@inner
def propagated_row(row, p, m, total, seen, touched):
    """One row of P M as a sum of rows, see above; returns how many columns it has.

    row : its number, which is the stamp too; p, m : P and M
    """
    entries = slice(p.ptr[row], p.ptr[row + 1])
    return add_rows(row, p.ids[entries], p.values[entries], m, total, seen, touched, np.int64(0))


@kernel
def propagated_norms(low, high, p, m, norms):
    """The Euclidean norm of rows [low, high) of P M; p, m : P and M; norms : (n,), the output."""
    n = m.ptr.shape[0] - 1
    total = np.empty(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    for row in range(low, high):
        count = propagated_row(row, p, m, total, seen, touched)
        square = 0.0
        for t in range(count):
            square += total[touched[t]] * total[touched[t]]
        norms[row] = np.sqrt(square)


@kernel
def propagated_cosines(low, high, p, m, m_transposed, norms, first, out):
    """Cosines between rows [low, high) of P M and all its rows from ``first`` on.

    p, m, m_transposed : P, M and M^T; norms : (n,) of ``propagated_norms``
    out : (high - low, n - first) float32, the output

    (P M)_q (P M)_g = sum over j of P_gj ((P M)_q M^T)_j: one dense vector per query instead of a
    product of two long rows per pair, and P M is never stored.
    """
    p_ptr = p.ptr
    p_ids = p.ids
    p_values = p.values
    ptr = m_transposed.ptr
    ids = m_transposed.ids
    values = m_transposed.values
    n = ptr.shape[0] - 1
    total = np.empty(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    query_times_m = np.empty(n, np.float32)  # (P M)_q M^T over the norm
    for row in range(low, high):
        count = propagated_row(row, p, m, total, seen, touched)
        query_times_m[:] = 0
        for t in range(count):
            weight = np.float32(total[touched[t]] / norms[row])
            for e in range(ptr[touched[t]], ptr[touched[t] + 1]):
                query_times_m[ids[e]] += weight * values[e]
        for other in range(first, n):
            score = 0.0
            for a in range(p_ptr[other], p_ptr[other + 1]):
                score += np.float64(p_values[a]) * query_times_m[p_ids[a]]
            out[row - low, other - first] = score / norms[other] if norms[other] > 0 else 0.0
