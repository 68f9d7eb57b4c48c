"""Answers of an index: the first k rows of each query by d* = (1 - omega) d' + omega d.

d' compares rows of F', the sparse encoding of a row: it is a sum over the columns that two rows
share (``kernels/measures.py``), and 1 where they share none. d is the squared distance over the
largest one of the query, or the root of that.

Records (``kernels/records.py``):
    queries : QueryLists: vectors, nearest rows ``ids`` with ``squared`` distances, ascending, of
        which ``counts`` are filled; ``farthest``, by which squared distances are divided
    fetched : FetchedDistances: squared distances that a store was asked for, query t has the
        entries ptr[t] to ptr[t + 1] of ``rows, squared``
    filter_lists : FilterLists: query t lists rows[indptr[t] : indptr[t + 1]], is_allow_list[t] says
        whether only these may be results, or all others
    answerable : Answerable: F' of the stored rows by columns, their vectors (or none), omega, and
        ``order``, the number that stands for each row in results and in ties
    space : Space, scratch arrays, an entry for each row: ``seen`` and ``stepped`` mark rows by
        stamps, ``touched`` lists them, ``total`` and ``scratch`` hold a number for each
    groups, replaced, ptr, ids, values : F' of the queries and of the rows that they change, an
        overlay: query t has the sparse rows groups[t] to groups[t + 1], itself first, row i of it
        in place of the stored row replaced[i], with columns ids[ptr[i]:ptr[i + 1]]

Functions under ``kernel`` are called from Python, those under ``helper`` and ``inner`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.divergence import add_columns
from kinrank.kernels.fusion import scaled_distance
from kinrank.kernels.jit import helper, inner, kernel
from kinrank.kernels.measures import entropies, exact_term, finish
from kinrank.kernels.overlay import named_space, new_stamp
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
    answerable,
    out_ids,
    out,
    workspace,
):
    """The first k of queries [low, high) by d*, ascending by (d*, number).

    queries to answerable : see the top of the file; workspace : scratch arrays, as long as there
        are rows
    out_ids, out : (m, k) int32 and float32, the output: ``order`` of the results, -1
        for none, and d*
    Returns ``complete``, (high - low,) bool, whether no other row can be among the first k of a
    query; and the rows that were ranked by a lower bound of d*, as neither the vectors nor
    ``fetched`` tell their distance: query low + i has
    unmeasured_rows[unmeasured_ptr[i]:unmeasured_ptr[i + 1]]. Where there are any, fetch their
    distances and call again.
    """
    space = named_space(workspace)
    complete = np.zeros(high - low, np.bool_)
    unmeasured_ptr = np.zeros(high - low + 1, np.int64)
    unmeasured_rows = np.empty(0, np.int32)
    size = np.int64(0)
    for query in range(low, high):
        count, shared_stamp = compare_query(
            query, groups, replaced, ptr, ids, values, answerable, space
        )
        complete[query - low], n_unmeasured = rank(
            query,
            queries,
            fetched,
            filter_lists,
            answerable,
            count,
            shared_stamp,
            space,
            out_ids[query],
            out[query],
        )
        if size + n_unmeasured > unmeasured_rows.shape[0]:
            unmeasured_rows = enlarge(unmeasured_rows, size, size + n_unmeasured)
        for t in range(n_unmeasured):
            unmeasured_rows[size + t] = space.touched[t]
        size += n_unmeasured
        unmeasured_ptr[query - low + 1] = size
    return complete, unmeasured_ptr, unmeasured_rows[:size].copy()


@helper
def compare_query(query, groups, replaced, ptr, ids, values, answerable, space):
    """d' from a query to all rows that share a column: ``touched`` lists these, ``total`` has d'.

    query : its number; groups to values : F' of queries and of what they change; rows :
        ``Answerable``; rows that the query changes are compared as changed
    Returns how many rows there are, and the stamp that marks them in ``seen``.
    """
    query_row = groups[query]
    query_ids = ids[ptr[query_row] : ptr[query_row + 1]]
    query_values = values[ptr[query_row] : ptr[query_row + 1]]
    count, shared_stamp = compare(query_ids, query_values, answerable, space)
    for e in range(query_ids.shape[0]):
        space.slot[query_ids[e]] = e
    for t in range(query_row + 1, groups[query + 1]):
        row = replaced[t]
        entries = slice(ptr[t], ptr[t + 1])
        d_prime = exact_divergence(
            answerable.measure, query_values, ids[entries], values[entries], space.slot
        )
        if space.seen[row] != shared_stamp:
            space.seen[row] = shared_stamp
            space.touched[count] = row
            count += 1
        space.total[row] = d_prime
    for e in range(query_ids.shape[0]):
        space.slot[query_ids[e]] = -1
    return count, shared_stamp


@inner
def exact_divergence(measure, u, v_ids, v, slot):
    """d' of two rows of F' in float64, so that equal rows are equally far.

    u : the values of one; slot : (n + 2,) which of them each column has, -1 where it has none
    v_ids, v : the columns and values of the other
    """
    total = 0.0
    u_squared_norm = 0.0
    v_squared_norm = 0.0
    for e in range(v.shape[0]):
        entry = slot[v_ids[e]]
        if entry >= 0 and v[e] > 0 and u[entry] > 0:
            total += exact_term(measure, np.float64(u[entry]), np.float64(v[e]))
    for value in u:
        u_squared_norm += np.float64(value) * value
    for value in v:
        v_squared_norm += np.float64(value) * value
    return finish(measure, total, u_squared_norm, v_squared_norm)


@helper
def compare(ids, values, answerable, space):
    """d' from one row of F' to all stored rows that share a column: in ``touched`` and ``total``.

    ids, values : the row; columns that no stored row has, as a query's own, are left out
    answerable, space : see the top of the file
    Returns how many rows there are, and the stamp that marks them in ``seen``.
    """
    measure = answerable.measure
    norms = answerable.norms
    n = norms.shape[0]
    n_stored = 0
    squared_norm = 0.0
    stored_ids = np.empty_like(ids)
    stored_values = np.empty_like(values)
    for e in range(ids.shape[0]):
        squared_norm += np.float64(values[e]) * values[e]
        if ids[e] < n:
            stored_ids[n_stored] = ids[e]
            stored_values[n_stored] = values[e]
            n_stored += 1
    stamp = new_stamp(space.last_stamp)
    total = space.total
    touched = space.touched
    count = add_columns(
        measure,
        stored_ids[:n_stored],
        stored_values[:n_stored],
        entropies(stored_values[:n_stored]),
        answerable.columns,
        stamp,
        total,
        space.seen,
        touched,
        0,
    )
    for t in range(count):
        other = touched[t]
        total[other] = finish(measure, total[other], squared_norm, norms[other])
    return count, stamp


@kernel
def compared_rows(ids, values, answerable, workspace):
    """The rows that share a column with a row of F', and d' to them, float64; see ``compare``."""
    space = named_space(workspace)
    count, _ = compare(ids, values, answerable, space)
    shared_rows = space.touched[:count].copy()
    return shared_rows, space.total[shared_rows]


@inner
def rank(
    query, queries, fetched, filter_lists, answerable, n_touched, shared_stamp, space, out_ids, out
):
    """The first k of a query among its nearest rows and those that share a column with it.

    n_touched, shared_stamp : of ``compare_query``, whose rows are in ``touched`` with d' in
        ``total``
    out_ids, out : (k,) int32 and float32, the output; other arguments as in ``answer_rows``
    A row that is not among the nearest is no nearer than the last of them: most are ruled out by
    that bound. Where its distance is not known, the bound stands for it. Where the filter is an
    allow-list, all its rows are looked at instead.
    Returns whether no other row can be among the first k, and how many rows, the first in
    ``touched``, were ranked by the bound.
    """
    order = answerable.order
    vectors = answerable.vectors
    n_gallery = answerable.n_gallery
    omega = answerable.omega
    root = answerable.root
    farthest = queries.farthest[query]
    neighbors = queries.ids[query]
    neighbor_squared = queries.squared[query]
    n_neighbors = queries.counts[query]
    x = queries.vectors[query]
    filtered = filter_lists.rows[filter_lists.indptr[query] : filter_lists.indptr[query + 1]]
    is_allow_list = filter_lists.is_allow_list[query]
    touched = space.touched
    divergence = space.total
    squared = space.scratch  # of the rows that ``stepped`` marks as listed or fetched
    seen = space.seen
    stepped = space.stepped
    k = out.shape[0]
    size = np.int64(0)
    n_unmeasured = np.int64(0)
    d = np.float32(0)
    one_minus_omega = np.float32(1) - omega
    is_listed = new_stamp(space.last_stamp)
    is_fetched = new_stamp(space.last_stamp)
    is_excluded = new_stamp(space.last_stamp)
    if not is_allow_list:
        for row in filtered:
            stepped[row] = is_excluded
    for t in range(n_neighbors):
        row = neighbors[t]
        d = scaled_distance(neighbor_squared[t], farthest, root)
        if stepped[row] == is_excluded:
            continue
        stepped[row] = is_listed
        if is_allow_list:
            squared[row] = neighbor_squared[t]
        elif order[row] < n_gallery:
            d_prime = np.float32(divergence[row]) if seen[row] == shared_stamp else np.float32(1)
            size = heap_offer(
                out, out_ids, size, k, one_minus_omega * d_prime + omega * d, order[row]
            )
    # No row that is not among the nearest has a smaller omega d.
    least_omega_d = omega * d
    for e in range(fetched.ptr[query], fetched.ptr[query + 1]):
        stepped[fetched.rows[e]] = is_fetched
        squared[fetched.rows[e]] = fetched.squared[e]
    if is_allow_list:
        for row in filtered:
            value = one_minus_omega * (
                np.float32(divergence[row]) if seen[row] == shared_stamp else np.float32(1)
            )
            if stepped[row] == is_listed or (stepped[row] == is_fetched and squared[row] < np.inf):
                value += omega * scaled_distance(np.float32(squared[row]), farthest, root)
            elif vectors.shape[0] > 0:
                value += omega * scaled_distance(squared_distance(x, vectors[row]), farthest, root)
            else:
                touched[n_unmeasured] = row
                n_unmeasured += 1
                continue
            size = heap_offer(out, out_ids, size, k, value, order[row])
    else:
        for t in range(n_touched):
            row = touched[t]
            value = one_minus_omega * np.float32(divergence[row])
            if size == k and value + least_omega_d > out[0]:
                continue  # most of them, without a look at what else is known
            if stepped[row] == is_listed or stepped[row] == is_excluded or order[row] >= n_gallery:
                continue
            if vectors.shape[0] > 0:
                value += omega * scaled_distance(squared_distance(x, vectors[row]), farthest, root)
            elif stepped[row] == is_fetched and squared[row] < np.inf:
                value += omega * scaled_distance(np.float32(squared[row]), farthest, root)
            else:  # offered last: a bound rules nobody out
                touched[n_unmeasured] = row
                n_unmeasured += 1
                continue
            size = heap_offer(out, out_ids, size, k, value, order[row])
    for t in range(n_unmeasured):
        row = touched[t]
        value = one_minus_omega * (
            np.float32(divergence[row]) if seen[row] == shared_stamp else np.float32(1)
        )
        size = heap_offer(out, out_ids, size, k, value + least_omega_d, order[row])
    looked_at_all = is_allow_list or n_neighbors == order.shape[0]
    complete = looked_at_all or (size == k and out[0] < one_minus_omega + least_omega_d)
    sort_heap(out, out_ids, size)
    out_ids[size:] = -1
    out[size:] = np.inf
    return complete, n_unmeasured
