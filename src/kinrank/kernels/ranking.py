"""Answers of an index: d' from queries to all rows, and the first k by (1 - omega) d' + omega d."""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import add_columns
from kinrank.kernels.fusion import plain_distance
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.measures import entropies, exact_term, finish
from kinrank.kernels.overlay import named_space, tick
from kinrank.kernels.rows import enlarge
from kinrank.kernels.topk import heap_offer, sort_heap, squared_distance


@kernel
def answer_rows(
    low,
    high,
    queries,
    fetched,
    filter_lists,
    groups,
    replaced,
    ptr,
    ids,
    values,
    rows,
    out_ids,
    out,
    workspace,
):
    """The first k of queries [low, high) by d*, ascending by (d*, number).

    queries, fetched, filter_lists, rows : see ``records.QueryLists``, ``FetchedDistances``,
        ``FilterLists`` and ``Answerable``
    groups, replaced, ptr, ids, values : F' of the queries and of the rows that they change, an
        overlay as in ``records.Rows``
    out_ids, out : (m, k) the numbers that rows have for users, -1 for none, and d*
    Returns, for each query, whether no other row can be among the first k; and pointers and rows of
    those that were ranked by a lower bound, as their distances are not known. Where there are any,
    call again with their distances in ``fetched``.
    """
    space = named_space(workspace)
    complete = np.zeros(high - low, np.bool_)
    unknown_ptr = np.zeros(high - low + 1, np.int64)
    unknown_rows = np.empty(0, np.int32)
    at = np.int64(0)
    for query in range(low, high):
        count, shared = compare_query(query, groups, replaced, ptr, ids, values, rows, space)
        complete[query - low], unknown = rank(
            query,
            queries,
            fetched,
            filter_lists,
            rows,
            count,
            shared,
            space,
            out_ids[query],
            out[query],
        )
        if at + unknown > unknown_rows.shape[0]:
            unknown_rows = enlarge(unknown_rows, at, at + unknown)
        for t in range(unknown):
            unknown_rows[at + t] = space.touched[t]
        at += unknown
        unknown_ptr[query - low + 1] = at
    return complete, unknown_ptr, unknown_rows[:at].copy()


@helper
def compare_query(query, groups, replaced, ptr, ids, values, rows, space):
    """d' from a query to all rows that share a column: the rows in ``touched``, d' in ``total``.

    groups to rows : as in ``answer_rows``; rows that the query changes are compared as changed
    Returns how many rows there are, and the stamp that marks them in ``seen``.
    """
    query_row = groups[query]
    query_ids = ids[ptr[query_row] : ptr[query_row + 1]]
    query_values = values[ptr[query_row] : ptr[query_row + 1]]
    count, shared = compare(query_ids, query_values, rows, space)
    for e in range(query_ids.shape[0]):
        space.slot[query_ids[e]] = e
    for t in range(query_row + 1, groups[query + 1]):
        row = replaced[t]
        entries = slice(ptr[t], ptr[t + 1])
        d_prime = exact_divergence(
            rows.measure, query_values, ids[entries], values[entries], space.slot
        )
        if space.seen[row] != shared:
            space.seen[row] = shared
            space.touched[count] = row
            count += 1
        space.total[row] = d_prime
    for e in range(query_ids.shape[0]):
        space.slot[query_ids[e]] = -1
    return count, shared


@inner
def exact_divergence(measure, u, v_ids, v, slot):
    """d' of two rows in float64, so that equal rows are equally far.

    u : the values of one; slot : where these are by column, -1 where it has none
    v_ids, v : the columns and values of the other
    """
    total = 0.0
    u_norm = 0.0
    v_norm = 0.0
    for e in range(v.shape[0]):
        at = slot[v_ids[e]]
        if at >= 0 and v[e] > 0 and u[at] > 0:
            total += exact_term(measure, np.float64(u[at]), np.float64(v[e]))
    for value in u:
        u_norm += np.float64(value) * value
    for value in v:
        v_norm += np.float64(value) * value
    return finish(measure, total, u_norm, v_norm)


@helper
def compare(ids, values, rows, space):
    """d' from one row of F' to all rows that share a column: in ``touched`` and ``total``.

    ids, values : the row; columns beyond those of ``rows``, as a query's own, are shared by none
    Returns how many rows there are, and the stamp that marks them in ``seen``.
    """
    measure = rows.measure
    norms = rows.norms
    n = norms.shape[0]
    size = 0
    norm = 0.0
    stored_ids = np.empty_like(ids)
    stored_values = np.empty_like(values)
    for e in range(ids.shape[0]):
        norm += np.float64(values[e]) * values[e]
        if ids[e] < n:
            stored_ids[size] = ids[e]
            stored_values[size] = values[e]
            size += 1
    stamp = tick(space.clock)
    total = space.total
    touched = space.touched
    count = add_columns(
        measure,
        stored_ids[:size],
        stored_values[:size],
        entropies(stored_values[:size]),
        rows.columns,
        stamp,
        total,
        space.seen,
        touched,
        0,
    )
    for t in range(count):
        other = touched[t]
        total[other] = finish(measure, total[other], norm, norms[other])
    return count, stamp


