"""A query that is not a row: the rows that stand in for others while it is computed.

The rows among its nearest that would have it in their lists have it there; nobody else notices it.
From these lists, and from an edge to every row that has it or that it has, the stages compute its
rows as they compute all others (``kernels.overlay``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, inner, kernel
from kinrank.kernels.overlay import Lists, named_space, tick
from kinrank.kernels.rows import enlarge

TELLERS = 5  # nearest rows that tell the largest distance of a query


@inner
def affinity(squared, farthest, sigma2):
    """exp(-d^2 / sigma^2), d^2 over the row's farthest."""
    scaled = squared / farthest if farthest > 0 else squared
    return np.exp(-min(np.float64(scaled), 1.0) / sigma2)


@kernel
def farthest_rows(near, near_d, counts, farthest, length):
    """About the largest squared distance of each query: what its nearest rows say of theirs.

    Never less than to the row at ``length``, the last that its own rows are made from.
    """
    out = np.empty(counts.shape[0], np.float32)
    for row in range(counts.shape[0]):
        total = 0.0
        tellers = min(TELLERS, counts[row])
        for t in range(tellers):
            total += farthest[near[row, t]]
        last = min(length, counts[row]) - 1
        mean = total / tellers if tellers > 0 else 0.0
        out[row] = max(mean, np.float64(near_d[row, last])) if last >= 0 else mean
    return out


@inner
def put_query(query, d, ids, values, out_ids, out):
    """A list with the query in it, before rows that are as far; the last drops out."""
    at = ids.shape[0] - 1
    while at > 1 and not values[at - 1] < d:
        at -= 1
    for t in range(ids.shape[0]):
        take = t if t < at else t - 1
        out_ids[t] = query if t == at else ids[take]
        out[t] = d if t == at else values[take]


@kernel
def list_rows(near, near_d, counts, lists, list_d, farthest):
    """The lists of queries, and of those of their nearest rows that would have them in theirs.

    near, near_d, counts : (m, L) nearest rows, squared distances, how many
    Returns the overlay of Lists: groups, names, indices, distances, largest distances; and the
    largest distances of the queries, of ``farthest_rows``.
    """
    m = counts.shape[0]
    n = lists.shape[0]
    k = lists.shape[1]
    far = farthest_rows(near, near_d, counts, farthest, k - 1)
    size = m
    for row in range(m):
        for t in range(min(counts[row], k - 1)):
            size += near_d[row, t] <= list_d[near[row, t], k - 1]
    groups = np.zeros(m + 1, np.int64)
    names = np.empty(size, np.int32)
    ids = np.empty((size, k), np.int32)
    d = np.empty((size, k), np.float32)
    largest = np.empty(size, np.float32)
    at = 0
    for row in range(m):
        count = min(counts[row], k - 1)
        names[at] = n
        largest[at] = far[row]
        ids[at, 0] = n
        d[at, 0] = 0
        for t in range(1, k):
            ids[at, t] = near[row, t - 1] if t <= count else -1
            d[at, t] = near_d[row, t - 1] if t <= count else np.float32(np.inf)
        at += 1
        for t in range(count):
            j = near[row, t]
            near_by = near_d[row, t]
            if near_by <= list_d[j, k - 1]:
                names[at] = j
                largest[at] = farthest[j]
                put_query(n, near_by, lists[j], list_d[j], ids[at], d[at])
                at += 1
        groups[row + 1] = at
    return groups, names, ids, d, largest, far


@filling
def edges_of(query, lists, xi, k, sigma2, kappa, ids, weights):
    """The rows that share an edge with a query, and the weights (W + W^T) / 2; how many.

    k : neighbours in the graph, the row itself counted
    """
    own = lists.groups[query]
    size = 0
    for t in range(1, lists.over_ids.shape[1]):
        other = lists.over_ids[own, t]
        d = lists.over_d[own, t]
        if other < 0:
            break
        weight = affinity(d, lists.over_farthest[own], sigma2) / 2 if t < k else 0.0
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
def tie_row(row, extra, w_ptr, w_ids, w_values, degree, stamp, at, ids, s, w, space):
    """A row of the graph with a query in it; extra : the weight of its edge, 0 for none."""
    n = degree.shape[0]
    own = degree[row]
    if space.seen[row] == stamp:
        own = space.total[row]
    if extra > 0:
        ids[at] = n
        w[at] = extra
        s[at] = extra / np.sqrt(own * space.total[n])
        at += 1
    for e in range(w_ptr[row], w_ptr[row + 1]):
        other = w_ids[e]
        theirs = space.total[other] if space.seen[other] == stamp else degree[other]
        norm = np.sqrt(own * theirs)
        ids[at] = other
        w[at] = w_values[e]
        s[at] = w_values[e] / norm if norm > 0 else 0.0
        at += 1
    return at


