"""The last stages of a query: whose rows are averaged, and P and F' in one call.

Python holds the interpreter between two calls, for which other callers wait.
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import helper, kernel
from kinrank.kernels.lists import enhancing_rows
from kinrank.kernels.overlay import named_space, tick
from kinrank.kernels.product import TIE, product_rows
from kinrank.kernels.records import Rows
from kinrank.kernels.rows import enlarge, gather_rows


@kernel
def propagated_rows(enhanced, transition, supports, squares, keep, order, position, workspace):
    """P and F' of queries and of the rows that they change.

    enhanced : enhanced F of all rows, and in the overlay that of the queries and of the rows that
        average them, see ``records.Rows``
    transition : P of all rows, see ``Csr``; read with ``squares`` alone
    supports : whether rows to which P leads a query become rows of the overlay too
    squares : whether F' = P P, or P F
    keep, order, position : as in ``product.product_rows``
    Returns the groups and replaced rows of an overlay; then pointers, indices and data of its
    enhanced rows, of P and of F'.
    """
    none = np.int64(0)
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
        one_each = np.arange(groups.shape[0])
        p_ptr, p_ids, p_values = product_rows(
            none,
            query_rows.shape[0],
            query_ptr,
            query_ids,
            query_values,
            one_each,
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
    size = replaced.shape[0]
    p_ptr, p_ids, p_values = product_rows(
        none, size, ptr, ids, values, groups, enhanced, keep, order, position, workspace
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
        none, size, p_ptr, p_ids, p_values, groups, right, none, order, position, workspace
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

    A partner has the query in N(j, k) or in xi[j]; xi[j] is that which is stored, and the query.
    lists : see ``records.Lists``
    xi_ptr, xi_ids : confident neighbours of the queries; stored_* : of all rows
    Returns the groups and replaced rows of an overlay; pointers, indices and weights, see
    ``lists.enhancing_rows``.
    """
    m = lists.groups.shape[0] - 1
    n = stored_xi_ptr.shape[0] - 1
    groups = np.zeros(m + 1, np.int64)
    replaced = np.empty(lists.replaced.shape[0], np.int32)
    nearest = np.empty((replaced.shape[0], k), np.int32)
    partner_xi_ptr = np.zeros(replaced.shape[0] + 1, np.int64)
    partner_xi_ids = np.empty(xi_ids.shape[0] + 64, np.int32)
    at = np.int64(0)
    count = 0
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
            if at + xi.shape[0] + 1 > partner_xi_ids.shape[0]:
                partner_xi_ids = enlarge(partner_xi_ids, at, at + xi.shape[0] + 1)
            if is_confident and row < n:
                partner_xi_ids[at] = n
                at += 1
            for member in xi:
                partner_xi_ids[at] = member
                at += 1
            for t in range(k):
                nearest[count, t] = lists.over_ids[over, t]
            replaced[count] = row
            partner_xi_ptr[count + 1] = at
            count += 1
        groups[query + 1] = count
    ptr = partner_xi_ptr[: count + 1] + k * np.arange(count + 1)
    ids = np.empty(ptr[count], np.int32)
    weights = np.empty(ptr[count], np.float32)
    enhancing_rows(0, count, nearest, k, kappa, partner_xi_ptr, partner_xi_ids, ptr, ids, weights)
    return groups, replaced[:count].copy(), ptr, ids, weights


@helper
def supported_rows(enhanced, p_ptr, p_ids, p_values, workspace):
    """The overlay's rows, and the other rows to which P gives a query more than an even share.

    A partner leads these to the query in turn, so that their rows of P and F' become others too;
    the rest hardly matter and cost as much.
    enhanced : as in ``propagated_rows``; p_ptr, p_ids, p_values : P of the queries
    Returns groups and replaced rows; pointers, indices, data of the enhanced rows.
    """
    space = named_space(workspace)
    groups = enhanced.groups
    replaced = enhanced.replaced
    m = groups.shape[0] - 1
    n = space.seen.shape[0] - 2
    count = 0
    out_groups = np.zeros(m + 1, np.int64)
    out_replaced = np.empty(replaced.shape[0] + p_ids.shape[0], np.int32)
    over_rows = np.full(out_replaced.shape[0], -1)  # -1: the stored row
    for query in range(m):
        stamp = tick(space.clock)
        space.seen[n] = stamp
        for over in range(groups[query], groups[query + 1]):
            out_replaced[count] = replaced[over]
            over_rows[count] = over
            space.seen[replaced[over]] = stamp
            count += 1
        size = 0
        for e in range(p_ptr[query], p_ptr[query + 1]):
            size += p_values[e] > 0
        even = (1 + TIE) / max(size, 1)  # equal entries have an even share, however rounded
        for e in range(p_ptr[query], p_ptr[query + 1]):
            if p_values[e] > even and space.seen[p_ids[e]] != stamp:
                out_replaced[count] = p_ids[e]
                count += 1
        out_groups[query + 1] = count
    out_replaced = out_replaced[:count].copy()
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
