"""Scores that look from the query and from the gallery row alike: u_q k_g + k_q u_g."""

from __future__ import annotations

import numpy as np

from kinrank.graph.build import transposed
from kinrank.kernels import cross as kernels
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, SparseRows


def summed_rows(lists: Ints, weights: Floats, k: SparseRows, run: Runner) -> SparseRows:
    """U_i = the sum over e in lists[i] of weights[e] K_e; a row listed twice counts twice."""
    args = (np.ascontiguousarray(lists), weights, k.indptr, k.indices, k.values)
    n = len(lists)
    return run.rows("context", lambda a, b: kernels.summed_rows(a, b, *args), n, k.n_columns)


def cross_scores(u: SparseRows, k: SparseRows, n_queries: int, run: Runner) -> SparseRows:
    """U K^T + K U^T between the first ``n_queries`` rows and all later ones, where not zero."""
    columns = []
    for a in (u, k):
        late = slice(a.indptr[n_queries], None)
        gallery = SparseRows(
            a.indptr[n_queries:] - a.indptr[n_queries],
            a.indices[late], a.values[late], a.n_columns,
        )  # fmt: skip
        by_column = transposed(gallery)
        columns += [by_column.indptr, by_column.indices + np.int32(n_queries), by_column.values]
    args = (u.indptr, u.indices, u.values, k.indptr, k.indices, k.values, *columns)
    n = len(u)
    return run.rows("context", lambda a, b: kernels.cross_rows(a, b, *args), n_queries, n)
