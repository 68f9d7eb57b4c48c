"""Propagation: from the enhanced F to the transition P and the encoding F'.

    square       P = F F,   F' = P P
    transpose    P = F^T F, F' = P F

F is the similarity of each row, smoothed and averaged over neighbours; all are n x n
``SparseRows``. Rows of P are cut to their ``keep`` largest entries; rows of P and F' have L1 norm
1. ``layout`` says where rows were as they were given: ties go to the lower place. ``run`` computes
blocks of rows on threads, or in files.
"""

from __future__ import annotations

from kinrank.parallel import Runner
from kinrank.stages.layout import Layout
from kinrank.stages.parameters import StageParameters
from kinrank.stages.sparse import product, take, transposed
from kinrank.types import Ints, SparseRows


def propagate(
    f: SparseRows, parameters: StageParameters, layout: Layout, run: Runner
) -> tuple[SparseRows | None, SparseRows]:
    """P and F' of all rows from enhanced F; P is None with "transpose", where nobody reads it."""
    if parameters.propagation == "transpose":
        p = product("propagation", transposed(f, run), f, run, parameters.keep, layout)
        return None, product("propagation", p, f, run, layout=layout)
    p = transition(f, parameters, layout, run)
    return p, encoding(p, layout, run)


def transition(
    f: SparseRows,
    parameters: StageParameters,
    layout: Layout,
    run: Runner,
    rows: Ints | None = None,
) -> SparseRows:
    """P = F F of all rows, or of those in ``rows``; f : enhanced F of all rows."""
    wanted = f if rows is None else take(f, rows)
    return product("propagation", wanted, f, run, parameters.keep, layout)


def encoding(p: SparseRows, layout: Layout, run: Runner, rows: Ints | None = None) -> SparseRows:
    """F' = P P of all rows, or of those in ``rows``; p : P of all rows."""
    wanted = p if rows is None else take(p, rows)
    return product("propagation", wanted, p, run, layout=layout)
