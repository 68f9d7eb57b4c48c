"""Scores of the form u_q k_g + k_q u_g, for sparse rows k and sums u of such rows."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel
from kinrank.kernels.rows import enlarge


@kernel
def summed_rows(low, high, lists, weights, ptr, ids, values):
    """Rows [low, high) of the sums of weights[e] times row e of a sparse matrix, e in lists[i].

    Returns lengths, indices, data.
    """
    n = ptr.shape[0] - 1
    total, seen = np.zeros(n, np.float64), np.full(n, -1, np.int32)
    touched = np.empty(n, np.int32)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty((high - low) * 64, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    at = np.int64(0)
    for row in range(low, high):
        count = 0
        for t in range(lists.shape[1]):
            member = lists[row, t]
            for e in range(ptr[member], ptr[member + 1]):
                c = ids[e]
                if seen[c] != row:
                    seen[c], total[c] = row, 0.0
                    touched[count] = c
                    count += 1
                total[c] += np.float64(weights[member]) * values[e]
        if at + count > out_ids.shape[0]:
            out_ids = enlarge(out_ids, at, at + count)
            out = enlarge(out, at, at + count)
        for t in range(count):
            out_ids[at + t], out[at + t] = touched[t], total[touched[t]]
        lengths[row - low] = count
        at += count
    return lengths, out_ids[:at].copy(), out[:at].copy()


@kernel
def cross_rows(
    low, high, u_ptr, u_ids, u_values, k_ptr, k_ids, k_values,
    uc_ptr, uc_ids, uc_values, kc_ptr, kc_ids, kc_values,
):  # fmt: skip
    """Rows [low, high) of U K^T + K U^T, where not zero; uc_*, kc_* : U and K by columns.

    Returns lengths, indices (in no order), data.
    """
    n = max(u_ptr.shape[0] - 1, uc_ids.max() + 1 if uc_ids.shape[0] else 0)
    total, seen = np.zeros(n, np.float64), np.full(n, -1, np.int32)
    touched = np.empty(n, np.int32)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty((high - low) * 256, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    at = np.int64(0)
    for row in range(low, high):
        count = 0
        for side in range(2):
            if side == 0:
                ptr, ids, values = u_ptr, u_ids, u_values
                c_ptr, c_ids, c_values = kc_ptr, kc_ids, kc_values
            else:
                ptr, ids, values = k_ptr, k_ids, k_values
                c_ptr, c_ids, c_values = uc_ptr, uc_ids, uc_values
            for e in range(ptr[row], ptr[row + 1]):
                weight, column = np.float64(values[e]), ids[e]
                for c in range(c_ptr[column], c_ptr[column + 1]):
                    other = c_ids[c]
                    if seen[other] != row:
                        seen[other], total[other] = row, 0.0
                        touched[count] = other
                        count += 1
                    total[other] += weight * c_values[c]
        if at + count > out_ids.shape[0]:
            out_ids = enlarge(out_ids, at, at + count)
            out = enlarge(out, at, at + count)
        for t in range(count):
            out_ids[at + t], out[at + t] = touched[t], total[touched[t]]
        lengths[row - low] = count
        at += count
    return lengths, out_ids[:at].copy(), out[:at].copy()
