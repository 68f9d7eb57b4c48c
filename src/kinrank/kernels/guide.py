"""What the neighbours say: T and r of the neighbour-guided smoothing, and its closed form."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.overlay import Lists, Rows, begins, ended, enter, leave, named_space, tick
from kinrank.kernels.query import affinity


@inner
def marked_sum(begin, end, ids, values, mark, marks):
    """The sum of a sparse row over the columns that are marked."""
    total = 0.0
    for e in range(begin, end):
        if marks[ids[e]] == mark:
            total += values[e]
    return total


@filling
def guide_by_similarity(
    low, high, ptr, members, groups, f, xi_ptr, xi_members, guide, anchor, space
):
    """T_ij = mean of F_jc over c in xi[i], for j in C[i]; r_i = mean of T_ic over c in xi[i].

    ptr, members : C of the rows that are wanted; f : F, see Rows; guide : (nnz,) T; anchor : (n,) r
    """
    f = Rows(*f)
    space = named_space(space)
    query = np.int64(0)
    place = space.place
    seen = space.seen
    f_ptr = f.ptr
    f_ids = f.ids
    f_values = f.values
    over_ptr = f.over_ptr
    over_ids = f.over_ids
    over_values = f.over_values
    for row in range(low, high):
        query = begins(row, query, groups, f.groups, f.names, place)
        size = xi_ptr[row + 1] - xi_ptr[row]
        inside = tick(space.clock)
        r = 0.0
        for e in range(xi_ptr[row], xi_ptr[row + 1]):
            seen[xi_members[e]] = inside
        for e in range(ptr[row], ptr[row + 1]):
            j = members[e]
            at = place[j]
            if at >= 0:
                begin = over_ptr[at]
                end = over_ptr[at + 1]
                total = marked_sum(begin, end, over_ids, over_values, inside, seen)
            else:
                total = marked_sum(f_ptr[j], f_ptr[j + 1], f_ids, f_values, inside, seen)
            guide[e] = total / size
            if seen[j] == inside:
                r += total / size
        anchor[row] = r / size
    ended(query, f.groups, f.names, place)


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
def guide_by_walk(low, high, ptr, members, xi_ptr, xi_members, walk, diagonal, guide, anchor):
    """T_ij = mean of Q_jc over c in xi[i] and r for j in xi[i]; r_i = mean of Q_cc; Q = P P.

    walk : as for ``walk_diagonal``
    r_i = 0, which means "leave the row as it is", where xi[i] is the row alone or C[i] has less
    than two members outside xi[i].
    """
    ids, p, in_ptr, in_ids, in_p = walk
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


@inner
def step_into(row, k, ids, d, far, sigma2, mark, marks):
    """The weight of all steps of a row's walk that end in marked rows."""
    total = 0.0
    for t in range(1, k):
        if ids[row, t] < 0:
            break
        if marks[ids[row, t]] == mark:
            total += affinity(d[row, t], far, sigma2)
    return total


@inner
def walk_norms(query, k, sigma2, lists, out):
    """The sum of the weights of each list of a query's overlay.

    Summed anew: what came and went could leave less than nothing where weights are tiny.
    """
    ids = lists.over_ids
    d = lists.over_d
    far = lists.over_farthest
    for row in range(lists.groups[query], lists.groups[query + 1]):
        total = 0.0
        for t in range(1, k):
            if ids[row, t] >= 0:
                total += affinity(d[row, t], far[row], sigma2)
        out[lists.names[row]] = total


@inner
def arrival(row, k, lists, sigma2, norms, mark, memo, space):
    """The chance to be at a marked row after two steps of the walk from a row.

    Chances of the second step are kept in ``mass``, where ``stepped`` has the stamp ``memo``.
    """
    place = space.place
    seen = space.seen
    stepped = space.stepped
    over_norms = space.total
    chances = space.mass
    ids = lists.ids
    d = lists.d
    far = lists.farthest
    over_ids = lists.over_ids
    over_d = lists.over_d
    over_far = lists.over_farthest
    at = place[row]
    total = 0.0
    for t in range(1, k):
        m = over_ids[at, t] if at >= 0 else ids[row, t]
        if m < 0:
            break
        if stepped[m] != memo:
            stepped[m] = memo
            other = place[m]
            if other >= 0:
                into = step_into(other, k, over_ids, over_d, over_far[other], sigma2, mark, seen)
                norm = over_norms[m]
            else:
                into = step_into(m, k, ids, d, far[m], sigma2, mark, seen)
                norm = np.float64(norms[m])
            chances[m] = into / norm if norm > 0 else 0.0
        if chances[m] > 0:
            if at >= 0:
                total += affinity(over_d[at, t], over_far[at], sigma2) * chances[m]
            else:
                total += affinity(d[row, t], far[row], sigma2) * chances[m]
    norm = over_norms[row] if at >= 0 else np.float64(norms[row])
    return total / norm if norm > 0 else 0.0


@filling
def query_guides(ptr, members, xi_ptr, xi_members, lists, k, sigma2, norms, guide, anchor, space):
    """``guide_by_walk`` for queries: T and r from the walk with each query in it.

    lists : see Lists; norms : (n,) sums of the weights of a row's walk
    A kernel of its own: there the columns of P are at hand, here they would have to be found. The
    walk is followed forwards instead, which takes ten times as many steps for a row.
    """
    lists = Lists(*lists)
    space = named_space(space)
    for query in range(ptr.shape[0] - 1):
        size = xi_ptr[query + 1] - xi_ptr[query]
        begin = ptr[query]
        end = ptr[query + 1]
        anchor[query] = 0
        for e in range(begin, end):
            guide[e] = 0
        if size < 2 or end - begin - size < 2:
            continue
        enter(query, lists.groups, lists.names, space.place)
        walk_norms(query, k, sigma2, lists, space.total)
        r = 0.0
        inside = tick(space.clock)
        memo = tick(space.clock)
        for e in range(xi_ptr[query], xi_ptr[query + 1]):
            c = xi_members[e]
            alone = tick(space.clock)
            space.seen[c] = alone
            r += arrival(c, k, lists, sigma2, norms, alone, tick(space.clock), space)
        for e in range(xi_ptr[query], xi_ptr[query + 1]):
            space.seen[xi_members[e]] = inside
        anchor[query] = r / size
        for e in range(begin, end):
            j = members[e]
            if space.seen[j] == inside:
                guide[e] = r / size
            else:
                found = arrival(j, k, lists, sigma2, norms, inside, memo, space)
                guide[e] = found / size
        leave(query, lists.groups, lists.names, space.place)


@filling
def closed_form(low, high, ptr, f, guide, anchor, beta, out):
    """The smoothed row: (r T + 2b) / (r^2 + 2b) F + what keeps its sum, shared by all of C[i]."""
    for row in range(low, high):
        begin = ptr[row]
        end = ptr[row + 1]
        r = np.float64(anchor[row])
        if r * r + 2 * beta <= 0:
            for e in range(begin, end):
                out[e] = f[e]
            continue
        norm = moved = np.float64(0)
        for e in range(begin, end):
            norm += f[e]
            moved += min(np.float64(guide[e]), r) * f[e]
        scale = r * r + 2 * beta
        # Not below 0, as T is at most r; rounding may think otherwise.
        share = max((r * r * norm - r * moved) / ((end - begin) * scale), 0.0)
        for e in range(begin, end):
            t = min(np.float64(guide[e]), r)
            out[e] = (r * t + 2 * beta) / scale * f[e] + share
