"""A sparse matrix times a dense one."""

from __future__ import annotations

from kinrank.kernels.jit import filling


@filling
def sparse_dense_rows(low, high, ptr, ids, values, x, out):
    """Rows of A X, each the sum of its entries in their order."""
    for row in range(low, high):
        total = out[row]
        total[:] = 0
        for e in range(ptr[row], ptr[row + 1]):
            weight = values[e]
            summand = x[ids[e]]
            for c in range(total.shape[0]):
                total[c] += weight * summand[c]
