"""Sums of sparse rows, and scores of the form u_q k_g + k_q u_g."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel
from kinrank.kernels.product import add_row
from kinrank.kernels.rows import enlarge


@inner
def add_rows(stamp, members, weights, matrix, total, seen, touched, count):
    """Add weights[t] times row members[t] of a sparse matrix, see ``Csr``, to ``total``, for all t.

    The first ``count`` of ``touched`` are the columns that ``seen`` marks with the stamp; returns
    how many there are now.
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
    """Rows [low, high) of the sum of the products of sparse matrices, left[s] right[s], n columns.

    left, right : tuples of matrices, see ``Csr``
    Returns lengths, indices (in no order), data.
    """
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty((high - low) * 64, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    at = np.int64(0)
    for row in range(low, high):
        count = np.int64(0)
        for s in range(len(left)):
            begin = left[s].ptr[row]
            end = left[s].ptr[row + 1]
            members = left[s].ids[begin:end]
            weights = left[s].values[begin:end].astype(np.float64)
            count = add_rows(row, members, weights, right[s], total, seen, touched, count)
        if at + count > out_ids.shape[0]:
            out_ids = enlarge(out_ids, at, at + count)
            out = enlarge(out, at, at + count)
        for t in range(count):
            out_ids[at + t] = touched[t]
            out[at + t] = total[touched[t]]
        lengths[row - low] = count
        at += count
    return lengths, out_ids[:at].copy(), out[:at].copy()


@inner
def propagated_row(row, p, m, total, seen, touched):
    """One row of P M in ``total``; returns how many columns were touched; p, m : see ``Csr``."""
    entries = slice(p.ptr[row], p.ptr[row + 1])
    return add_rows(row, p.ids[entries], p.values[entries], m, total, seen, touched, np.int64(0))


@kernel
def propagated_norms(low, high, p, m, norms):
    """The Euclidean norm of rows [low, high) of P M; p, m : see ``Csr``."""
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

    p, m, m_transposed : P, M and M^T, see ``Csr``; norms : of ``propagated_norms``

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
