"""A query that is not a row: which stored rows would change if it were there, and how.

The rows among its nearest that would have it in their lists have it there; nobody else notices it.
These lists, the query's own among them, are an overlay: rows that stand in for stored ones while
the query is computed (``kernels/overlay.py``). From them, and from an edge to every row that has
the query in its list or that it has in its own, the stages compute its rows as they compute others.

    list_rows       the overlay of lists of neighbours
    graph_rows      the overlay of the affinity graph W and of S, its normalised form
    mirrored_rows   the overlay of the similarity F

The number of a query is n, one behind the last stored row, whichever of m queries it is. In an
overlay query t has the rows groups[t] to groups[t + 1]; overlay row i stands in for the stored row
replaced[i]. A sparse matrix is ``ptr, ids, values``: row i has the columns ids[ptr[i]:ptr[i + 1]].
xi[i] are the confident neighbours of row i.

Functions under ``kernel`` and ``filling`` are called from Python, those under ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.affinity import affinity
from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.overlay import named_space, new_stamp
from kinrank.kernels.rows import enlarge

_N_AVERAGED = 5  # nearest rows, whose largest distances estimate that of the query by their mean


@kernel
def farthest_rows(neighbors, squared, counts, farthest, length):
    """An estimate of the largest squared distance of each query: the mean of its nearest rows'.

    neighbors, squared : (m, L) the nearest rows and their squared distances; counts : (m,) how many
        are filled
    farthest : (n,) the largest squared distance of each stored row
    length : the estimate is at least the distance to this one of the nearest, counted from 1, the
        last that the stages read
    Returns (m,) float32.
    """
    out = np.empty(counts.shape[0], np.float32)
    for query in range(counts.shape[0]):
        total = 0.0
        averaged = min(_N_AVERAGED, counts[query])
        for t in range(averaged):
            total += farthest[neighbors[query, t]]
        last = min(length, counts[query]) - 1
        mean = total / averaged if averaged > 0 else 0.0
        out[query] = max(mean, np.float64(squared[query, last])) if last >= 0 else mean
    return out


@inner
def put_query(query, query_squared, ids, squared, out_ids, out_squared):
    """Copy a row's list with a query put into it, before rows that are as far; the last drops out.

    query, query_squared : its number, n, and its squared distance to the row
    ids, squared : (K,) the list and its squared distances; out_ids, out_squared : (K,)
        int32 and float32, the output
    """
    position = ids.shape[0] - 1
    while position > 1 and not squared[position - 1] < query_squared:
        position -= 1
    for t in range(ids.shape[0]):
        source = t if t < position else t - 1
        out_ids[t] = query if t == position else ids[source]
        out_squared[t] = query_squared if t == position else squared[source]


@kernel
def list_rows(neighbors, squared, counts, lists, list_squared, farthest):
    """The lists of queries, and of those of their nearest rows that would have them in theirs.

    neighbors, squared : (m, L) the nearest rows and their squared distances; counts : (m,) how many
        are filled
    lists, list_squared, farthest : (n, K), (n, K), (n,) the stored lists, a row itself first, their
        squared distances, and the largest squared distance of each row
    Returns an overlay of lists: groups (m + 1,), replaced (rows,), indices (rows, K), squared
    distances (rows, K), largest squared distances (rows,); and the largest squared distances of the
    queries, (m,), as ``farthest_rows`` estimates them.
    """
    m = counts.shape[0]
    n = lists.shape[0]
    k = lists.shape[1]
    query_farthest = farthest_rows(neighbors, squared, counts, farthest, k - 1)
    capacity = m
    for query in range(m):
        for t in range(min(counts[query], k - 1)):
            capacity += squared[query, t] <= list_squared[neighbors[query, t], k - 1]
    groups = np.zeros(m + 1, np.int64)
    replaced = np.empty(capacity, np.int32)
    out_ids = np.empty((capacity, k), np.int32)
    out_squared = np.empty((capacity, k), np.float32)
    out_farthest = np.empty(capacity, np.float32)
    size = 0
    for query in range(m):
        count = min(counts[query], k - 1)
        replaced[size] = n
        out_farthest[size] = query_farthest[query]
        out_ids[size, 0] = n
        out_squared[size, 0] = 0
        for t in range(1, k):
            out_ids[size, t] = neighbors[query, t - 1] if t <= count else -1
            out_squared[size, t] = squared[query, t - 1] if t <= count else np.float32(np.inf)
        size += 1
        for t in range(count):
            row = neighbors[query, t]
            query_squared = squared[query, t]
            if query_squared <= list_squared[row, k - 1]:
                replaced[size] = row
                out_farthest[size] = farthest[row]
                put_query(
                    n,
                    query_squared,
                    lists[row],
                    list_squared[row],
                    out_ids[size],
                    out_squared[size],
                )
                size += 1
        groups[query + 1] = size
    return groups, replaced, out_ids, out_squared, out_farthest, query_farthest


@filling
def edges_of(query, lists, xi, k, sigma2, kappa, ids, weights):
    """The rows that share an edge with a query in the graph W, and the weights of the edges.

    A weight is (W_qj + W_jq) / 2 with W_ij = exp(-d^2 / sigma^2), times kappa where j is in xi[i].
    query : its number among the queries; lists : stored lists and overlay, ``records.Lists``
    xi : confident neighbours of the query, int32
    k : neighbours in the graph, the row itself counted; sigma2, kappa : sigma^2 and kappa of W
    ids, weights : (K,) int32 and float32, of which as many are written as there are edges
    Returns how many there are.
    """
    over = lists.groups[query]
    size = 0
    for t in range(1, lists.over_ids.shape[1]):
        other = lists.over_ids[over, t]
        squared = lists.over_squared[over, t]
        if other < 0:
            break
        weight = affinity(squared, lists.over_farthest[over], sigma2) / 2 if t < k else 0.0
        if squared <= lists.squared[other, k - 1]:
            weight += affinity(squared, lists.farthest[other], sigma2) / 2
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
    row, query_weight, w_ptr, w_ids, w_values, degree, stamp, size, out_ids, out_s, out_w, space
):
    """Row ``row`` of W and of S with a query tied to it, written from entry ``size`` on.

    query_weight : W of its edge to the query, 0 for none
    w_ptr, w_ids, w_values, degree : W of all rows, and its row sums (n,)
    stamp : rows that ``space.seen`` marks with it have their new row sum in ``space.total``
    out_ids, out_s, out_w : columns, values of S, values of W; returns where they end
    """
    n = degree.shape[0]
    row_degree = space.total[row] if space.seen[row] == stamp else degree[row]
    if query_weight > 0:
        out_ids[size] = n
        out_w[size] = query_weight
        out_s[size] = query_weight / np.sqrt(row_degree * space.total[n])
        size += 1
    for e in range(w_ptr[row], w_ptr[row + 1]):
        other = w_ids[e]
        other_degree = space.total[other] if space.seen[other] == stamp else degree[other]
        norm = np.sqrt(row_degree * other_degree)
        out_ids[size] = other
        out_w[size] = w_values[e]
        out_s[size] = w_values[e] / norm if norm > 0 else 0.0
        size += 1
    return size


@kernel
def graph_rows(lists, xi_ptr, xi_ids, k, sigma2, kappa, w_ptr, w_ids, w_values, degree, workspace):
    """The rows of S and W that change when queries are tied into the graph by their edges.

    These are the queries' own, those they have an edge to, and those that share an edge with these,
    whose entries of S change with the row sums (degrees).
    lists : stored lists and overlay, ``records.Lists``; xi_ptr, xi_ids : xi of the queries
    k, sigma2, kappa : as in ``edges_of``
    w_ptr, w_ids, w_values, degree : W of all rows, and its row sums (n,)
    workspace : scratch arrays, as long as there are rows
    Returns an overlay: groups, replaced rows; pointers, columns, values of S, values of W.
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
    n_rows = np.int64(0)
    n_entries = np.int64(0)
    for query in range(m):
        degree_stamp = new_stamp(space.last_stamp)
        listed_stamp = new_stamp(space.last_stamp)
        query_degree = np.float64(0)
        n_changed = np.int64(0)
        xi = xi_ids[xi_ptr[query] : xi_ptr[query + 1]]
        n_edges = edges_of(query, lists, xi, k, sigma2, kappa, edge_ids, edge_weights)
        for e in range(n_edges):
            row = edge_ids[e]
            space.seen[row] = degree_stamp
            space.stepped[row] = listed_stamp
            space.total[row] = degree[row] + edge_weights[e]
            query_degree += edge_weights[e]
            space.touched[n_changed] = row
            n_changed += 1
        for e in range(n_edges):
            for entry in range(w_ptr[edge_ids[e]], w_ptr[edge_ids[e] + 1]):
                if space.stepped[w_ids[entry]] != listed_stamp:
                    space.stepped[w_ids[entry]] = listed_stamp
                    space.touched[n_changed] = w_ids[entry]
                    n_changed += 1
        space.total[n] = query_degree
        needed = n_entries + n_edges
        for t in range(n_changed):
            needed += w_ptr[space.touched[t] + 1] - w_ptr[space.touched[t]] + 1
        if needed > ids.shape[0]:
            ids = enlarge(ids, n_entries, needed)
            s = enlarge(s, n_entries, needed)
            w = enlarge(w, n_entries, needed)
        if n_rows + n_changed + 1 > replaced.shape[0]:
            replaced = enlarge(replaced, n_rows, n_rows + n_changed + 1)
            ptr = enlarge(ptr, n_rows + 1, n_rows + n_changed + 2)
        for e in range(n_edges):
            row = edge_ids[e]
            ids[n_entries] = row
            w[n_entries] = edge_weights[e]
            s[n_entries] = edge_weights[e] / np.sqrt(query_degree * space.total[row])
            n_entries += 1
        replaced[n_rows] = n
        ptr[n_rows + 1] = n_entries
        n_rows += 1
        for t in range(n_changed):
            row = space.touched[t]
            query_weight = edge_weights[t] if t < n_edges else np.float32(0)
            n_entries = tied_row(
                row,
                query_weight,
                w_ptr,
                w_ids,
                w_values,
                degree,
                degree_stamp,
                n_entries,
                ids,
                s,
                w,
                space,
            )
            replaced[n_rows] = row
            ptr[n_rows + 1] = n_entries
            n_rows += 1
        groups[query + 1] = n_rows
    return (
        groups,
        replaced[:n_rows].copy(),
        ptr[: n_rows + 1].copy(),
        ids[:n_entries],
        s[:n_entries],
        w[:n_entries],
    )


