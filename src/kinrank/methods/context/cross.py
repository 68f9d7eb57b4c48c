"""Scores that look from the query and from the gallery row alike: u_q k_g + k_q u_g."""

from __future__ import annotations

import numpy as np

from kinrank.graph.clusters import regular
from kinrank.graph.matrix import columns
from kinrank.methods.common import JointRows
from kinrank.parallel import Runner
from kinrank.stages.product import product_sum
from kinrank.types import Ints, SparseRows


def cross_scores(
    lists: Ints, k: SparseRows, v: SparseRows, rows: JointRows, run: Runner
) -> SparseRows:
    """U V^T + V U^T between the queries and the gallery rows, where not zero.

    U_i = the sum of the rows K_e, e in lists[i]; one that is listed twice counts twice
    """
    every = regular(np.ascontiguousarray(lists), None, len(k))
    u = product_sum("context", [(every, k)], len(lists), run)
    return product_sum(
        "context", [(u, _late(v, u, rows, run)), (v, _late(u, v, rows, run))], rows.n_queries, run
    )


def _late(a: SparseRows, asked: SparseRows, rows: JointRows, run: Runner) -> SparseRows:
    """The columns of A that the queries' rows of another matrix use, of gallery rows."""
    wanted = np.zeros(a.n_columns, np.bool_)
    wanted[asked.indices[: asked.indptr[rows.n_queries]]] = True
    return columns(a, rows.first, wanted, run)
