"""A sparse matrix times a dense one.

Functions under ``filling`` are called from Python (``kernels/jit.py``).
"""

from __future__ import annotations

from kinrank.kernels.jit import filling


@filling
def sparse_dense_rows(low, high, ptr, ids, values, x, out):
    """Rows [low, high) of A X, each the sum of its terms in the order of the entries of A.

    ptr, ids, values : A, row i with the columns ids[ptr[i]:ptr[i + 1]]
    x, out : (n_columns, d) and (n, d), the output
    """
    for row in range(low, high):
        total = out[row]
        total[:] = 0
        for e in range(ptr[row], ptr[row + 1]):
            weight = values[e]
            summand = x[ids[e]]
            for c in range(total.shape[0]):
                total[c] += weight * summand[c]
