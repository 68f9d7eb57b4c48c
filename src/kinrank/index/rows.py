"""The rows of an index compared with each other, as the graph knows them."""

from __future__ import annotations

import numpy as np

from kinrank.graph.matrix import transposed
from kinrank.index.engine import Engine
from kinrank.index.parts import take
from kinrank.kernels.overlay import NO_GROUPS, Workspace, plain_rows
from kinrank.kernels.product import product_rows
from kinrank.kernels.ranking import compared_rows
from kinrank.search.exact import dense_search
from kinrank.types import Floats, Ints, SparseRows


def encoding_rows(engine: Engine, rows: Ints, space: Workspace) -> SparseRows:
    """F' of some rows."""
    state = engine.state
    if state.p is None:
        return take(transposed(state.columns), rows)
    stored = plain_rows(*state.p.csr)
    own = (*take(state.p, rows).csr, NO_GROUPS, stored, 0, state.names, state.places)
    lengths, ids, data = product_rows(0, len(rows), *own, space)
    return SparseRows(np.concatenate([[0], np.cumsum(lengths)]), ids, data, len(state) + 1)


def modified_distances(engine: Engine, encoding: SparseRows, row: int, space: Workspace) -> Floats:
    """d' from row ``row`` of ``encoding`` to all rows, (n,)."""
    part = slice(encoding.indptr[row], encoding.indptr[row + 1])
    own = (encoding.indices[part], encoding.values[part])
    rows, d = compared_rows(*own, tuple(engine.state.compared), space)
    out = np.ones(len(engine.state), np.float32)
    out[rows] = d
    return out


def row_distances(engine: Engine, row: int) -> Floats:
    """d* from a row to all rows, (n,) by row; infinite to itself."""
    state = engine.state
    with engine.workspace() as space:
        encoding = encoding_rows(engine, np.array([row], np.int32), space)
        modified = modified_distances(engine, encoding, 0, space)
    squared = dense_search(state.vectors[row : row + 1], state.vectors)[0]
    out = mixed(engine, modified, squared, float(state.neighbors.farthest[row]))
    out[row] = np.inf
    return out


def mixed(engine: Engine, modified: Floats, squared: Floats, farthest: float) -> Floats:
    """(1 - omega) d' + omega d."""
    method = engine.state.method
    omega = np.float32(method.omega)
    scale = np.float32(farthest)
    d = np.minimum(squared, scale) / scale if farthest > 0 else np.zeros_like(squared)
    d = np.sqrt(d) if method.fusion == "euclidean" else d
    out: Floats = ((np.float32(1) - omega) * modified + omega * d).astype(np.float32)
    return out
