"""A query that is not a row: the rows that stand in for others while it is computed.

The rows among its nearest that would have it in their lists have it there; nobody else notices it.
From these lists, and from an edge to every row that has it or that it has, the stages compute its
rows as they compute all others (``kernels.overlay``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.affinity import affinity
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.overlay import named_space, tick
from kinrank.kernels.rows import enlarge

_FARTHEST_OF = 5  # nearest rows; the mean of their largest distances estimates the query's


@kernel
def farthest_rows(neighbors, squared, counts, farthest, length):
    """An estimate of the largest squared distance of each query: the mean of its nearest rows'.

    neighbors, squared, counts : (m, L) nearest rows, squared distances, how many
    farthest : (n,) the largest squared distance of each stored row
    Never less than the distance to the row at ``length``, the last that the stages read.
    """
    out = np.empty(counts.shape[0], np.float32)
    for query in range(counts.shape[0]):
        total = 0.0
        averaged = min(_FARTHEST_OF, counts[query])
        for t in range(averaged):
            total += farthest[neighbors[query, t]]
        last = min(length, counts[query]) - 1
        mean = total / averaged if averaged > 0 else 0.0
        out[query] = max(mean, np.float64(squared[query, last])) if last >= 0 else mean
    return out


@inner
def put_query(query, d, ids, values, out_ids, out):
    """A list with the query in it, before rows that are as far; the last drops out.

    query, d : its number, n, and its squared distance; ids, values : the list
    """
    position = ids.shape[0] - 1
    while position > 1 and not values[position - 1] < d:
        position -= 1
    for t in range(ids.shape[0]):
        source = t if t < position else t - 1
        out_ids[t] = query if t == position else ids[source]
        out[t] = d if t == position else values[source]


@kernel
def list_rows(neighbors, squared, counts, lists, list_d, farthest):
    """The lists of queries, and of those of their nearest rows that would have them in theirs.

    neighbors, squared, counts : (m, L) nearest rows, squared distances, how many
    lists, list_d, farthest : of all rows, as in ``records.Lists``
    Returns the overlay of Lists: groups, replaced, indices, distances, largest distances; and the
    largest distances of the queries, of ``farthest_rows``.
    """
    m = counts.shape[0]
    n = lists.shape[0]
    k = lists.shape[1]
    query_farthest = farthest_rows(neighbors, squared, counts, farthest, k - 1)
    size = m
    for query in range(m):
        for t in range(min(counts[query], k - 1)):
            size += squared[query, t] <= list_d[neighbors[query, t], k - 1]
    groups = np.zeros(m + 1, np.int64)
    replaced = np.empty(size, np.int32)
    out_ids = np.empty((size, k), np.int32)
    out_d = np.empty((size, k), np.float32)
    out_farthest = np.empty(size, np.float32)
    at = 0
    for query in range(m):
        count = min(counts[query], k - 1)
        replaced[at] = n
        out_farthest[at] = query_farthest[query]
        out_ids[at, 0] = n
        out_d[at, 0] = 0
        for t in range(1, k):
            out_ids[at, t] = neighbors[query, t - 1] if t <= count else -1
            out_d[at, t] = squared[query, t - 1] if t <= count else np.float32(np.inf)
        at += 1
        for t in range(count):
            row = neighbors[query, t]
            d = squared[query, t]
            if d <= list_d[row, k - 1]:
                replaced[at] = row
                out_farthest[at] = farthest[row]
                put_query(n, d, lists[row], list_d[row], out_ids[at], out_d[at])
                at += 1
        groups[query + 1] = at
    return groups, replaced, out_ids, out_d, out_farthest, query_farthest


@filling
def edges_of(query, lists, xi, k, sigma2, kappa, ids, weights):
    """The rows that share an edge with a query, and the weights (W + W^T) / 2; how many.

    lists : see ``records.Lists``; xi : confident neighbours of the query
    k : neighbours in the graph, the row itself counted
    ids, weights : room for as many as a list is long
    """
    over = lists.groups[query]
    size = 0
    for t in range(1, lists.over_ids.shape[1]):
        other = lists.over_ids[over, t]
        d = lists.over_d[over, t]
        if other < 0:
            break
        weight = affinity(d, lists.over_farthest[over], sigma2) / 2 if t < k else 0.0
        if d <= lists.d[other, k - 1]:
            weight += affinity(d, lists.farthest[other], sigma2) / 2
        if weight > 0:
            for member in xi:
                if member == other:
                    weight *= kappa
            ids[size] = other
            weights[size] = weight
            size += weights[size] > 0  # unless it is too small for float32
    return size


@inner
def tied_row(
    row, query_weight, w_ptr, w_ids, w_values, degree, stamp, at, out_ids, out_s, out_w, space
):
    """A row of the graph with a query in it, written from out_ids[at] on; returns where it ends.

    query_weight : of its edge to the query, 0 for none
    degree : (n,) row sums of W; rows that ``seen`` marks with the stamp have theirs in ``total``
    """
    n = degree.shape[0]
    row_degree = space.total[row] if space.seen[row] == stamp else degree[row]
    if query_weight > 0:
        out_ids[at] = n
        out_w[at] = query_weight
        out_s[at] = query_weight / np.sqrt(row_degree * space.total[n])
        at += 1
    for e in range(w_ptr[row], w_ptr[row + 1]):
        other = w_ids[e]
        other_degree = space.total[other] if space.seen[other] == stamp else degree[other]
        norm = np.sqrt(row_degree * other_degree)
        out_ids[at] = other
        out_w[at] = w_values[e]
        out_s[at] = w_values[e] / norm if norm > 0 else 0.0
        at += 1
    return at


@kernel
def graph_rows(lists, xi_ptr, xi_ids, k, sigma2, kappa, w_ptr, w_ids, w_values, degree, workspace):
    """The rows of S and W that become others when queries are tied into the graph by their edges.

    These are their own, those they have an edge to, and those that share an edge with these, whose
    degrees grow.
    lists : see ``records.Lists``; xi_ptr, xi_ids : confident neighbours of the queries
    k : neighbours in the graph, the row itself counted
    w_ptr, w_ids, w_values, degree : W of all rows, and its row sums
    Returns groups and replaced rows of an overlay; pointers, indices, values of S, values of W.
    """
    space = named_space(workspace)
    m = lists.groups.shape[0] - 1
    n = degree.shape[0]
    edge_ids = np.empty(lists.over_ids.shape[1], np.int32)
    edge_weights = np.empty(edge_ids.shape[0], np.float32)
    groups = np.zeros(m + 1, np.int64)
    ptr = np.zeros(65, np.int64)
    replaced = np.empty(64, np.int32)
    ids = np.empty(512, np.int32)
    s = np.empty(512, np.float32)
    w = np.empty(512, np.float32)
    count = np.int64(0)
    at = np.int64(0)
    for query in range(m):
        stamp = tick(space.clock)
        listed = tick(space.clock)
        query_degree = np.float64(0)
        size = np.int64(0)
        xi = xi_ids[xi_ptr[query] : xi_ptr[query + 1]]
        n_edges = edges_of(query, lists, xi, k, sigma2, kappa, edge_ids, edge_weights)
        for e in range(n_edges):
            row = edge_ids[e]
            space.seen[row] = stamp
            space.stepped[row] = listed
            space.total[row] = degree[row] + edge_weights[e]
            query_degree += edge_weights[e]
            space.touched[size] = row
            size += 1
        for e in range(n_edges):
            for o in range(w_ptr[edge_ids[e]], w_ptr[edge_ids[e] + 1]):
                if space.stepped[w_ids[o]] != listed:
                    space.stepped[w_ids[o]] = listed
                    space.touched[size] = w_ids[o]
                    size += 1
        space.total[n] = query_degree
        needed = at + n_edges
        for t in range(size):
            needed += w_ptr[space.touched[t] + 1] - w_ptr[space.touched[t]] + 1
        if needed > ids.shape[0]:
            ids = enlarge(ids, at, needed)
            s = enlarge(s, at, needed)
            w = enlarge(w, at, needed)
        if count + size + 1 > replaced.shape[0]:
            replaced = enlarge(replaced, count, count + size + 1)
            ptr = enlarge(ptr, count + 1, count + size + 2)
        for e in range(n_edges):
            row = edge_ids[e]
            ids[at] = row
            w[at] = edge_weights[e]
            s[at] = edge_weights[e] / np.sqrt(query_degree * space.total[row])
            at += 1
        replaced[count] = n
        ptr[count + 1] = at
        count += 1
        for t in range(size):
            row = space.touched[t]
            query_weight = edge_weights[t] if t < n_edges else np.float32(0)
            at = tied_row(
                row,
                query_weight,
                w_ptr,
                w_ids,
                w_values,
                degree,
                stamp,
                at,
                ids,
                s,
                w,
                space,
            )
            replaced[count] = row
            ptr[count + 1] = at
            count += 1
        groups[query + 1] = count
    return groups, replaced[:count].copy(), ptr[: count + 1].copy(), ids[:at], s[:at], w[:at]


@kernel
def mirrored_rows(ptr, ids, values, stored_ptr, stored_ids, stored_values):
    """F of queries, and F of their members with the query in it: F_jq is F_qj.

    ptr, ids, values : F of the queries, itself (n) among its members; stored_* : F of all rows
    Returns an overlay: groups, replaced rows, pointers, indices, data.
    """
    m = ptr.shape[0] - 1
    n = stored_ptr.shape[0] - 1
    size = 2 * ids.shape[0]
    for e in range(ids.shape[0]):
        size += stored_ptr[ids[e] + 1] - stored_ptr[ids[e]] if ids[e] < n else 0
    groups = ptr.copy()
    replaced = np.empty(ids.shape[0], np.int32)
    out_ptr = np.zeros(ids.shape[0] + 1, np.int64)
    out_ids = np.empty(size, np.int32)
    out = np.empty(size, np.float32)
    at = np.int64(0)
    for query in range(m):
        for e in range(ptr[query], ptr[query + 1]):
            member = ids[e]
            replaced[e] = member
            if member == n:
                for o in range(ptr[query], ptr[query + 1]):
                    out_ids[at] = ids[o]
                    out[at] = values[o]
                    at += 1
            else:
                out_ids[at] = n
                out[at] = values[e]
                at += 1
                for o in range(stored_ptr[member], stored_ptr[member + 1]):
                    out_ids[at] = stored_ids[o]
                    out[at] = stored_values[o]
                    at += 1
            out_ptr[e + 1] = at
    return groups, replaced, out_ptr, out_ids[:at].copy(), out[:at].copy()
