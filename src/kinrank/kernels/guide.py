"""Neighbour-guided smoothing (NSS): T and r, by which a row of F is guided, and its closed form.

``guide`` is T, an entry for each member of each cluster C[i]; ``anchor`` is r, a number for each
row. They come from F itself, or from a two-step walk Q = P P over the nearest rows.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.affinity import affinity
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.overlay import enter, enter_at, leave, leave_last, named_space, tick


@inner
def marked_sum(begin, end, ids, values, stamp, seen):
    """The sum of a sparse row, entries [begin, end), over the columns that ``seen`` marks."""
    total = 0.0
    for e in range(begin, end):
        if seen[ids[e]] == stamp:
            total += values[e]
    return total


@filling
def guide_by_similarity(
    low, high, ptr, members, row_groups, f, xi_ptr, xi_ids, guide, anchor, workspace
):
    """T_ij = mean of F_jc over c in xi[i], for j in C[i]; r_i = mean of T_ic over c in xi[i].

    ptr, members : C of the rows that are wanted; row_groups : which of these belong to each query
    f : F, see ``records.Rows``; xi_ptr, xi_ids : xi of the rows that are wanted
    guide : T, on the pattern of C; anchor : (n,) r
    """
    space = named_space(workspace)
    query = np.int64(0)
    overlaid = space.overlaid
    seen = space.seen
    f_ptr = f.ptr
    f_ids = f.ids
    f_values = f.values
    over_ptr = f.over_ptr
    over_ids = f.over_ids
    over_values = f.over_values
    for row in range(low, high):
        query = enter_at(row, query, row_groups, f.groups, f.replaced, overlaid)
        size = xi_ptr[row + 1] - xi_ptr[row]
        inside = tick(space.clock)
        r = 0.0
        for e in range(xi_ptr[row], xi_ptr[row + 1]):
            seen[xi_ids[e]] = inside
        for e in range(ptr[row], ptr[row + 1]):
            j = members[e]
            over = overlaid[j]
            if over >= 0:
                begin = over_ptr[over]
                end = over_ptr[over + 1]
                total = marked_sum(begin, end, over_ids, over_values, inside, seen)
            else:
                total = marked_sum(f_ptr[j], f_ptr[j + 1], f_ids, f_values, inside, seen)
            guide[e] = total / size
            if seen[j] == inside:
                r += total / size
        anchor[row] = r / size
    leave_last(query, f.groups, f.replaced, overlaid)


@kernel
def walk_diagonal(low, high, walk, out):
    """Q_cc = sum_m P_cm P_mc of the two-step walk, for rows [low, high).

    walk : P, see ``records.SmoothingWalk``
    """
    ids = walk.ids
    p = walk.p
    in_ptr = walk.in_ptr
    in_ids = walk.in_ids
    in_p = walk.in_p
    weight = np.zeros(ids.shape[0], np.float64)  # P_mc of column c
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
def guide_by_walk(low, high, ptr, members, xi_ptr, xi_ids, walk, diagonal, guide, anchor):
    """T_ij = mean of Q_jc over c in xi[i] and r for j in xi[i]; r_i = mean of Q_cc; Q = P P.

    ptr, members : C; xi_ptr, xi_ids : xi; walk : P, see ``records.SmoothingWalk``
    diagonal : (n,) Q_cc; guide : T, on the pattern of C; anchor : (n,) r
    r_i = 0, which means "leave the row as it is", where xi[i] is the row alone or C[i] has less
    than two members outside xi[i].
    """
    ids = walk.ids
    p = walk.p
    in_ptr = walk.in_ptr
    in_ids = walk.in_ids
    in_p = walk.in_p
    n = ids.shape[0]
    inside = np.full(n, -1, np.int32)
    weight = np.zeros(n, np.float64)  # sum of P_mc over c in xi[i]
    for row in range(low, high):
        size = xi_ptr[row + 1] - xi_ptr[row]
        if size < 2 or ptr[row + 1] - ptr[row] - size < 2:
            anchor[row] = 0
            for e in range(ptr[row], ptr[row + 1]):
                guide[e] = 0
            continue
        r = 0.0
        for x in range(xi_ptr[row], xi_ptr[row + 1]):
            c = xi_ids[x]
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
            c = xi_ids[x]
            for e in range(in_ptr[c], in_ptr[c + 1]):
                weight[in_ids[e]] = 0.0


@inner
def step_weight(row, k, ids, d, farthest, sigma2, stamp, seen):
    """The weight of all steps of the walk from a row that end in rows that ``seen`` marks.

    ids, d : lists and squared distances, stored or overlaid; farthest : of the row
    """
    total = 0.0
    for t in range(1, k):
        if ids[row, t] < 0:
            break
        if seen[ids[row, t]] == stamp:
            total += affinity(d[row, t], farthest, sigma2)
    return total


@inner
def walk_norms(query, k, sigma2, lists, out):
    """The sum of the weights of all steps from each row of a query's overlay, by stored row.

    Summed anew: what came and went could leave less than nothing where weights are tiny.
    """
    ids = lists.over_ids
    d = lists.over_d
    farthest = lists.over_farthest
    for over in range(lists.groups[query], lists.groups[query + 1]):
        total = 0.0
        for t in range(1, k):
            if ids[over, t] >= 0:
                total += affinity(d[over, t], farthest[over], sigma2)
        out[lists.replaced[over]] = total


@inner
def arrival(row, k, lists, sigma2, norms, stamp, memo, space):
    """The probability to be at a marked row after two steps of the walk from ``row``.

    lists : see ``records.Lists``; norms : (n,) of stored rows, those of the overlay are in
        ``total``
    stamp : what marks rows in ``seen``
    memo : the stamp in ``stepped`` of the rows whose probability to be at a marked row after one
        step is in ``mass``
    """
    overlaid = space.overlaid
    seen = space.seen
    stepped = space.stepped
    over_norms = space.total
    one_step = space.mass
    ids = lists.ids
    d = lists.d
    farthest = lists.farthest
    over_ids = lists.over_ids
    over_d = lists.over_d
    over_farthest = lists.over_farthest
    over = overlaid[row]
    total = 0.0
    for t in range(1, k):
        m = over_ids[over, t] if over >= 0 else ids[row, t]
        if m < 0:
            break
        if stepped[m] != memo:
            stepped[m] = memo
            m_over = overlaid[m]
            if m_over >= 0:
                weight = step_weight(
                    m_over, k, over_ids, over_d, over_farthest[m_over], sigma2, stamp, seen
                )
                norm = over_norms[m]
            else:
                weight = step_weight(m, k, ids, d, farthest[m], sigma2, stamp, seen)
                norm = np.float64(norms[m])
            one_step[m] = weight / norm if norm > 0 else 0.0
        if one_step[m] > 0:
            if over >= 0:
                total += affinity(over_d[over, t], over_farthest[over], sigma2) * one_step[m]
            else:
                total += affinity(d[row, t], farthest[row], sigma2) * one_step[m]
    norm = over_norms[row] if over >= 0 else np.float64(norms[row])
    return total / norm if norm > 0 else 0.0


@filling
def query_guides(ptr, members, xi_ptr, xi_ids, lists, k, sigma2, norms, guide, anchor, workspace):
    """``guide_by_walk`` for queries: T and r from the walk with each query in it.

    ptr, members, xi_ptr, xi_ids : C and xi of the queries; lists : see ``records.Lists``
    k : rows of the walk, the row itself counted; norms : (n,) sums of the weights of a row's steps
    A kernel of its own: there the columns of P are at hand, here they would have to be found. The
    walk is followed forwards instead, which takes ten times as many steps for a row.
    """
    space = named_space(workspace)
    for query in range(ptr.shape[0] - 1):
        size = xi_ptr[query + 1] - xi_ptr[query]
        begin = ptr[query]
        end = ptr[query + 1]
        anchor[query] = 0
        for e in range(begin, end):
            guide[e] = 0
        if size < 2 or end - begin - size < 2:
            continue
        enter(query, lists.groups, lists.replaced, space.overlaid)
        walk_norms(query, k, sigma2, lists, space.total)
        r = 0.0
        inside = tick(space.clock)
        memo = tick(space.clock)
        for e in range(xi_ptr[query], xi_ptr[query + 1]):
            c = xi_ids[e]
            alone = tick(space.clock)
            space.seen[c] = alone
            r += arrival(c, k, lists, sigma2, norms, alone, tick(space.clock), space)
        for e in range(xi_ptr[query], xi_ptr[query + 1]):
            space.seen[xi_ids[e]] = inside
        anchor[query] = r / size
        for e in range(begin, end):
            j = members[e]
            if space.seen[j] == inside:
                guide[e] = r / size
            else:
                total = arrival(j, k, lists, sigma2, norms, inside, memo, space)
                guide[e] = total / size
        leave(query, lists.groups, lists.replaced, space.overlaid)


@filling
def closed_form(low, high, ptr, f, guide, anchor, beta, out):
    """Smoothed rows [low, high): (r T + 2 beta) / (r^2 + 2 beta) F, and what keeps the row's sum.

    ptr, f : F on the clusters; guide, anchor : T and r; what is missing from the sum is shared by
    all of C[i]; a row with r = 0 and beta = 0 stays as it is
    """
    for row in range(low, high):
        begin = ptr[row]
        end = ptr[row + 1]
        r = np.float64(anchor[row])
        if r * r + 2 * beta <= 0:
            for e in range(begin, end):
                out[e] = f[e]
            continue
        row_sum = np.float64(0)
        guided_sum = np.float64(0)
        for e in range(begin, end):
            row_sum += f[e]
            guided_sum += min(np.float64(guide[e]), r) * f[e]
        scale = r * r + 2 * beta
        # Not below 0, as T is at most r; rounding may think otherwise.
        share = max((r * r * row_sum - r * guided_sum) / ((end - begin) * scale), 0.0)
        for e in range(begin, end):
            t = min(np.float64(guide[e]), r)
            out[e] = (r * t + 2 * beta) / scale * f[e] + share
