"""Neighbour-guided smoothing (NSS): T and r, by which a row of F is guided, and its closed form.

F is the similarity on the local clusters C, xi[i] the confident neighbours of row i. ``guide`` is
T: T_ij, an entry for each j in C[i], says how near the confident neighbours of i find j. ``anchor``
is r: r_i, a number for each row, says how near they find each other. Both come from F itself, or
from a two-step walk Q = P P over the nearest rows, P the affinities of a row's list with sum 1.

Sparse rows are ``ptr, ids`` and values: row i has the columns ids[ptr[i]:ptr[i + 1]]. An overlay is
rows, or lists, that stand in for stored ones while a query is computed (``kernels/overlay.py``):
overlay_row[row] is the one that does, -1 for none. A row is marked where ``seen`` or ``stepped``
has a stamp, a number that nothing else uses at that time.

Records (``kernels/records.py``):
    f : Rows: F, ``ptr, ids, values``, and its overlay, ``over_ptr, over_ids, over_values``; query t
        has the overlay rows groups[t] to groups[t + 1], which stand in for the rows ``replaced``
    lists : Lists: the nearest rows of each, itself first, ``ids`` and ``squared`` distances, (n,
        K), and the largest squared distance of each row, ``farthest``; the overlay as of ``f``
    walk : SmoothingWalk: P by rows, ``ids, p``, (n, k), and by columns: ``in_ptr, in_ids, in_p``

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.affinity import affinity
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.overlay import (
    apply_overlay,
    named_space,
    new_stamp,
    remove_last_overlay,
    remove_overlay,
    switch_overlay,
)


@inner
def marked_sum(begin, end, ids, values, stamp, seen):
    """The sum of the entries [begin, end) of a sparse row over the columns that ``seen`` marks.

    ids, values : its columns and values; stamp : what ``seen``, (n + 2,) int32, has for marked ones
    """
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

    For rows [low, high) of those that are wanted.
    ptr, members : C of the wanted rows
    row_groups : (queries + 1,) wanted rows row_groups[t] to row_groups[t + 1] belong to query t,
        and see its overlay; empty without queries
    f : F of all rows with its overlay, ``records.Rows``; xi_ptr, xi_ids : xi of the wanted rows
    guide : T, float32, an entry for each of ``members``; anchor : (wanted rows,) float32, r; output
    workspace : scratch arrays, as long as there are rows
    """
    space = named_space(workspace)
    n_begun = np.int64(0)
    overlay_row = space.overlay_row
    seen = space.seen
    f_ptr = f.ptr
    f_ids = f.ids
    f_values = f.values
    over_ptr = f.over_ptr
    over_ids = f.over_ids
    over_values = f.over_values
    for row in range(low, high):
        n_begun = switch_overlay(row, n_begun, row_groups, f.groups, f.replaced, overlay_row)
        size = xi_ptr[row + 1] - xi_ptr[row]
        xi_stamp = new_stamp(space.last_stamp)
        r = 0.0
        for e in range(xi_ptr[row], xi_ptr[row + 1]):
            seen[xi_ids[e]] = xi_stamp
        for e in range(ptr[row], ptr[row + 1]):
            j = members[e]
            over = overlay_row[j]
            if over >= 0:
                begin = over_ptr[over]
                end = over_ptr[over + 1]
                total = marked_sum(begin, end, over_ids, over_values, xi_stamp, seen)
            else:
                total = marked_sum(f_ptr[j], f_ptr[j + 1], f_ids, f_values, xi_stamp, seen)
            guide[e] = total / size
            if seen[j] == xi_stamp:
                r += total / size
        anchor[row] = r / size
    remove_last_overlay(n_begun, f.groups, f.replaced, overlay_row)


