"""Two rounds of neighbourhood propagation, compared without ever storing the second."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import inner, kernel


@inner
def propagated_row(row, p_ptr, p_ids, p_values, ptr, ids, values, total, seen, touched):
    """One row of P M in ``total``; returns how many columns were touched."""
    count = 0
    for a in range(p_ptr[row], p_ptr[row + 1]):
        weight, middle = p_values[a], p_ids[a]
        for e in range(ptr[middle], ptr[middle + 1]):
            c = ids[e]
            if seen[c] != row:
                seen[c], total[c] = row, 0.0
                touched[count] = c
                count += 1
            total[c] += weight * values[e]
    return count


@kernel
def propagated_norms(low, high, p_ptr, p_ids, p_values, ptr, ids, values, norms):
    """The Euclidean norm of rows [low, high) of P M."""
    n = ptr.shape[0] - 1
    total, seen = np.empty(n, np.float64), np.full(n, -1, np.int32)
    touched = np.empty(n, np.int32)
    for row in range(low, high):
        count = propagated_row(row, p_ptr, p_ids, p_values, ptr, ids, values, total, seen, touched)
        square = 0.0
        for t in range(count):
            square += total[touched[t]] * total[touched[t]]
        norms[row] = np.sqrt(square)


@kernel
def contextual_scores(
    low, high, p_ptr, p_ids, p_values, ptr, ids, values, t_ptr, t_ids, t_values, norms, first, out
):  # fmt: skip
    """Cosines between rows [low, high) of P M and all rows from ``first`` on; t_* : M^T.

    (P M)_q (P M)_g = sum over j of P_gj ((P M)_q M^T)_j: one dense vector per query instead of a
    product of two long rows per pair.
    """
    n = ptr.shape[0] - 1
    total, seen = np.empty(n, np.float64), np.full(n, -1, np.int32)
    touched = np.empty(n, np.int32)
    spread = np.empty(n, np.float32)
    for row in range(low, high):
        count = propagated_row(row, p_ptr, p_ids, p_values, ptr, ids, values, total, seen, touched)
        spread[:] = 0
        for t in range(count):
            weight = np.float32(total[touched[t]] / norms[row])
            for e in range(t_ptr[touched[t]], t_ptr[touched[t] + 1]):
                spread[t_ids[e]] += weight * t_values[e]
        for other in range(first, n):
            score = 0.0
            for a in range(p_ptr[other], p_ptr[other + 1]):
                score += np.float64(p_values[a]) * spread[p_ids[a]]
            out[row - low, other - first] = score / norms[other] if norms[other] > 0 else 0.0
