"""Products of sparse rows."""

from __future__ import annotations

from kinrank.graph.layout import Layout
from kinrank.kernels.rows import product_rows
from kinrank.parallel import Runner
from kinrank.types import SparseRows


def product(
    name: str, a: SparseRows, b: SparseRows, run: Runner, keep: int = 0,
    layout: Layout | None = None,
) -> SparseRows:  # fmt: skip
    """A B with rows of L1 norm 1, each cut to its ``keep`` largest entries (0: all).

    layout : the old numbers of the columns, by which ties go to the lower; None for their own
    """
    layout = layout or Layout.identity(b.n_columns)
    own = (a.indptr, a.indices, a.values, b.indptr, b.indices, b.values)
    args = (*own, b.n_columns, min(keep, b.n_columns), layout.names, layout.places)
    return run.rows(name, product_rows, args, len(a), b.n_columns)
