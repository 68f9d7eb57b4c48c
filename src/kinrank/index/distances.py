"""Distances from a row of an index to all rows."""

from __future__ import annotations

import numpy as np

from kinrank.index.engine import Engine
from kinrank.index.state import State
from kinrank.kernels.overlay import NO_GROUPS, Workspace, plain_rows
from kinrank.kernels.paths import path_rows
from kinrank.kernels.product import product_rows
from kinrank.kernels.ranking import compared_rows
from kinrank.search.exact import dense_search
from kinrank.stages.distances import over_farthest
from kinrank.stages.ranking import UNREACHABLE, fuse, within_one
from kinrank.stages.sparse import take, transposed
from kinrank.types import Floats, Ints, SparseRows


def row_distances(engine: Engine, row: int) -> Floats:
    """d* from a row of the index to all rows, (n,) by row; infinite to itself."""
    state = engine.state
    if state.paths is not None:
        return fused_distances(state, path_lengths(state, row), row)
    with engine.workspace() as space:
        ids, values = encoding_rows(engine, np.array([row], np.int32), space).csr[1:]
        rows, d = compared_rows(ids, values, state.answerable, space)
    modified = np.ones(len(state), np.float32)
    modified[rows] = d
    return fused_distances(state, modified, row)


def path_lengths(state: State, row: int) -> Floats:
    """The length of the shortest path from a row to each row, (n,)."""
    assert state.paths is not None
    out = np.empty((1, len(state)), np.float32)
    path_rows(0, 1, np.array([row], np.int32), *state.paths.csr, UNREACHABLE, 0, out)
    return out.reshape(-1)


def fused_distances(state: State, modified: Floats, row: int) -> Floats:
    """d* from a row to all rows, (n,), from d'; infinite to itself."""
    squared = dense_search(state.vectors[row : row + 1], state.vectors)[0]
    out = fused(state, modified, squared, float(state.neighbors.farthest[row]))
    out[row] = np.inf
    return out


def fused(state: State, modified: Floats, squared: Floats, farthest: float) -> Floats:
    """d*: (1 - omega) d' + omega d, brought into [0, 1) where d' is the length of a path."""
    out = mixed(state, modified, squared, farthest)
    return out if state.paths is None else within_one(out)


def mixed(state: State, modified: Floats, squared: Floats, farthest: float) -> Floats:
    """(1 - omega) d' + omega d."""
    return fuse(modified, plain(state, squared, farthest), state.method.omega)


def plain(state: State, squared: Floats, farthest: float) -> Floats:
    """d, the plain distance: squared, or its root, over the farthest."""
    d = over_farthest(squared, np.full_like(squared, farthest))
    return np.sqrt(d) if state.method.fusion == "euclidean" else d


def encoding_rows(engine: Engine, rows: Ints, space: Workspace) -> SparseRows:
    """F' of rows of the index."""
    state = engine.state
    if state.transition is None:
        return take(transposed(state.columns), rows)
    stored = plain_rows(*state.transition.csr)
    wanted = (*take(state.transition, rows).csr, NO_GROUPS, stored, 0, state.order, state.position)
    ptr, ids, data = product_rows(0, len(rows), *wanted, space)
    return SparseRows(ptr, ids, data, len(state) + 1)
