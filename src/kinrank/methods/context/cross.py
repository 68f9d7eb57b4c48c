"""Scores that look from the query and from the gallery row alike: u_q k_g + k_q u_g."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.graph.matrix import columns
from kinrank.kernels import cross as kernels
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, SparseRows


def summed_rows(lists: Ints, weights: Floats, k: SparseRows, run: Runner) -> SparseRows:
    """U_i = the sum over e in lists[i] of weights[e] K_e; a row listed twice counts twice."""
    args = (np.ascontiguousarray(lists), weights, k.indptr, k.indices, k.values)
    return run.rows("context", kernels.summed_rows, args, len(lists), k.n_columns)


def cross_scores(u: SparseRows, k: SparseRows, n_queries: int, run: Runner) -> SparseRows:
    """U K^T + K U^T between the first ``n_queries`` rows and all later ones, where not zero."""
    args: tuple[Any, ...] = (u.indptr, u.indices, u.values, k.indptr, k.indices, k.values)
    for late, asked in ((u, k), (k, u)):
        wanted = np.zeros(late.n_columns, np.bool_)
        wanted[asked.indices[: asked.indptr[n_queries]]] = True
        by_column = columns(late, n_queries, wanted, run)
        args += (by_column.indptr, by_column.indices, by_column.values)
    return run.rows("context", kernels.cross_rows, args, n_queries, len(u))
