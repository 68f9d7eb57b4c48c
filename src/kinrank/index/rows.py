"""The rows of an index compared with each other, as the graph knows them."""

from __future__ import annotations

import numpy as np

from kinrank.graph.matrix import transposed
from kinrank.index.online import Engine
from kinrank.index.parts import take
from kinrank.index.state import csr
from kinrank.kernels.online import Space
from kinrank.kernels.online_answer import compare
from kinrank.kernels.online_mix import mixed_rows
from kinrank.neighbors.search import dense_search
from kinrank.stages.diverge import MEASURES
from kinrank.types import Floats, Ints, SparseRows


def prime_rows(engine: Engine, rows: Ints, space: Space) -> SparseRows:
    """F' of some rows."""
    state = engine.state
    if state.p is None:
        return take(transposed(state.columns), rows)
    weights = take(state.p, rows)
    each, none = np.arange(len(rows) + 1), np.zeros(len(rows) + 1, np.int64)
    own = (*csr(weights), none, rows, *csr(weights), *csr(state.p))
    ptr, ids, data = mixed_rows(each, *own, 0, state.stored.order, space)
    return SparseRows(ptr, ids, data, len(state) + 1)


def modified_distances(engine: Engine, prime: SparseRows, row: int, space: Space) -> Floats:
    """d' from row ``row`` of ``prime`` to all rows, (n,)."""
    state, part = engine.state, slice(prime.indptr[row], prime.indptr[row + 1])
    own = (prime.indices[part], prime.values[part])
    measure = MEASURES[state.method.divergence]
    count, _ = compare(measure, *own, *state.by_columns, state.norms, space)
    out = np.ones(len(state), np.float32)
    near = space.touched[:count]
    out[near] = space.total[near]
    return out


def row_distances(engine: Engine, row: int) -> Floats:
    """d* from a row to all rows, (n,) by row; infinite to itself."""
    state = engine.state
    with engine.workspace() as space:
        prime = prime_rows(engine, np.array([row], np.int32), space)
        modified = modified_distances(engine, prime, 0, space)
    squared = dense_search(state.vectors[row : row + 1], state.vectors)[0]
    out = mixed(engine, modified, squared, float(state.neighbors.farthest[row]))
    out[row] = np.inf
    return out


def mixed(engine: Engine, modified: Floats, squared: Floats, farthest: float) -> Floats:
    """(1 - omega) d' + omega d."""
    method = engine.state.method
    omega = np.float32(method.omega)
    d = np.minimum(squared / np.float32(farthest), 1) if farthest > 0 else np.zeros_like(squared)
    d = np.sqrt(d) if method.fusion == "euclidean" else d
    out: Floats = ((np.float32(1) - omega) * modified + omega * d).astype(np.float32)
    return out