@kernel
def mirrored_rows(ptr, ids, values, stored_ptr, stored_ids, stored_values):
    """F of queries, and F of the members of their clusters with the query in it: F_jq is F_qj.

    ptr, ids, values : F of the queries, each of which (n) is among its own columns
    stored_ptr, stored_ids, stored_values : F of all rows
    Returns an overlay: groups, replaced rows, pointers, columns, values.
    """
    m = ptr.shape[0] - 1
    n = stored_ptr.shape[0] - 1
    capacity = 2 * ids.shape[0]
    for e in range(ids.shape[0]):
        capacity += stored_ptr[ids[e] + 1] - stored_ptr[ids[e]] if ids[e] < n else 0
    groups = ptr.copy()
    replaced = np.empty(ids.shape[0], np.int32)
    out_ptr = np.zeros(ids.shape[0] + 1, np.int64)
    out_ids = np.empty(capacity, np.int32)
    out = np.empty(capacity, np.float32)
    n_entries = np.int64(0)
    for query in range(m):
        for e in range(ptr[query], ptr[query + 1]):
            member = ids[e]
            replaced[e] = member
            if member == n:
                for entry in range(ptr[query], ptr[query + 1]):
                    out_ids[n_entries] = ids[entry]
                    out[n_entries] = values[entry]
                    n_entries += 1
            else:
                out_ids[n_entries] = n
                out[n_entries] = values[e]
                n_entries += 1
                for entry in range(stored_ptr[member], stored_ptr[member + 1]):
                    out_ids[n_entries] = stored_ids[entry]
                    out[n_entries] = stored_values[entry]
                    n_entries += 1
            out_ptr[e + 1] = n_entries
    return groups, replaced, out_ptr, out_ids[:n_entries].copy(), out[:n_entries].copy()
