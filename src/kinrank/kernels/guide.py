"""What the neighbours say: T and r of the neighbour-guided smoothing, and its closed form."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import kernel


@kernel
def guide_by_similarity(low, high, ptr, members, f, xi_ptr, xi_members, guide, anchor):
    """T_ij = mean of F_jc over c in xi[i], for j in C[i]; r_i = mean of T_ic over c in xi[i].

    ptr, members, f : F on the pattern C; guide : (nnz,) T; anchor : (n,) r
    """
    n = ptr.shape[0] - 1
    inside = np.full(n, -1, np.int32)
    for row in range(low, high):
        size = xi_ptr[row + 1] - xi_ptr[row]
        for e in range(xi_ptr[row], xi_ptr[row + 1]):
            inside[xi_members[e]] = row
        r = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            other = members[e]
            total = 0.0
            for o in range(ptr[other], ptr[other + 1]):
                if inside[members[o]] == row:
                    total += f[o]
            guide[e] = total / size
            if inside[other] == row:
                r += total / size
        anchor[row] = r / size


@kernel
def walk_diagonal(low, high, ids, p, in_ptr, in_ids, in_p, out):
    """Q_cc = sum_m P_cm P_mc of the two-step walk; ids, p : (n, k) rows of P; in_* : columns."""
    weight = np.zeros(ids.shape[0], np.float64)
    for c in range(low, high):
        for e in range(in_ptr[c], in_ptr[c + 1]):
            weight[in_ids[e]] = in_p[e]
        total = 0.0
        for t in range(ids.shape[1]):
            total += p[c, t] * weight[ids[c, t]]
        for e in range(in_ptr[c], in_ptr[c + 1]):
            weight[in_ids[e]] = 0.0
        out[c] = total


@kernel
def guide_by_walk(
    low, high, ptr, members, xi_ptr, xi_members, ids, p, in_ptr, in_ids, in_p, diagonal,
    guide, anchor,
):  # fmt: skip
    """T_ij = mean of Q_jc over c in xi[i] and r for j in xi[i]; r_i = mean of Q_cc; Q = P P.

    r_i = 0, which means "leave the row as it is", where xi[i] is the row alone or C[i] has less
    than two members outside xi[i].
    """
    n = ids.shape[0]
    inside = np.full(n, -1, np.int32)
    weight = np.zeros(n, np.float64)
    for row in range(low, high):
        size = xi_ptr[row + 1] - xi_ptr[row]
        if size < 2 or ptr[row + 1] - ptr[row] - size < 2:
            anchor[row] = 0
            for e in range(ptr[row], ptr[row + 1]):
                guide[e] = 0
            continue
        r = 0.0
        for x in range(xi_ptr[row], xi_ptr[row + 1]):
            c = xi_members[x]
            inside[c] = row
            r += diagonal[c]
            for e in range(in_ptr[c], in_ptr[c + 1]):
                weight[in_ids[e]] += in_p[e]
        r /= size
        anchor[row] = r
        for e in range(ptr[row], ptr[row + 1]):
            other = members[e]
            if inside[other] == row:
                guide[e] = r
            else:
                total = 0.0
                for t in range(ids.shape[1]):
                    total += p[other, t] * weight[ids[other, t]]
                guide[e] = total / size
        for x in range(xi_ptr[row], xi_ptr[row + 1]):
            c = xi_members[x]
            for e in range(in_ptr[c], in_ptr[c + 1]):
                weight[in_ids[e]] = 0.0


@kernel
def closed_form(low, high, ptr, f, guide, anchor, beta, out):
    """The smoothed row: (r T + 2b) / (r^2 + 2b) F + what keeps its sum, shared by all of C[i]."""
    for row in range(low, high):
        begin, end = ptr[row], ptr[row + 1]
        r = np.float64(anchor[row])
        if r * r + 2 * beta <= 0:
            for e in range(begin, end):
                out[e] = f[e]
            continue
        norm, moved = 0.0, 0.0
        for e in range(begin, end):
            norm += f[e]
            moved += min(np.float64(guide[e]), r) * f[e]
        scale = r * r + 2 * beta
        share = (r * r * norm - r * moved) / ((end - begin) * scale)
        for e in range(begin, end):
            t = min(np.float64(guide[e]), r)
            out[e] = (r * t + 2 * beta) / scale * f[e] + share
