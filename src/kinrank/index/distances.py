"""Distances between rows of an index, and how d* is made of its parts.

d     plain distance: squared (or its root, ``fusion="euclidean"``) over the row's largest
d'    modified distance: divergence of the encodings F', or with ``geodesic`` a path length
d*    (1 - omega) d' + omega d; with ``geodesic`` x / (1 + x) of that, which is below 1

A ``row`` is the number of a row in the state; ``space`` is a workspace (``Engine.workspace``).
"""

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
    """d* from a row of the index to all rows, (n,) float32 by row; infinite to itself."""
    state = engine.state
    if state.paths is not None:
        return _fused_from_row(state, row, path_lengths(state, row))
    with engine.workspace() as space:
        _, columns, values = encoding_rows(engine, np.array([row], np.int32), space).csr
        rows, divergence = compared_rows(columns, values, state.answerable, space)
    modified = np.ones(len(state), np.float32)  # of rows that share no column with it
    modified[rows] = divergence
    return _fused_from_row(state, row, modified)


def path_lengths(state: State, row: int) -> Floats:
    """The length of the shortest path from a row to each row, (n,); 50 where there is none."""
    assert state.paths is not None
    lengths = np.empty((1, len(state)), np.float32)
    path_rows(0, 1, np.array([row], np.int32), *state.paths.csr, UNREACHABLE, 0, lengths)
    return lengths.reshape(-1)


def _fused_from_row(state: State, row: int, modified: Floats) -> Floats:
    """d* from a row to all rows, (n,), infinite to itself; modified : (n,) d' from it."""
    squared = dense_search(state.vectors[row : row + 1], state.vectors)[0]
    distances = fused(state, modified, squared, float(state.neighbors.farthest[row]))
    distances[row] = np.inf
    return distances


def fused(state: State, modified: Floats, squared: Floats, farthest: float) -> Floats:
    """d* of pairs from d' and plain distances.

    modified, squared : (p,) d' and squared plain distances; farthest : the largest squared one
    """
    mixed = fuse(modified, plain(state, squared, farthest), state.method.omega)
    return mixed if state.paths is None else within_one(mixed)


def plain(state: State, squared: Floats, farthest: float) -> Floats:
    """d of pairs, from 0 to 1; squared : (p,) distances; farthest : the largest squared one."""
    scaled = over_farthest(squared, np.full_like(squared, farthest))
    return np.sqrt(scaled) if state.method.fusion == "euclidean" else scaled


def encoding_rows(engine: Engine, rows: Ints, space: Workspace) -> SparseRows:
    """F' of some rows of the index, (len(rows), n + 1); a state keeps F' by columns alone.

    They are made from P where it is there, as F' = P P, else by transposing all columns.
    """
    state = engine.state
    if state.transition is None:
        return take(transposed(state.columns), rows)
    wanted = take(state.transition, rows)
    stored = plain_rows(*state.transition.csr)
    indptr, indices, data = product_rows(
        0,
        len(rows),
        *wanted.csr,
        NO_GROUPS,
        stored,
        0,
        state.order,
        state.position,
        space,
    )
    return SparseRows(indptr, indices, data, len(state) + 1)
