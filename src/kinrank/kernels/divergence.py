"""Distances between sparse distributions: only shared columns count.

Every measure is a sum over shared columns of a term of (u, v), and a last step:

    js          1 + 1/2 sum f(u) + f(v) - f(u + v),  f(x) = x log2 x
    jaccard     1 - m / (2 - m),  m = sum min(u, v)
    cosine      1 - m / (|u| |v|),  m = sum u v
    euclidean   sqrt(|u|^2 + |v|^2 - 2 m),  m = sum u v
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.gather import fetch
from kinrank.kernels.jit import filling, helper, inner, kernel
from kinrank.kernels.rows import begin_sums, enlarge

JS = 0
JACCARD = 1
COSINE = 2
EUCLIDEAN = 3
BUFFER = 256

_ROOT_HALF = np.int32(0x3F3504F3)
# log2(1 + m) / m for m in [sqrt(1/2) - 1, sqrt(2) - 1]: least squares, off by less than 4e-8.
_FIT = (
    1.442695,
    -0.721347333,
    0.480910642,
    -0.360704833,
    0.287917586,
    -0.238919953,
    0.215675436,
    -0.20742503,
    0.126139669,
)
_L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8, _L9 = (np.float32(c) for c in _FIT)


@inner
def xlog2x(x):
    """x log2 x of a float32 that is not negative; 0 for 0.

    x = 2^e (1 + m), and log2(1 + m) is a polynomial: numba's logarithm does not vectorise, and a
    loop over this does.
    """
    bits = np.float32(x).view(np.int32)
    e = (bits - _ROOT_HALF) >> np.int32(23)
    m = np.int32(bits - (e << np.int32(23))).view(np.float32) - np.float32(1)
    high = _L5 + m * (_L6 + m * (_L7 + m * (_L8 + m * _L9)))
    return x * (np.float32(e) + m * (_L1 + m * (_L2 + m * (_L3 + m * (_L4 + m * high)))))


@filling
def norm_rows(low, high, ptr, values, out):
    """Squared Euclidean norm of rows [low, high)."""
    for row in range(low, high):
        total = 0.0
        for e in range(ptr[row], ptr[row + 1]):
            total += np.float64(values[e]) * values[e]
        out[row] = total


@kernel
def row_norms(ptr, values):
    """Squared Euclidean norm of every row."""
    norms = np.empty(ptr.shape[0] - 1, np.float64)
    norm_rows(np.int64(0), norms.shape[0], ptr, values, norms)
    return norms


@filling
def entropy_rows(low, high, ptr, values, out):
    """x log2 x of the entries of rows [low, high)."""
    for e in range(ptr[low], ptr[high]):
        out[e] = xlog2x(values[e])


@kernel
def entropies(values):
    """x log2 x of every entry."""
    out = np.empty(values.shape[0], np.float32)
    for e in range(values.shape[0]):
        out[e] = xlog2x(values[e])
    return out


@filling
def finish(measure, total, u_norm, v_norm):
    """From the sum over shared columns to the distance."""
    if measure == JS:
        return min(max(1.0 + 0.5 * total, 0.0), 1.0)
    if measure == JACCARD:
        return min(max(1.0 - total / (2.0 - total), 0.0), 1.0)
    if measure == COSINE:
        norm = np.sqrt(np.float64(u_norm) * v_norm)
        return min(max(1.0 - total / norm, 0.0), 1.0) if norm > 0 else 1.0
    return np.sqrt(max(np.float64(u_norm) + v_norm - 2.0 * total, 0.0))


@inner
def column_terms(measure, u, fu, v, fv, term):
    """The terms of one value with those of a column, at most BUFFER; returns their factor."""
    if measure == JS:
        for t in range(v.shape[0]):
            term[t] = fu + fv[t] - xlog2x(u + v[t])
    elif measure == JACCARD:
        for t in range(v.shape[0]):
            term[t] = min(u, v[t])
    else:
        for t in range(v.shape[0]):
            term[t] = v[t]
    return np.float64(u) if measure >= COSINE else 1.0


@helper
def add_columns(measure, ids, values, f, columns, stamp, total, seen, touched, count):
    """The sums of one row with all rows that share a column with it; returns how many there are.

    ids, values, f : the row and its x log2 x; columns : pointers, rows, values and x log2 x of the
        others by columns
    total : the sums, of the rows that ``seen`` marks with the stamp and ``touched`` lists,
        the first ``count`` of them already; ``touched`` has room for one more than there are rows
    """
    term = np.empty(BUFFER, np.float32)
    in_ptr, in_ids, in_values, in_f = columns
    for e in range(ids.shape[0]):
        column = ids[e]
        for begin in range(in_ptr[column], in_ptr[column + 1], BUFFER):
            part = slice(begin, min(begin + BUFFER, in_ptr[column + 1]))
            scale = column_terms(measure, values[e], f[e], in_values[part], in_f[part], term)
            others = in_ids[part]
            count = begin_sums(others, stamp, count, seen, total, touched)
            for t in range(others.shape[0]):
                total[np.uint32(others[t])] += scale * term[t]
    return count


@helper
def add_ranges(
    measure, begins, ends, values, f, columns, first, stamp, total, seen, touched, count
):
    """As ``add_columns``, where most rows >= ``first`` share a column: ranges of their entries.

    Sums of all rows begin with 0 and none is looked up, which saves about a third of the time.
    """
    term = np.empty(BUFFER, np.float32)
    in_ids = columns[1]
    in_values = columns[2]
    in_f = columns[3]
    total[first:] = 0.0
    for e in range(begins.shape[0]):
        for begin in range(begins[e], ends[e], BUFFER):
            part = slice(begin, min(begin + BUFFER, ends[e]))
            scale = column_terms(measure, values[e], f[e], in_values[part], in_f[part], term)
            others = in_ids[part]
            for t in range(others.shape[0]):
                total[np.uint32(others[t])] += scale * term[t]
    for other in range(first, total.shape[0]):
        touched[np.uint64(count)] = other
        count += (seen[other] != stamp) & (total[other] != 0)
    return count


@helper
def add_long_columns(measure, ids, values, f, columns, first, stamp, total, seen, touched, count):
    """As ``add_columns``, for columns so long that most rows >= ``first`` share one."""
    ptr = columns[0]
    begins = np.empty(ids.shape[0], np.int64)
    ends = np.empty(ids.shape[0], np.int64)
    for e in range(ids.shape[0]):
        begins[e] = ptr[ids[e]]
        ends[e] = ptr[ids[e] + 1]
    return add_ranges(
        measure, begins, ends, values, f, columns, first, stamp, total, seen, touched, count
    )


@inner
def column_entries(ids, in_ptr):
    """How many entries the columns of a row have."""
    entries = np.int64(0)
    for column in ids:
        entries += in_ptr[column + 1] - in_ptr[column]
    return entries


@inner
def add_listed(listed, first, stamp, total, seen, touched):
    """Begin sums with the listed rows >= ``first``, shared columns or not; returns how many."""
    count = 0
    for other in listed:
        if other >= first and seen[other] != stamp:
            seen[other] = stamp
            total[other] = 0.0
            touched[count] = other
            count += 1
    return count


@kernel
def divergence_rows(low, high, measure, csr, f, columns, norms, lists, first):
    """Rows [low, high) against all rows >= ``first`` that share a column or are listed for them.

    csr : the distributions; f : their x log2 x; columns : the same by columns (only rows >= first)
    lists : (n, K) further rows to answer for
    Returns lengths, indices (of rows, in no order), distances.
    """
    ptr, ids, values = csr
    n = ptr.shape[0] - 1
    total = np.zeros(n, np.float64)
    seen = np.full(n, -1, np.int32)
    touched = np.empty(n + 1, np.int32)
    lengths = np.zeros(high - low, np.int64)
    out_ids = np.empty((high - low) * 64, np.int32)
    out = np.empty(out_ids.shape[0], np.float32)
    at = np.int64(0)
    for row in range(low, high):
        own = slice(ptr[row], ptr[row + 1])
        count = add_listed(lists[row], first, row, total, seen, touched)
        count = add_columns(
            measure, ids[own], values[own], f[own], columns, row, total, seen, touched, count
        )
        if at + count > out_ids.shape[0]:
            out_ids = enlarge(out_ids, at, at + count)
            out = enlarge(out, at, at + count)
        for t in range(count):
            other = touched[t]
            out_ids[at] = other
            out[at] = finish(measure, total[other], norms[row], norms[other])
            at += 1
        lengths[row - low] = count
    return lengths, out_ids[:at].copy(), out[:at].copy()


@kernel
def divergence_pairs(low, high, measure, csr, f, norms, near_ptr, near_ids, back_ptr, back_ids):
    """The distance of rows [low, high) to those that they list or that list them, if these follow.

    near_ptr, near_ids : who is listed for each row; back_ptr, back_ids : who lists it
    A column that only one of two rows has adds nothing: f(0) + f(v) - f(0 + v) = 0.
    Returns lengths, indices, distances.
    """
    ptr, ids, values = csr
    n = ptr.shape[0] - 1
    held = np.zeros(n, np.uint8)
    dense = np.empty(n, np.float32)
    dense_f = np.empty(n, np.float32)
    shared = np.empty(n + 1, np.uint32)
    listed = np.full(n, -1, np.int32)
    term = np.empty(n, np.float32)
    both = np.empty(n, np.float32)
    lengths = np.zeros(high - low, np.int64)
    size = near_ptr[high] - near_ptr[low] + back_ptr[high] - back_ptr[low]
    out_ids = np.empty(size, np.int32)
    out = np.empty(size, np.float32)
    at = np.int64(0)
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            held[ids[e]] = 1
            dense[ids[e]] = values[e]
            dense_f[ids[e]] = f[e]
        begin = at
        for others in (
            near_ids[near_ptr[row] : near_ptr[row + 1]],
            back_ids[back_ptr[row] : back_ptr[row + 1]],
        ):
            for other in others:
                out_ids[at] = other
                at += other > row and listed[other] != row
                listed[other] = row
        for t in range(begin, at):
            other = out_ids[t]
            later = ptr[out_ids[t + (t + 1 < at)]]
            fetch(128, ids, later)
            fetch(128, values, later)
            fetch(128, f, later)
            part = slice(ptr[other], ptr[other + 1])
            columns = ids[part]
            v = values[part]
            fv = f[part]
            count = np.uint64(0)
            total = 0.0
            sums = 0.0
            for e in range(columns.shape[0]):  # without a branch, which could not be foreseen
                shared[count] = e
                count += held[np.uint32(columns[e])]
            if measure == JS:
                for c in range(count):
                    e = shared[c]
                    column = np.uint32(columns[e])
                    term[c] = dense[column] + v[e]
                    both[c] = dense_f[column] + fv[e]
                for c in range(count):
                    term[c] = xlog2x(term[c])
                for c in range(count):
                    sums += both[c]
                    total -= term[c]
                total += sums
            else:
                for c in range(count):
                    e = shared[c]
                    u = dense[np.uint32(columns[e])]
                    total += min(u, v[e]) if measure == JACCARD else np.float64(u) * v[e]
            out[t] = finish(measure, total, norms[row], norms[other])
        lengths[row - low] = at - begin
        for e in range(ptr[row], ptr[row + 1]):
            held[ids[e]] = 0
    return lengths, out_ids[:at].copy(), out[:at].copy()
