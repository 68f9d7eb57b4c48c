"""Scores that look from the query and from the gallery row alike: u_q k_g + k_q u_g."""

from __future__ import annotations

import numpy as np

from kinrank.graph.clusters import regular
from kinrank.graph.matrix import columns
from kinrank.parallel import Runner
from kinrank.stages.product import product_sum
from kinrank.types import Ints, SparseRows


def cross_scores(
    lists: Ints, k: SparseRows, v: SparseRows, n_queries: int, run: Runner
) -> SparseRows:
    """U V^T + V U^T between the first ``n_queries`` rows and all later ones, where not zero.

    U_i = the sum of the rows K_e, e in lists[i]; one that is listed twice counts twice
    """
    every = regular(np.ascontiguousarray(lists), None, len(k))
    u = product_sum("context", [(every, k)], len(lists), run)
    return product_sum(
        "context",
        [(u, _late(v, u, n_queries, run)), (v, _late(u, v, n_queries, run))],
        n_queries,
        run,
    )


def _late(a: SparseRows, asked: SparseRows, n_queries: int, run: Runner) -> SparseRows:
    """The columns of A that the first rows of another matrix use, from row ``n_queries`` on."""
    wanted = np.zeros(a.n_columns, np.bool_)
    wanted[asked.indices[: asked.indptr[n_queries]]] = True
    return columns(a, n_queries, wanted, run)
