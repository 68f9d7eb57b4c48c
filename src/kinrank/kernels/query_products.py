"""The last stages of a query: whose rows are averaged, and P and F' in one call.

F is the similarity of a row (smoothed, then enhanced: averaged over neighbours), P = F F the
transition matrix, and F' = P P (or P F) the encoding by which rows are compared. One call, as
Python holds the interpreter between two calls, for which other callers wait.

An overlay is rows that stand in for stored ones while a query is computed: query t has the overlay
rows groups[t] to groups[t + 1], and overlay row i stands in for the stored row replaced[i]; the
query itself is row n. A sparse matrix is ``ptr, ids, values``: row i has the columns
ids[ptr[i]:ptr[i + 1]].

Functions under ``kernel`` are called from Python, those under ``helper`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import helper, kernel
from kinrank.kernels.lists import enhancing_rows
from kinrank.kernels.overlay import named_space, new_stamp
from kinrank.kernels.product import TIE, product_rows
from kinrank.kernels.records import Rows
from kinrank.kernels.rows import enlarge, gather_rows


@kernel
def propagated_rows(enhanced, transition, supports, squares, keep, order, position, workspace):
    """P and F' of queries and of the rows that they change.

    enhanced : enhanced F of all rows, and in its overlay that of the queries and of the rows that
        average them, ``records.Rows``
    transition : P of all rows, ``ptr, ids, values``; read with ``squares`` alone
    supports : whether rows to which P leads a query become rows of the overlay too
    squares : whether F' = P P, or P F
    keep : how many entries of a row of P are kept
    order, position : (n,) the user's number of each row, by which ties go, and its inverse
    workspace : scratch arrays, as long as there are rows
    Returns an overlay: groups and replaced rows; then (pointers, columns, values) of its enhanced
    rows, of its rows of P and of F'.
    """
    zero = np.int64(0)  # a plain 0 has a type of its own, for which kernels are compiled again
    groups = enhanced.groups
    replaced = enhanced.replaced
    ptr = enhanced.over_ptr
    ids = enhanced.over_ids
    values = enhanced.over_values
    if supports:
        query_rows = groups[:-1]
        query_ptr, query_ids, query_values = gather_rows(
            query_rows, replaced[query_rows], ptr, ids, values, ptr, ids, values
        )
        one_row_each = np.arange(groups.shape[0])
        p_ptr, p_ids, p_values = product_rows(
            zero,
            query_rows.shape[0],
            query_ptr,
            query_ids,
            query_values,
            one_row_each,
            enhanced,
            keep,
            order,
            position,
            workspace,
        )
        groups, replaced, ptr, ids, values = supported_rows(
            enhanced, p_ptr, p_ids, p_values, workspace
        )
    # With P = F^T F the row of a query would be its column of F, which the rows do not hold;
    # similarities are mutual, so its own row stands for it.
    n_rows = replaced.shape[0]
    p_ptr, p_ids, p_values = product_rows(
        zero, n_rows, ptr, ids, values, groups, enhanced, keep, order, position, workspace
    )
    if squares:
        right = Rows(
            transition.ptr,
            transition.ids,
            transition.values,
            groups,
            replaced,
            p_ptr,
            p_ids,
            p_values,
        )
    else:
        right = enhanced
    encoding_ptr, encoding_ids, encoding = product_rows(
        zero, n_rows, p_ptr, p_ids, p_values, groups, right, zero, order, position, workspace
    )
    return (
        groups,
        replaced,
        (ptr, ids, values),
        (p_ptr, p_ids, p_values),
        (encoding_ptr, encoding_ids, encoding),
    )


@kernel
def partner_rows(lists, k, kappa, xi_ptr, xi_ids, stored_xi_ptr, stored_xi_ids):
    """Whose rows are averaged for queries, and for the rows that average them, their partners.

    A partner j has the query in N(j, k), the first k of its list, or in xi[j], its confident
    neighbours; xi[j] is what is stored, and the query.
    lists : stored lists and overlay, ``records.Lists``; k : the row itself counted
    kappa : the weight of xi over that of N(j, k)
    xi_ptr, xi_ids : xi of the queries; stored_xi_ptr, stored_xi_ids : of all rows
    Returns an overlay: groups and replaced rows; then a sparse matrix, pointers, columns and
    weights: row i averages the rows of F that its columns name (``lists.enhancing_rows``).
    """
    m = lists.groups.shape[0] - 1
    n = stored_xi_ptr.shape[0] - 1
    groups = np.zeros(m + 1, np.int64)
    replaced = np.empty(lists.replaced.shape[0], np.int32)
    nearest = np.empty((replaced.shape[0], k), np.int32)
    partner_xi_ptr = np.zeros(replaced.shape[0] + 1, np.int64)
    partner_xi_ids = np.empty(xi_ids.shape[0] + 64, np.int32)
    n_members = np.int64(0)
    n_rows = 0
    for query in range(m):
        query_xi = xi_ids[xi_ptr[query] : xi_ptr[query + 1]]
        for over in range(lists.groups[query], lists.groups[query + 1]):
            row = lists.replaced[over]
            is_confident = False
            lists_query = False
            for member in query_xi:
                is_confident |= member == row
            for t in range(k):
                lists_query |= lists.over_ids[over, t] == n
            if not (is_confident or lists_query):
                continue
            xi = query_xi
            if row < n:
                xi = stored_xi_ids[stored_xi_ptr[row] : stored_xi_ptr[row + 1]]
            if n_members + xi.shape[0] + 1 > partner_xi_ids.shape[0]:
                partner_xi_ids = enlarge(partner_xi_ids, n_members, n_members + xi.shape[0] + 1)
            if is_confident and row < n:
                partner_xi_ids[n_members] = n
                n_members += 1
            for member in xi:
                partner_xi_ids[n_members] = member
                n_members += 1
            for t in range(k):
                nearest[n_rows, t] = lists.over_ids[over, t]
            replaced[n_rows] = row
            partner_xi_ptr[n_rows + 1] = n_members
            n_rows += 1
        groups[query + 1] = n_rows
    ptr = partner_xi_ptr[: n_rows + 1] + k * np.arange(n_rows + 1)
    ids = np.empty(ptr[n_rows], np.int32)
    weights = np.empty(ptr[n_rows], np.float32)
    enhancing_rows(0, n_rows, nearest, k, kappa, partner_xi_ptr, partner_xi_ids, ptr, ids, weights)
    return groups, replaced[:n_rows].copy(), ptr, ids, weights


@helper
def supported_rows(enhanced, p_ptr, p_ids, p_values, workspace):
    """The overlay's rows, and the other rows to which P gives a query more than an even share.

    A partner leads these to the query in turn, so that their rows of P and F' change too; the rest
    hardly change and cost as much.
    enhanced : enhanced F with its overlay, ``records.Rows``; p_ptr, p_ids, p_values : P of the
        queries
    workspace : scratch arrays, as long as there are rows
    Returns an overlay: groups and replaced rows; pointers, columns and values of its enhanced rows.
    """
    space = named_space(workspace)
    groups = enhanced.groups
    replaced = enhanced.replaced
    m = groups.shape[0] - 1
    n = space.seen.shape[0] - 2
    n_rows = 0
    out_groups = np.zeros(m + 1, np.int64)
    out_replaced = np.empty(replaced.shape[0] + p_ids.shape[0], np.int32)
    over_rows = np.full(out_replaced.shape[0], -1)  # -1: the stored row
    for query in range(m):
        stamp = new_stamp(space.last_stamp)
        space.seen[n] = stamp
        for over in range(groups[query], groups[query + 1]):
            out_replaced[n_rows] = replaced[over]
            over_rows[n_rows] = over
            space.seen[replaced[over]] = stamp
            n_rows += 1
        n_positive = 0
        for e in range(p_ptr[query], p_ptr[query + 1]):
            n_positive += p_values[e] > 0
        # Equal entries have an even share, however rounded.
        even_share = (1 + TIE) / max(n_positive, 1)
        for e in range(p_ptr[query], p_ptr[query + 1]):
            if p_values[e] > even_share and space.seen[p_ids[e]] != stamp:
                out_replaced[n_rows] = p_ids[e]
                n_rows += 1
        out_groups[query + 1] = n_rows
    out_replaced = out_replaced[:n_rows].copy()
    ptr, ids, values = gather_rows(
        over_rows,
        out_replaced,
        enhanced.over_ptr,
        enhanced.over_ids,
        enhanced.over_values,
        enhanced.ptr,
        enhanced.ids,
        enhanced.values,
    )
    return out_groups, out_replaced, ptr, ids, values
