"""The k-reciprocal Jaccard distance as a sparse graph, for clustering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kinrank.graph.matrix import transposed
from kinrank.kernels import divergence as kernels
from kinrank.kernels.graph_jaccard import sorted_rows
from kinrank.methods.common import METRICS, Rows
from kinrank.methods.context.encoding import DIALECTS, SquaredDistances, encode, list_length
from kinrank.parallel import Runner
from kinrank.stages.distance import Distances
from kinrank.types import Ints, SparseRows
from kinrank.validation import (
    as_vectors,
    check_bool,
    check_choice,
    check_float,
    check_int,
    reduce_k,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CHOICES = ("spcl", "zhong", "torchreid", "layumi")
_LEAST = np.finfo(np.float32).eps  # the resolution of distances that end at 1
_BLOCK = 512  # rows: what one of them touches while it is made is much more than what it keeps


def jaccard_graph(
    features: Any,
    k1: int = 30,
    k2: int = 6,
    *,
    max_distance: float = 1.0,
    metric: Literal["euclidean", "cosine"] = "cosine",
    dialect: Literal["spcl", "zhong", "torchreid", "layumi"] = "spcl",
    connected: bool = False,
    threads: int | None = None,
    block_size: int | None = None,
) -> csr_array:
    """Jaccard distances between the k-reciprocal features of rows, where they are below 1.

    The form that scikit-learn takes: ``DBSCAN(eps=0.6, metric="precomputed").fit(graph)``, and with
    ``connected=True`` ``HDBSCAN(metric="precomputed").fit(graph)``. Pairs that are not stored are
    at distance 1. Time O(n^2 d) for the exact search, memory O(n d + n m), m the rows that share a
    neighbour with a row; no n x n array.

    Parameters
    ----------
    features : (n, d) array of any real dtype, or a torch tensor
    k1, k2 : size of the reciprocal neighbourhood; rows averaged, the row itself counted
    max_distance : distances from here on are not stored; DBSCAN needs them up to its ``eps``
    metric : "cosine", which divides every vector by its norm first, or "euclidean"
    dialect : how features are weighted, see ``KReciprocal``; "spcl" is what unsupervised
        re-identification uses and is meant for unit vectors
    connected : store distances to the k1 nearest even if they are 1, join parts of the graph that
        have no path between them at distance 1, and put 1.2e-7 for 0 between different rows;
        HDBSCAN needs all three
    threads, block_size : how the work is divided; never changes the result

    Returns
    -------
    csr_array, (n, n), float32
        Each row ascends by distance and begins with the row itself at distance 0.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(60, 8))
    >>> kinrank.jaccard_graph(points, k1=6, k2=3).shape
    (60, 60)
    """
    run = Runner.of(threads, block_size)
    chosen = DIALECTS[check_choice("dialect", dialect, _CHOICES)]
    check_choice("metric", metric, METRICS)
    limit = check_float("max_distance", max_distance, 0, 1, low_open=True)
    connected = check_bool("connected", connected)
    vectors = as_vectors(("features", features), cosine=metric == "cosine" or chosen.cosine)
    n = len(vectors)
    extra = 0 if chosen.plain else 1
    k1 = reduce_k("k1", check_int("k1", k1, 1), max(n - extra, 1), "rows")
    k2 = reduce_k("k2", check_int("k2", k2, 1), n, "rows")
    length = min(max(list_length(k1, k2, chosen), k1 + 1), n)
    distances: Distances = Rows(vectors, 0).distances(length, 0, run)
    if chosen.squared_twice:
        distances = SquaredDistances(distances)
    v = encode(distances, k1, k2, chosen, run)
    listed = distances.neighbors.indices[:, : k1 + 1 if connected else 0]
    return _graph(v, listed, limit, connected, run)


def _graph(v: SparseRows, listed: Ints, limit: float, connected: bool, run: Runner) -> csr_array:
    from scipy.sparse import csr_array

    below = 2.0 if connected else limit  # no distance is above 1
    n, columns = len(v), transposed(v, run)
    args = (
        kernels.JACCARD, v.indptr, v.indices, v.values, v.values,
        columns.indptr, columns.indices, columns.values, columns.values,
        np.ones(n, np.float32), np.ascontiguousarray(listed), 0, np.float32(below),
    )  # fmt: skip
    below_limit = run.cut(_BLOCK).rows("divergence", _jaccard_rows, args, n, n)
    small = below_limit.nnz <= np.iinfo(np.int32).max
    ptr = below_limit.indptr.astype(np.int32) if small else below_limit.indptr
    graph = csr_array((below_limit.values, below_limit.indices, ptr), shape=(n, n))
    return _joined(graph) if connected else graph


def _jaccard_rows(low: int, high: int, *args: Any) -> Any:
    """Lengths, columns and distances of some rows, ascending; the last of ``args`` is a limit."""
    return sorted_rows(low, *kernels.divergence_rows(low, high, *args[:-1]), args[-1])


def _joined(graph: csr_array) -> csr_array:
    """Symmetric, above 0 beside the diagonal, and with paths at distance 1 where there was none."""
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import connected_components

    n = graph.shape[0]
    parts, labels = connected_components(graph, directed=False)
    first = np.unique(labels, return_index=True)[1]
    farthest = np.ones(parts - 1, np.float32)
    chain = coo_array((farthest, (first[:-1], first[1:])), shape=(n, n))
    rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(graph.indptr))
    every = coo_array(
        (
            np.concatenate([graph.data, graph.data, chain.data, chain.data]),
            (
                np.concatenate([rows, graph.indices, chain.row, chain.col]),
                np.concatenate([graph.indices, rows, chain.col, chain.row]),
            ),
        ),
        shape=(n, n),
    )
    order = np.lexsort((every.data, every.col, every.row))
    row, col, data = every.row[order], every.col[order], every.data[order]
    kept = np.ones(len(row), np.bool_)
    kept[1:] = (row[1:] != row[:-1]) | (col[1:] != col[:-1])
    row, col, data = row[kept], col[kept], data[kept]
    # A spanning tree takes a stored 0 for no edge: copies of a row would have no path to it.
    data[row != col] = np.maximum(data[row != col], _LEAST)
    order = np.lexsort((col, data, row))
    ptr = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=n), out=ptr[1:])
    # A point's distance to itself must stay: sorted by distance it comes first.
    return csr_array((data[order], col[order].astype(np.int32), ptr), shape=(n, n))
