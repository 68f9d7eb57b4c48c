"""BSD with full matrices, as the paper writes it: for small n, and to check the sparse way.

F solves (I - aS) F + F (I - aS) = 2 (1 - a) E, S the normalised graph, E the regulariser. Both
functions return F on a pattern, the local clusters: ``SparseRows`` with a row for each of ``rows``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.stages.graph import Graph
from kinrank.types import Ints, SparseRows

MAX_ROWS = 4096

Matrix = npt.NDArray[np.float64]


def closed_form(
    graph: Graph,
    pattern: SparseRows,
    alpha: float,
    regularizer: str | SparseRows,
    rows: Ints | None = None,
) -> SparseRows:
    """The Lyapunov equation in the eigenbasis of S, where it is a division per entry.

    graph : with S; pattern : the entries of F that are wanted; alpha : a
    regularizer : E, "identity", "graph" (I + S) or a matrix
    rows : (len(pattern),) int32, the row of the graph that each row of the pattern belongs to; None
        where the pattern has all rows
    Returns ``pattern`` with the values of F, not below 0.
    """
    s, e = _matrices(graph, regularizer)
    eigenvalues, basis = np.linalg.eigh(s)
    mean = (eigenvalues[:, None] + eigenvalues[None, :]) / 2
    inside = basis.T @ e @ basis * (1 - alpha) / (1 - alpha * mean)
    return _on_pattern(pattern, basis @ inside @ basis.T, rows)


def conjugate_gradients(
    graph: Graph,
    pattern: SparseRows,
    alpha: float,
    regularizer: str | SparseRows,
    tol: float,
    rows: Ints | None = None,
) -> SparseRows:
    """The paper's efficient iteration: conjugate gradients on the Lyapunov equation.

    tol : of the residual's norm, over that of E; other arguments as in ``closed_form``
    """
    s, e = _matrices(graph, regularizer)
    f = e.copy()
    residual = 2 * (1 - alpha) * e - _lyapunov(s, f, alpha)
    direction = residual.copy()
    residual_sq = float(np.sum(residual * residual))
    goal = tol * tol * max(float(np.sum(e * e)), 1e-300)
    for _ in range(10 * len(s)):
        if residual_sq <= goal:
            break
        product = _lyapunov(s, direction, alpha)
        step = residual_sq / float(np.sum(direction * product))
        f += step * direction
        residual -= step * product
        residual_sq_before = residual_sq
        residual_sq = float(np.sum(residual * residual))
        direction = residual + residual_sq / residual_sq_before * direction
    return _on_pattern(pattern, f, rows)


def _lyapunov(s: Matrix, f: Matrix, alpha: float) -> Matrix:
    """(I - aS) F + F (I - aS)."""
    return 2 * f - alpha * (s @ f + f @ s)


def _matrices(graph: Graph, regularizer: str | SparseRows) -> tuple[Matrix, Matrix]:
    """S and E as full matrices; refuses graphs that are too large for these."""
    n = len(graph.s)
    if n > MAX_ROWS:
        raise InvalidInputError(
            f"`solver` must be 'local' or 'iterate' for more than {MAX_ROWS} rows (the others "
            f"hold n x n matrices), got {n} rows."
        )
    s = graph.s.toarray()
    s = (s + s.T) / 2
    if isinstance(regularizer, SparseRows):
        return s, regularizer.toarray()
    return s, np.eye(n) + (s if regularizer == "graph" else 0)


def _on_pattern(pattern: SparseRows, full: Matrix, rows: Ints | None) -> SparseRows:
    """The entries of a full matrix on a pattern, not below 0; rows : see ``closed_form``."""
    graph_rows = pattern.owners if rows is None else rows[pattern.owners]
    values = full[graph_rows, pattern.indices]
    return pattern.with_data(np.maximum(values, 0).astype(np.float32))
