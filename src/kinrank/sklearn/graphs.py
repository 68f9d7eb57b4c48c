"""Graphs of neighbours as other packages take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.sparse.csgraph import connected_components

from kinrank.errors import InvalidInputError
from kinrank.types import Floats, Ints, Longs, Ranking, SparseRows

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAST = np.finfo(np.float32).eps  # what stands for 0 between two rows


def connected_graph(graph: Any) -> csr_matrix:
    """A graph of distances made symmetric and connected, as HDBSCAN needs it.

    A pair has the smaller of its two distances. Parts without a path between them are joined at
    the largest distance of the graph. Different rows at distance 0 get 1.2e-7: a spanning tree
    takes a stored 0 for no edge.

    Parameters
    ----------
    graph : (n, n) sparse matrix of scipy, such as ``NeighborsTransformer().fit_transform(X)``

    Returns
    -------
    csr_matrix, (n, n), float32
        Each row begins with itself, at distance 0, and ascends.
    """
    if not issparse(graph) or graph.shape[0] != graph.shape[1]:
        shape = getattr(graph, "shape", None)
        raise InvalidInputError(
            f"`graph` must be a square sparse matrix of scipy, got {type(graph).__name__} of "
            f"shape {shape}."
        )
    n = graph.shape[0]
    entries = graph.tocoo()
    first_rows = _first_row_of_each_part(graph)
    far = np.full(len(first_rows) - 1, entries.data.max(initial=0), np.float32)
    itself = np.arange(n)
    begin = np.concatenate([entries.row, first_rows[:-1], itself])
    end = np.concatenate([entries.col, first_rows[1:], itself])
    distances = np.concatenate([entries.data.astype(np.float32), far, np.zeros(n, np.float32)])
    between = begin != end
    distances[between] = np.maximum(distances[between], _LEAST)
    pairs = SparseRows.of_entries(
        np.concatenate([begin, end]), np.concatenate([end, begin]), np.tile(distances, 2), n
    )
    order = np.lexsort((pairs.indices, pairs.values, pairs.owners))
    return csr_matrix((pairs.values[order], pairs.indices[order], pairs.indptr), shape=(n, n))


def _first_row_of_each_part(graph: Any) -> Longs:
    """The least row of each part of a graph that has no path to the others."""
    # Ones: a stored distance of 0 is an edge here.
    pattern = csr_matrix((np.ones(graph.nnz), graph.tocsr().indices, graph.tocsr().indptr))
    pattern.resize(graph.shape)
    part_of_row = connected_components(pattern, directed=False)[1]
    first_rows: Longs = np.unique(part_of_row, return_index=True)[1]
    return first_rows


def padded(ranking: Ranking, n: int) -> tuple[Floats, Ints]:
    """Distances and row numbers of lists of one length.

    An approximate search may know fewer rows than asked for. Rows that a list lacks follow in
    their order, at the largest distance of all lists: t-SNE and nearest-neighbour classifiers
    refuse lists of different lengths.

    n : the number of rows, at least as many as there are results per query
    """
    indices = ranking.indices.copy()
    distances = ranking.distances.copy()
    far = distances[indices >= 0].max(initial=0)
    for row in np.flatnonzero((indices < 0).any(axis=1)):
        missing = indices[row] < 0
        others = _rows_without(set(indices[row, ~missing].tolist()), n)
        indices[row, missing] = [next(others) for _ in range(np.count_nonzero(missing))]
        distances[row, missing] = far
    return distances, indices


def _rows_without(listed: set[int], n: int) -> Iterator[int]:
    return (row for row in range(n) if row not in listed)