@kernel
def walk_diagonal(low, high, walk, out):
    """Q_cc = sum_m P_cm P_mc of the two-step walk Q = P P, for rows [low, high).

    walk : P by rows and by columns, ``records.SmoothingWalk``; out : (n,) float32, the output
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
    """T_ij = mean of Q_jc over c in xi[i] and r_i for j in xi[i]; r_i = mean of Q_cc; Q = P P.

    For rows [low, high).
    ptr, members : C; xi_ptr, xi_ids : xi; walk : P by rows and by columns,
        ``records.SmoothingWalk``
    diagonal : (n,) Q_cc, of ``walk_diagonal``
    guide : T, float32, an entry for each of ``members``; anchor : (n,) float32, r; both are set for
        these rows
    r_i = 0, which means "leave the row as it is", where xi[i] is the row alone or C[i] has less
    than two members outside xi[i].
    """
    ids = walk.ids
    p = walk.p
    in_ptr = walk.in_ptr
    in_ids = walk.in_ids
    in_p = walk.in_p
    n = ids.shape[0]
    in_xi_of = np.full(n, -1, np.int32)
    weight = np.zeros(n, np.float64)  # of each m, the sum of P_mc over c in xi[i]
    for row in range(low, high):
        size = xi_ptr[row + 1] - xi_ptr[row]
        if size < 2 or ptr[row + 1] - ptr[row] - size < 2:
            anchor[row] = 0
            for e in range(ptr[row], ptr[row + 1]):
                guide[e] = 0
            continue
        r = 0.0
        for xi_e in range(xi_ptr[row], xi_ptr[row + 1]):
            c = xi_ids[xi_e]
            in_xi_of[c] = row
            r += diagonal[c]
            for e in range(in_ptr[c], in_ptr[c + 1]):
                weight[in_ids[e]] += in_p[e]
        r /= size
        anchor[row] = r
        for e in range(ptr[row], ptr[row + 1]):
            other = members[e]
            if in_xi_of[other] == row:
                guide[e] = r
            else:
                total = 0.0
                for t in range(ids.shape[1]):
                    total += p[other, t] * weight[ids[other, t]]
                guide[e] = total / size
        for xi_e in range(xi_ptr[row], xi_ptr[row + 1]):
            c = xi_ids[xi_e]
            for e in range(in_ptr[c], in_ptr[c + 1]):
                weight[in_ids[e]] = 0.0


@inner
def step_weight(row, k, ids, squared, farthest, sigma2, stamp, seen):
    """The sum of the affinities of a row to those of its first k neighbours that ``seen`` marks.

    row : where its list is in ``ids`` and ``squared``, which are stored or overlay lists
    ids, squared : (n, K) neighbours, the row itself first, -1 behind the last, and squared
        distances
    farthest : the largest squared distance of the row; sigma2 : sigma^2 of the affinity
    stamp : what ``seen`` has for marked rows
    """
    total = 0.0
    for t in range(1, k):
        if ids[row, t] < 0:
            break
        if seen[ids[row, t]] == stamp:
            total += affinity(squared[row, t], farthest, sigma2)
    return total


@inner
def walk_norms(query, k, sigma2, lists, out):
    """For the overlay lists of a query, the sum of the affinities to the first k neighbours.

    A step of the walk has the affinity over this sum as its probability. It is summed anew, not
    updated from the stored sum: what came and went could leave less than nothing where weights are
    tiny.
    query : its number; k, sigma2 : of the walk, the row itself counted; lists : ``records.Lists``
    out : (n + 2,) float64, set at the rows that the lists stand in for; the rest is left as it is
    """
    ids = lists.over_ids
    squared = lists.over_squared
    farthest = lists.over_farthest
    for over in range(lists.groups[query], lists.groups[query + 1]):
        total = 0.0
        for t in range(1, k):
            if ids[over, t] >= 0:
                total += affinity(squared[over, t], farthest[over], sigma2)
        out[lists.replaced[over]] = total


@inner
def arrival(row, k, lists, sigma2, norms, stamp, one_step_stamp, space):
    """The probability to be at a marked row after two steps of the walk from ``row``.

    k, sigma2 : of the walk; lists : lists of neighbours with their overlay, ``records.Lists``
    norms : (n,) the sum of the affinities of each stored row; those of overlay lists are in
        ``space.total``
    stamp : what ``seen`` has for marked rows
    one_step_stamp : what ``stepped`` has for the rows whose probability to be at a marked row after
        one step is in ``space.scratch`` already
    """
    overlay_row = space.overlay_row
    seen = space.seen
    stepped = space.stepped
    over_norms = space.total
    one_step = space.scratch
    ids = lists.ids
    squared = lists.squared
    farthest = lists.farthest
    over_ids = lists.over_ids
    over_squared = lists.over_squared
    over_farthest = lists.over_farthest
    over = overlay_row[row]
    total = 0.0
    for t in range(1, k):
        middle = over_ids[over, t] if over >= 0 else ids[row, t]
        if middle < 0:
            break
        if stepped[middle] != one_step_stamp:
            stepped[middle] = one_step_stamp
            middle_over = overlay_row[middle]
            if middle_over >= 0:
                weight = step_weight(
                    middle_over,
                    k,
                    over_ids,
                    over_squared,
                    over_farthest[middle_over],
                    sigma2,
                    stamp,
                    seen,
                )
                norm = over_norms[middle]
            else:
                weight = step_weight(middle, k, ids, squared, farthest[middle], sigma2, stamp, seen)
                norm = np.float64(norms[middle])
            one_step[middle] = weight / norm if norm > 0 else 0.0
        if one_step[middle] > 0:
            if over >= 0:
                total += (
                    affinity(over_squared[over, t], over_farthest[over], sigma2) * one_step[middle]
                )
            else:
                total += affinity(squared[row, t], farthest[row], sigma2) * one_step[middle]
    norm = over_norms[row] if over >= 0 else np.float64(norms[row])
    return total / norm if norm > 0 else 0.0


@filling
def query_guides(ptr, members, xi_ptr, xi_ids, lists, k, sigma2, norms, guide, anchor, workspace):
    """T and r for queries, as ``guide_by_walk`` has them, from the walk with each query in it.

    ptr, members, xi_ptr, xi_ids : C and xi of the queries; lists : ``records.Lists``
    k : rows of the walk, the row itself counted; sigma2 : sigma^2 of the affinity
    norms : (n,) the sum of the affinities of each stored row to the k - 1 others
    guide, anchor : float32, T and r of the queries, the output; workspace : scratch arrays
    ``guide_by_walk`` has the columns of P at hand; for a query they would have to be found. The
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
        apply_overlay(query, lists.groups, lists.replaced, space.overlay_row)
        walk_norms(query, k, sigma2, lists, space.total)
        r = 0.0
        xi_stamp = new_stamp(space.last_stamp)
        one_step_stamp = new_stamp(space.last_stamp)
        for e in range(xi_ptr[query], xi_ptr[query + 1]):
            c = xi_ids[e]
            c_stamp = new_stamp(space.last_stamp)
            space.seen[c] = c_stamp
            r += arrival(c, k, lists, sigma2, norms, c_stamp, new_stamp(space.last_stamp), space)
        for e in range(xi_ptr[query], xi_ptr[query + 1]):
            space.seen[xi_ids[e]] = xi_stamp
        anchor[query] = r / size
        for e in range(begin, end):
            j = members[e]
            if space.seen[j] == xi_stamp:
                guide[e] = r / size
            else:
                total = arrival(j, k, lists, sigma2, norms, xi_stamp, one_step_stamp, space)
                guide[e] = total / size
        remove_overlay(query, lists.groups, lists.replaced, space.overlay_row)


@filling
def closed_form(low, high, ptr, f, guide, anchor, beta, out):
    """Smoothed rows [low, high): (r T + 2 beta) / (r^2 + 2 beta) F, and what keeps the row's sum.

    ptr, f : F on the clusters, by rows, sums 1; guide : T, an entry for each of F; anchor : (n,) r
    beta : how much a row holds on to F; out : float32, the output, an entry for each of F
    What is missing from the row's sum is shared equally by all of C[i]; a row with r = 0 and
    beta = 0 stays as it is.
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