@kernel
def graph_rows(lists, xi_ptr, xi, k, sigma2, kappa, w_ptr, w_ids, w_values, degree, space):
    """The rows of S and W that become others when queries are tied into the graph by their edges.

    These are their own, those they have an edge to, and those that share an edge with these, whose
    degrees grow. xi : of the queries; degree : row sums of W
    Returns groups and names of an overlay; pointers, indices, values of S, values of W.
    """
    lists = Lists(*lists)
    space = named_space(space)
    m = lists.groups.shape[0] - 1
    n = degree.shape[0]
    edge_ids = np.empty(lists.over_ids.shape[1], np.int32)
    edges = np.empty(edge_ids.shape[0], np.float32)
    groups = np.zeros(m + 1, np.int64)
    ptr = np.zeros(65, np.int64)
    names = np.empty(64, np.int32)
    ids = np.empty(512, np.int32)
    s = np.empty(512, np.float32)
    w = np.empty(512, np.float32)
    count = at = np.int64(0)
    for query in range(m):
        stamp = tick(space.clock)
        listed = tick(space.clock)
        total = np.float64(0)
        size = np.int64(0)
        own = xi[xi_ptr[query] : xi_ptr[query + 1]]
        end = edges_of(query, lists, own, k, sigma2, kappa, edge_ids, edges)
        for e in range(end):
            j = edge_ids[e]
            space.seen[j] = stamp
            space.stepped[j] = listed
            space.total[j] = degree[j] + edges[e]
            total += edges[e]
            space.touched[size] = j
            size += 1
        for e in range(end):
            for o in range(w_ptr[edge_ids[e]], w_ptr[edge_ids[e] + 1]):
                if space.stepped[w_ids[o]] != listed:
                    space.stepped[w_ids[o]] = listed
                    space.touched[size] = w_ids[o]
                    size += 1
        space.total[n] = total
        needed = at + end
        for t in range(size):
            needed += w_ptr[space.touched[t] + 1] - w_ptr[space.touched[t]] + 1
        if needed > ids.shape[0]:
            ids = enlarge(ids, at, needed)
            s = enlarge(s, at, needed)
            w = enlarge(w, at, needed)
        if count + size + 1 > names.shape[0]:
            names = enlarge(names, count, count + size + 1)
            ptr = enlarge(ptr, count + 1, count + size + 2)
        for e in range(end):
            j = edge_ids[e]
            ids[at] = j
            w[at] = edges[e]
            s[at] = edges[e] / np.sqrt(total * space.total[j])
            at += 1
        names[count] = n
        ptr[count + 1] = at
        count += 1
        for t in range(size):
            row = space.touched[t]
            extra = edges[t] if t < end else np.float32(0)
            at = tie_row(row, extra, w_ptr, w_ids, w_values, degree, stamp, at, ids, s, w, space)
            names[count] = row
            ptr[count + 1] = at
            count += 1
        groups[query + 1] = count
    return groups, names[:count].copy(), ptr[: count + 1].copy(), ids[:at], s[:at], w[:at]


@kernel
def mirrored_rows(ptr, ids, values, rows_ptr, rows_ids, rows_values):
    """Rows of queries, and those of their members with the query in them: F_jq is F_qj.

    Returns an overlay: groups, names, pointers, indices, data.
    """
    m = ptr.shape[0] - 1
    n = rows_ptr.shape[0] - 1
    size = 2 * ids.shape[0]
    for e in range(ids.shape[0]):
        size += rows_ptr[ids[e] + 1] - rows_ptr[ids[e]] if ids[e] < n else 0
    groups = ptr.copy()
    names = np.empty(ids.shape[0], np.int32)
    out_ptr = np.zeros(ids.shape[0] + 1, np.int64)
    out_ids = np.empty(size, np.int32)
    out = np.empty(size, np.float32)
    at = np.int64(0)
    for row in range(m):
        for e in range(ptr[row], ptr[row + 1]):
            j = ids[e]
            names[e] = ids[e]
            for o in range(ptr[row], ptr[row + 1] if j == n else ptr[row]):
                out_ids[at] = ids[o]
                out[at] = values[o]
                at += 1
            if j < n:
                out_ids[at] = n
                out[at] = values[e]
                at += 1
                for o in range(rows_ptr[j], rows_ptr[j + 1]):
                    out_ids[at] = rows_ids[o]
                    out[at] = rows_values[o]
                    at += 1
            out_ptr[e + 1] = at
    return groups, names, out_ptr, out_ids[:at].copy(), out[:at].copy()
