"""A small linear support vector machine with a hard margin, solved in its dual.

m members, vectors x_i with signs y_i = 1 or -1, are to be separated by sum of a_i y_i x_i.

Functions under ``kernel`` are called from Python, those under ``helper`` by kernels
(``kernels/jit.py``).
"""

from __future__ import annotations

import numpy as np

from kinrank.kernels.jit import helper, kernel
from kinrank.kernels.search import inner_product
from kinrank.kernels.stored import row_of

CEILING = 1e4  # of each a_i: where members cannot be separated, the dual has no bound of its own
TOLERANCE = 1e-9  # of what the optimality condition is violated by
MAX_STEPS = 100_000


@helper
def dual_weights(gram, signs):
    """a of min 1/2 a^T (yy^T G) a - 1^T a with a >= 0 and y^T a = 0, two entries at a time.

    gram : (m, m) G, the inner products of the members; signs : (m,) y
    The first entry is the one that violates its condition most, the second the one that lowers the
    objective most together with it (sequential minimal optimisation, second order).
    Returns (m,) float64.
    """
    m = gram.shape[0]
    a = np.zeros(m)
    gradient = np.full(m, -1.0)
    for _ in range(MAX_STEPS):
        i = -1
        most = -np.inf
        least = np.inf
        for t in range(m):
            violation = -signs[t] * gradient[t]
            if (a[t] < CEILING if signs[t] > 0 else a[t] > 0) and violation > most:
                i = t
                most = violation
        j = -1
        gain = 0.0
        for t in range(m):
            violation = -signs[t] * gradient[t]
            if a[t] > 0 if signs[t] > 0 else a[t] < CEILING:
                least = min(least, violation)
                if i >= 0 and violation < most:
                    curvature = max(gram[i, i] + gram[t, t] - 2 * gram[i, t], 1e-12)
                    if (most - violation) ** 2 / curvature > gain:
                        j = t
                        gain = (most - violation) ** 2 / curvature
        if i < 0 or j < 0 or most - least < TOLERANCE:
            break
        curvature = max(gram[i, i] + gram[j, j] - 2 * gram[i, j], 1e-12)
        step = (most + signs[j] * gradient[j]) / curvature
        step = min(step, CEILING - a[i] if signs[i] > 0 else a[i])
        step = min(step, a[j] if signs[j] > 0 else CEILING - a[j])
        a[i] += signs[i] * step
        a[j] -= signs[j] * step
        for t in range(m):
            gradient[t] += signs[t] * step * (gram[t, i] - gram[t, j])
    return a


@kernel
def margin_weights(low, high, rows, gallery, ids, n_positive, out):
    """y a for rows [low, high), of machines that separate a row and its positives from negatives.

    rows, gallery : vectors; ids : (n, m - 1) gallery rows beside each row, the negatives last
    n_positive : how many members are positives, the row itself counted
    out : (n, m) y_i a_i for the row itself and gallery[ids[i]], the output
    """
    m = ids.shape[1] + 1
    signs = np.ones(m)
    gram = np.empty((m, m))
    signs[n_positive:] = -1
    members = np.empty((m, rows.shape[1]), np.float32)
    buffer = np.empty(rows.shape[1], np.float32)
    for row in range(low, high):
        members[0] = row_of(rows, row, buffer)
        for t in range(1, m):
            members[t] = row_of(gallery, ids[row, t - 1], buffer)
        for i in range(m):
            for j in range(i + 1):
                product = inner_product(members[i], members[j])
                gram[i, j] = product
                gram[j, i] = product
        out[row] = signs * dual_weights(gram, signs)