@kernel
def compared_rows(ids, values, rows, workspace):
    """The rows that share a column with a row of F', and d' to them; see ``compare``."""
    space = named_space(workspace)
    count, _ = compare(ids, values, rows, space)
    shared_rows = space.touched[:count].copy()
    return shared_rows, space.total[shared_rows]


@inner
def rank(query, queries, fetched, filter_lists, rows, count, shared, space, out_ids, out):
    """The first k of a query among its nearest rows and those that share a column with it.

    count, shared : of ``compare_query``, whose rows are in ``touched`` with d' in ``total``
    A row that is not among the nearest is no nearer than the last of them: most are ruled out by
    that bound. Where its distance is not known, the bound stands for it. Where the filter allows
    some rows only, all of these are looked at instead.
    Returns whether no other row can be among the first k, and how many rows in ``touched`` were
    ranked by the bound.
    """
    order = rows.order
    vectors = rows.vectors
    n_gallery = rows.n_gallery
    omega = rows.omega
    root = rows.root
    farthest = queries.farthest[query]
    neighbors = queries.ids[query]
    neighbor_squared = queries.squared[query]
    n_neighbors = queries.counts[query]
    x = queries.vectors[query]
    filtered = filter_lists.rows[filter_lists.indptr[query] : filter_lists.indptr[query + 1]]
    only = filter_lists.is_allow_list[query]
    touched = space.touched
    divergence = space.total
    squared = space.mass  # of the rows that ``stepped`` marks as listed or fetched
    seen = space.seen
    stepped = space.stepped
    k = out.shape[0]
    size = np.int64(0)
    unknown = np.int64(0)
    d = np.float32(0)
    share = np.float32(1) - omega
    is_listed = tick(space.clock)
    is_fetched = tick(space.clock)
    is_barred = tick(space.clock)
    if not only:
        for row in filtered:
            stepped[row] = is_barred
    for t in range(n_neighbors):
        row = neighbors[t]
        d = plain_distance(neighbor_squared[t], farthest, root)
        if stepped[row] == is_barred:
            continue
        stepped[row] = is_listed
        if only:
            squared[row] = neighbor_squared[t]
        elif order[row] < n_gallery:
            d_prime = np.float32(divergence[row]) if seen[row] == shared else np.float32(1)
            size = heap_offer(out, out_ids, size, k, share * d_prime + omega * d, order[row])
    least_d = omega * d  # of rows that are not among the nearest
    for e in range(fetched.ptr[query], fetched.ptr[query + 1]):
        stepped[fetched.rows[e]] = is_fetched
        squared[fetched.rows[e]] = fetched.squared[e]
    if only:
        for row in filtered:
            value = share * (np.float32(divergence[row]) if seen[row] == shared else np.float32(1))
            if stepped[row] == is_listed or (stepped[row] == is_fetched and squared[row] < np.inf):
                value += omega * plain_distance(np.float32(squared[row]), farthest, root)
            elif vectors.shape[0] > 0:
                value += omega * plain_distance(squared_distance(x, vectors[row]), farthest, root)
            else:
                touched[unknown] = row
                unknown += 1
                continue
            size = heap_offer(out, out_ids, size, k, value, order[row])
    else:
        for t in range(count):
            row = touched[t]
            value = share * np.float32(divergence[row])
            if size == k and value + least_d > out[0]:
                continue  # most of them, without a look at what else is known
            if stepped[row] == is_listed or stepped[row] == is_barred or order[row] >= n_gallery:
                continue
            if vectors.shape[0] > 0:
                value += omega * plain_distance(squared_distance(x, vectors[row]), farthest, root)
            elif stepped[row] == is_fetched and squared[row] < np.inf:
                value += omega * plain_distance(np.float32(squared[row]), farthest, root)
            else:  # offered last: a bound rules nobody out
                touched[unknown] = row
                unknown += 1
                continue
            size = heap_offer(out, out_ids, size, k, value, order[row])
    for t in range(unknown):
        row = touched[t]
        value = share * (np.float32(divergence[row]) if seen[row] == shared else np.float32(1))
        size = heap_offer(out, out_ids, size, k, value + least_d, order[row])
    looked_at_all = only or n_neighbors == order.shape[0]
    complete = looked_at_all or (size == k and out[0] < share + least_d)
    sort_heap(out, out_ids, size)
    out_ids[size:] = -1
    out[size:] = np.inf
    return complete, unknown
