"""Where the engine and its slow twin part: the first stage that differs, for a failing comparison.

with explained(lambda: engine_stages(method, rows), stages):
    np.testing.assert_allclose(...)
"""

from contextlib import contextmanager

import numpy as np
from scipy.sparse import csr_array

from kinrank.parallel import ALONE
from kinrank.search.exact import exact_neighbors
from kinrank.stages.distances import VectorDistances
from kinrank.stages.encode import encode
from kinrank.stages.layout import Layout
from kinrank.types import SparseRows

# The twin's letters, in the order of the stages.
ORDER = ("rank", "xi", "C", "W", "S", "F", "F_hat", "F_tilde", "P", "F_prime")
WORDS = {
    "rank": "neighbours",
    "xi": "clusters (xi, confident neighbours)",
    "C": "clusters (C)",
    "W": "graph (W)",
    "S": "graph (S)",
    "F": "diffusion (F)",
    "F_hat": "smoothing",
    "F_tilde": "enhancement",
    "P": "propagation (P)",
    "F_prime": "propagation (F')",
}


def engine_stages(method, rows, regularizer=None):
    """The matrices of the engine over all rows, by the letters of the twin."""
    rows = np.asarray(rows, np.float32)
    method = method.resolved(len(rows))
    neighbors = exact_neighbors(rows, method.list_length(), ALONE)
    source = VectorDistances.of(neighbors, neighbors, rows)
    e = None if regularizer is None else SparseRows.from_scipy(csr_array(regularizer))
    made = encode(method.stage_parameters, source, Layout.identity(len(rows)), ALONE, e)
    matrices = {
        "xi": made.confident,
        "C": made.similarity.with_data(None),
        "W": made.graph.w,
        "S": made.graph.s,
        "F": made.similarity,
        "F_hat": made.smoothed,
        "F_tilde": made.enhanced,
        "F_prime": made.encoding,
    }
    dense = {name: matrix.to_scipy().toarray() for name, matrix in matrices.items()}
    return {"rank": neighbors.indices, **dense}


def index_stages(state):
    """The matrices that an index keeps of its rows, in the order in which users count them."""
    kept = {
        "xi": state.confident,
        "W": state.affinity,
        "S": state.normalized,
        "F": state.similarity,
        "F_hat": state.smoothed,
        "F_tilde": state.enhanced,
        "P": state.transition,
    }
    matrices = {name: m.to_scipy().toarray() for name, m in kept.items() if m is not None}
    matrices["F_prime"] = state.columns.to_scipy().toarray().T
    back = state.position
    return {name: matrix[np.ix_(back, back)] for name, matrix in matrices.items()}


def query_stages(index, query):
    """The rows of one query, itself the last column; (n + 1,) each."""
    engine = index.engine
    state = engine.state
    vector = state.scaling.apply("query", query[None])
    near = engine.nearest(vector, len(state), ALONE)
    with engine.workspace() as space:
        made = engine.encode(vector, near, space)
        rows = {
            "xi": made.confident,
            "F": made.similarity,
            "F_hat": made.smoothed,
            "F_tilde": made.enhanced,
            "P": made.transition,
            "F_prime": made.encoding,
        }
        found = {}
        for name, overlay in rows.items():
            at = int(np.flatnonzero(overlay.replaced == len(state))[0])
            part = slice(overlay.ptr[at], overlay.ptr[at + 1])
            row = np.zeros(len(state) + 1)
            row[overlay.ids[part]] = overlay.values[part] if len(overlay.values) else 1
            found[name] = row[np.append(state.position, len(state))]
    return found


def first_difference(found, expected, atol=1e-5):
    """A sentence about the first stage whose values differ."""
    for name in ORDER:
        if name not in found or name not in expected:
            continue
        got = np.atleast_2d(found[name])
        right = np.atleast_2d(expected[name])[:, : got.shape[1]]
        if name == "rank":  # rows at the same distance may change places
            far = [np.take_along_axis(expected["D2"], lists, axis=1) for lists in (got, right)]
            gap = np.abs(far[0] - far[1])
        else:
            gap = np.abs(got.astype(float) - right.astype(float))
        gap[np.isnan(gap)] = np.inf
        if (gap > atol).any():
            row, column = np.unravel_index(gap.argmax(), gap.shape)
            return (
                f"The first stage that differs is {WORDS[name]}: {int((gap > atol).sum())} "
                f"entries, most at [{row}, {column}]: {got[row, column]:.6g} instead of "
                f"{right[row, column]:.6g}."
            )
    return "No stage before the ranking differs: look at divergence, fusion and ranking."


@contextmanager
def explained(stages, expected):
    """Add to a failing comparison which stage differs first; stages : makes those of the engine."""
    try:
        yield
    except AssertionError as error:
        error.add_note(first_difference(stages(), expected))
        raise
