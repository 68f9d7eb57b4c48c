"""Distances between sparse distributions: only shared columns count.

Every measure is a sum over shared columns of a term of (u, v), and a last step:

    js          1 + 1/2 sum f(u) + f(v) - f(u + v),  f(x) = x log2 x
    jaccard     1 - m / (2 - m),  m = sum min(u, v)
    cosine      1 - m / (|u| |v|),  m = sum u v
    euclidean   sqrt(|u|^2 + |v|^2 - 2 m),  m = sum u v
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import filling, helper, inner, kernel
from kinrank.kernels.rows import enlarge

JS, JACCARD, COSINE, EUCLIDEAN = 0, 1, 2, 3
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
def xlog2x(x, bits, mantissa, mantissa_bits, exponent, count):
    """x log2 x in place, for the first ``count`` of a float32 buffer; 0 for 0.

    bits : the int32 view of x; mantissa, exponent : float32 scratch, mantissa_bits its int32 view
    x = 2^e (1 + m), and log2(1 + m) is a polynomial. Numba's logarithm does not vectorise; two
    plain loops over separate buffers do.
    """
    one = np.float32(1)
    for t in range(count):
        e = (bits[t] - _ROOT_HALF) >> np.int32(23)
        exponent[t] = np.float32(e)
        mantissa_bits[t] = bits[t] - (e << np.int32(23))
    for t in range(count):
        m = mantissa[t] - one
        high = _L5 + m * (_L6 + m * (_L7 + m * (_L8 + m * _L9)))
        x[t] *= exponent[t] + m * (_L1 + m * (_L2 + m * (_L3 + m * (_L4 + m * high))))


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


@helper
def entropy_part(begin, end, values, out):
    """out[begin:end] = x log2 x of the values there, as the kernels below compute it."""
    mantissa, exponent = np.empty(BUFFER, np.float32), np.empty(BUFFER, np.float32)
    mantissa_bits, bits = mantissa.view(np.int32), out.view(np.int32)
    for low in range(begin, end, BUFFER):
        high = min(low + BUFFER, end)
        for e in range(low, high):
            out[e] = values[e]
        xlog2x(out[low:high], bits[low:high], mantissa, mantissa_bits, exponent, high - low)


@kernel
def entropy_rows(low, high, ptr, values, out):
    """x log2 x of the entries of rows [low, high)."""
    entropy_part(ptr[low], ptr[high], values, out)


@kernel
def entropies(values):
    """x log2 x of every entry."""
    out = np.empty(values.shape[0], np.float32)
    entropy_part(np.int64(0), np.int64(values.shape[0]), values, out)
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
def column_terms(measure, u, fu, v, fv, term, bits, mantissa, mantissa_bits, exponent):
    """The terms of one value with those of a column, at most BUFFER; returns their factor."""
    width = v.shape[0]
    if measure == JS:
        for t in range(width):
            term[t] = u + v[t]
        xlog2x(term, bits, mantissa, mantissa_bits, exponent, width)
        for t in range(width):
            term[t] = fu + fv[t] - term[t]
    elif measure == JACCARD:
        for t in range(width):
            term[t] = min(u, v[t])
    else:
        for t in range(width):
            term[t] = v[t]
    return np.float64(u) if measure >= COSINE else 1.0


@helper
def add_columns(measure, ids, values, f, columns, stamp, total, seen, touched, count):
    """The sums of one row with all rows that share a column with it; returns how many there are.

    ids, values, f : the row and its x log2 x; columns : pointers, rows, values and x log2 x of the
        others by columns
    total : the sums, of the rows that ``seen`` marks with the stamp and ``touched`` lists,
        the first ``count`` of them already
    """
    term, mantissa, exponent = (
        np.empty(BUFFER, np.float32), np.empty(BUFFER, np.float32), np.empty(BUFFER, np.float32)
    )  # fmt: skip
    bits, mantissa_bits = term.view(np.int32), mantissa.view(np.int32)
    in_ptr, in_ids, in_values, in_f = columns
    for e in range(ids.shape[0]):
        column = ids[e]
        for begin in range(in_ptr[column], in_ptr[column + 1], BUFFER):
            part = slice(begin, min(begin + BUFFER, in_ptr[column + 1]))
            scale = column_terms(
                measure, values[e], f[e], in_values[part], in_f[part],
                term, bits, mantissa, mantissa_bits, exponent,
            )  # fmt: skip
            others = in_ids[part]
            for t in range(others.shape[0]):
                other = others[t]
                if seen[other] != stamp:
                    seen[other] = stamp
                    total[other] = 0.0
                    touched[count] = other
                    count += 1
                total[other] += scale * term[t]
    return count


@helper
def add_long_columns(measure, ids, values, f, columns, first, stamp, total, seen, touched, count):
    """As ``add_columns``, for columns so long that most rows >= ``first`` share one.

    Sums of all rows begin with 0 and none is looked up, which saves about a third of the time.
    """
    term, mantissa, exponent = (
        np.empty(BUFFER, np.float32), np.empty(BUFFER, np.float32), np.empty(BUFFER, np.float32)
    )  # fmt: skip
    bits, mantissa_bits = term.view(np.int32), mantissa.view(np.int32)
    in_ptr, in_ids, in_values, in_f = columns
    total[first:] = 0.0
    for e in range(ids.shape[0]):
        column = ids[e]
        for begin in range(in_ptr[column], in_ptr[column + 1], BUFFER):
            part = slice(begin, min(begin + BUFFER, in_ptr[column + 1]))
            scale = column_terms(
                measure, values[e], f[e], in_values[part], in_f[part],
                term, bits, mantissa, mantissa_bits, exponent,
            )  # fmt: skip
            others = in_ids[part]
            for t in range(others.shape[0]):
                total[np.uint32(others[t])] += scale * term[t]
    for other in range(first, total.shape[0]):
        if seen[other] != stamp and total[other] != 0:
            touched[count] = other
            count += 1
    return count


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
    touched = np.empty(n, np.int32)
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
            out_ids, out = enlarge(out_ids, at, at + count), enlarge(out, at, at + count)
        for t in range(count):
            other = touched[t]
            out_ids[at] = other
            out[at] = finish(measure, total[other], norms[row], norms[other])
            at += 1
        lengths[row - low] = count
    return lengths, out_ids[:at].copy(), out[:at].copy()


@kernel
def divergence_pairs(low, high, measure, ptr, ids, values, f, norms, pair_ptr, pair_ids, out):
    """The distance of each row to the rows listed for it, where they have a higher number.

    A column of the other row that this one lacks adds nothing: f(0) + f(v) - f(0 + v) = 0.
    """
    n = ptr.shape[0] - 1
    dense = np.zeros(n, np.float32)
    dense_f = np.zeros(n, np.float32)
    term, mantissa, exponent = (
        np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    )  # fmt: skip
    bits, mantissa_bits = term.view(np.int32), mantissa.view(np.int32)
    for row in range(low, high):
        for e in range(ptr[row], ptr[row + 1]):
            dense[ids[e]], dense_f[ids[e]] = values[e], f[e]
        for pair in range(pair_ptr[row], pair_ptr[row + 1]):
            other = pair_ids[pair]
            if other <= row:
                continue
            begin, width = ptr[other], ptr[other + 1] - ptr[other]
            total = 0.0
            if measure == JS:
                known = 0.0
                for t in range(width):
                    u = dense[ids[begin + t]]
                    term[t] = u + values[begin + t]
                    known += dense_f[ids[begin + t]] + f[begin + t]
                xlog2x(term, bits, mantissa, mantissa_bits, exponent, width)
                for t in range(width):
                    total -= term[t]
                total += known
            elif measure == JACCARD:
                for t in range(width):
                    total += min(dense[ids[begin + t]], values[begin + t])
            else:
                for t in range(width):
                    total += np.float64(dense[ids[begin + t]]) * values[begin + t]
            out[pair] = finish(measure, total, norms[row], norms[other])
        for e in range(ptr[row], ptr[row + 1]):
            dense[ids[e]] = dense_f[ids[e]] = 0
