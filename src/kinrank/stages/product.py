"""Products of sparse rows."""

from __future__ import annotations

from typing import Any

from kinrank.graph.layout import Layout
from kinrank.kernels.cross import product_sum_rows
from kinrank.kernels.overlay import NO_GROUPS, lent_space, plain_rows
from kinrank.kernels.product import product_rows
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, Longs, SparseRows


def product(
    name: str, a: SparseRows, b: SparseRows, run: Runner, keep: int = 0,
    layout: Layout | None = None,
) -> SparseRows:  # fmt: skip
    """A B with rows of L1 norm 1, each cut to its ``keep`` largest entries (0: all).

    layout : the old numbers of the columns, by which ties go to the lower; None for their own
    """
    layout = layout or Layout.identity(b.n_columns)
    args = (*a.csr, *b.csr, b.n_columns, min(keep, b.n_columns), layout.names, layout.places)
    return run.rows(name, _product_rows, args, len(a), b.n_columns)


def product_sum(
    name: str, pairs: list[tuple[SparseRows, SparseRows]], n: int, run: Runner
) -> SparseRows:
    """The first ``n`` rows of the sum of products A B, as they are; columns in no order."""
    left, right = (tuple(matrix.csr for matrix in side) for side in zip(*pairs, strict=True))
    n_columns = pairs[0][1].n_columns
    return run.rows(name, product_sum_rows, (left, right, n_columns), n, n_columns)


def _product_rows(
    low: int, high: int, a_ptr: Longs, a_ids: Ints, a: Floats, b_ptr: Longs, b_ids: Ints,
    b: Floats, n: int, keep: int, names: Ints, places: Ints,
) -> Any:  # fmt: skip
    own, rows = (a_ptr, a_ids, a, NO_GROUPS), plain_rows(b_ptr, b_ids, b)
    with lent_space(n) as space:
        ptr, ids, data = product_rows(low, high, *own, rows, keep, names, places, space)
    return ptr[1:] - ptr[:-1], ids, data
