"""The last stages of a query: whose rows are averaged, and P and F' in one call.

Python holds the interpreter between two calls, for which other callers wait.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import helper, kernel
from kinrank.kernels.lists import enhancing_rows
from kinrank.kernels.overlay import Lists, named_space, tick
from kinrank.kernels.product import TIE, product_rows
from kinrank.kernels.rows import enlarge, gather_rows


@kernel
def propagated_rows(f, rows, transition, supports, squares, keep, names, places, space):
    """P and F' of queries and of the rows that they change.

    f : their enhanced rows: groups, names, pointers, indices, data; rows : of all rows
    transition : P of all rows; supports : whether P leads queries to further rows
    squares : F' = P P, or P F
    Returns enhanced rows, P and F': groups and names, then pointers, indices, data of each.
    """
    groups = f[0]
    own = f[1]
    over = (*rows, *f)
    none = np.int64(0)
    if supports:
        first = groups[:-1]
        each = np.arange(groups.shape[0])
        a = gather_rows(first, own[first], *f[2:], *f[2:])
        p = product_rows(none, first.shape[0], *a, each, over, keep, names, places, space)
        f = supported_rows(f, rows, *p, space)
        groups = f[0]
        own = f[1]
    # With P = F^T F the row of a query would be its column of F, which the rows do not hold;
    # similarities are mutual, so its own row stands for it.
    size = own.shape[0]
    p = product_rows(none, size, *f[2:], groups, over, keep, names, places, space)
    behind = (*transition, groups, own, *p) if squares else over
    made = product_rows(none, size, *p, groups, behind, none, names, places, space)
    return groups, own, f[2:], p, made


@kernel
def partner_rows(lists, k, kappa, xi_ptr, xi, rows_xi_ptr, rows_xi):
    """Whose rows queries, and the rows that would average them, their partners, are the means of.

    A partner has the query in N(j, k) or in xi[j]; xi[j] is that which is stored, and the query.
    Returns groups and names; pointers, indices and weights, see ``enhancing_rows``.
    """
    lists = Lists(*lists)
    m = lists.groups.shape[0] - 1
    n = rows_xi_ptr.shape[0] - 1
    groups = np.zeros(m + 1, np.int64)
    names = np.empty(lists.names.shape[0], np.int32)
    out = np.empty((names.shape[0], k), np.int32)
    ptr = np.zeros(names.shape[0] + 1, np.int64)
    at = np.int64(0)
    count = 0
    ids = np.empty(xi.shape[0] + 64, np.int32)
    for query in range(m):
        own = xi[xi_ptr[query] : xi_ptr[query + 1]]
        for row in range(lists.groups[query], lists.groups[query + 1]):
            j = lists.names[row]
            mutual = False
            entered = False
            for c in own:
                mutual |= c == j
            for t in range(k):
                entered |= lists.over_ids[row, t] == n
            if not (mutual or entered):
                continue
            begin, end = (rows_xi_ptr[j], rows_xi_ptr[j + 1]) if j < n else (0, own.shape[0])
            if at + end - begin + 1 > ids.shape[0]:
                ids = enlarge(ids, at, at + end - begin + 1)
            if mutual and j < n:
                ids[at] = n
                at += 1
            for e in range(begin, end):
                ids[at] = rows_xi[e] if j < n else own[e]
                at += 1
            for t in range(k):
                out[count, t] = lists.over_ids[row, t]
            names[count] = j
            ptr[count + 1] = at
            count += 1
        groups[query + 1] = count
    begins = ptr[: count + 1] + k * np.arange(count + 1)
    out_ids = np.empty(begins[count], np.int32)
    weights = np.empty(begins[count], np.float32)
    enhancing_rows(0, count, out, k, kappa, ptr, ids, begins, out_ids, weights)
    return groups, names[:count].copy(), begins, out_ids, weights


@helper
def supported_rows(f, rows, p_ptr, p_ids, p, space):
    """Partners, and the other rows to which P gives a query more than an even share.

    A partner leads these to the query in turn, so that their rows of P and F' become others too;
    the rest hardly matter and cost as much.
    f : enhanced rows of queries and partners, as in ``propagated_rows``; rows : of all rows
    p_ptr, p_ids, p : P of the queries
    Returns groups and names; pointers, indices, data of the enhanced rows.
    """
    groups = f[0]
    names = f[1]
    space = named_space(space)
    m = groups.shape[0] - 1
    n = space.seen.shape[0] - 2
    count = 0
    out_groups = np.zeros(m + 1, np.int64)
    out_names = np.empty(names.shape[0] + p_ids.shape[0], np.int32)
    places = np.full(out_names.shape[0], -1)
    for query in range(m):
        stamp = tick(space.clock)
        space.seen[n] = stamp
        for row in range(groups[query], groups[query + 1]):
            out_names[count] = names[row]
            places[count] = row
            space.seen[names[row]] = stamp
            count += 1
        size = 0
        for e in range(p_ptr[query], p_ptr[query + 1]):
            size += p[e] > 0
        even = (1 + TIE) / max(size, 1)  # equal entries have an even share, however rounded
        for e in range(p_ptr[query], p_ptr[query + 1]):
            if p[e] > even and space.seen[p_ids[e]] != stamp:
                out_names[count] = p_ids[e]
                count += 1
        out_groups[query + 1] = count
    out_names = out_names[:count].copy()
    made = gather_rows(places, out_names, *f[2:], *rows)
    return out_groups, out_names, made[0], made[1], made[2]
