"""The k-reciprocal Jaccard distance as a sparse graph, for clustering."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank.compiling import prepare
from kinrank.errors import KinrankWarning
from kinrank.kernels import divergence as kernels
from kinrank.kernels.graph_jaccard import first_members, sorted_rows
from kinrank.kernels.measures import JACCARD
from kinrank.kernels.records import Columns, Encodings
from kinrank.methods.context.kreciprocal import DIALECTS, SquaredDistances, encode, list_length
from kinrank.parallel import Runner
from kinrank.projection.kinds import Whiten, check_whiten, projection_for
from kinrank.projection.projection import Projection
from kinrank.runs.run import Run, as_run
from kinrank.search.exact import exact_neighbors
from kinrank.stages.distances import Distances, VectorDistances
from kinrank.stages.sparse import transposed
from kinrank.types import Ints, SparseRows
from kinrank.validation import (
    as_matrix,
    as_vectors,
    check_bool,
    check_choice,
    check_float,
    check_int,
    reduce_k,
    same_width,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CHOICES = ("spcl", "zhong", "torchreid", "layumi")
_LEAST = np.finfo(np.float32).eps  # the resolution of distances that end at 1
_NORMS = 256  # rows whose norms are looked at
_UNIT = 0.1  # how far from 1 a norm may be
_BLOCK = 512  # rows: what one of them touches while it is made is much more than what it keeps


def jaccard_graph(
    features: Any,
    k1: int = 30,
    k2: int = 6,
    *,
    max_distance: float = 1.0,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    dialect: Literal["spcl", "zhong", "torchreid", "layumi"] = "spcl",
    connected: bool = False,
    whiten: str | float | Projection | None = None,
    threads: int | None = None,
    run: Run | None = None,
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
    metric : "euclidean", or "cosine", which divides every vector by its norm first
    dialect : how features are weighted, see ``KReciprocal``; "spcl" is what unsupervised
        re-identification uses and is meant for unit vectors (a warning says when they are not)
    connected : store distances to the k1 nearest even if they are 1, join parts of the graph that
        have no path between them at distance 1, and put 1.2e-7 for 0 between different rows;
        HDBSCAN needs all three
    whiten : "pairs", "views" or a power between 0 and 0.5, fitted to the features, or a fitted
        ``Projection``; see ``Method``
    threads : how many threads to use; never changes the result
    run : where it is computed, in memory or in ``work``, here or on a ``cluster``; by an exact
        search of float32

    Returns
    -------
    csr_array, (n, n), float32
        Each row ascends by distance and begins with the row itself at distance 0. (Extra
        ``scipy``; ``kinrank.compat.compute_jaccard_distance`` gives a dense array without it.)

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> points = np.random.default_rng(0).normal(size=(60, 8))
    >>> kinrank.jaccard_graph(points, k1=6, k2=3, metric="cosine").shape
    (60, 60)
    """
    prepare("jaccard_graph")
    inputs = (as_matrix("features", features), k1, k2, max_distance, metric, dialect, connected)
    run = as_run(run)
    run.refuse_others("with `jaccard_graph`", ("work", "cluster", "storage", "block_size"))
    with run.execution("jaccard_graph", (*inputs, whiten), threads) as execution:
        graph = jaccard_rows(
            inputs[0],
            k1,
            k2,
            execution.runner,
            max_distance=max_distance,
            metric=metric,
            dialect=dialect,
            connected=connected,
            whiten=whiten,
        )
        return execution.outlasting(graph).to_scipy()


def jaccard_rows(
    features: Any,
    k1: int,
    k2: int,
    run: Runner,
    *,
    max_distance: float = 1.0,
    metric: str = "euclidean",
    dialect: str = "spcl",
    connected: bool = False,
    whiten: Whiten = None,
) -> SparseRows:
    """As ``jaccard_graph``, by rows."""
    weighting = DIALECTS[check_choice("dialect", dialect, _CHOICES)]
    check_choice("metric", metric, ("euclidean", "cosine"))
    limit = check_float("max_distance", max_distance, 0, 1, low_open=True)
    connected = check_bool("connected", connected)
    named = same_width(("features", features))
    onto = projection_for(check_whiten("whiten", whiten), named, run.threads)
    cosine = metric == "cosine" or weighting.cosine
    vectors = as_vectors(("features", features), cosine=cosine, onto=onto)
    if weighting.plain and not cosine and onto is None:
        _warn_of_norms(named[0][1])
    n = len(vectors)
    extra = 0 if weighting.plain else 1
    k1 = reduce_k("k1", check_int("k1", k1, 1), max(n - extra, 1), "rows")
    k2 = reduce_k("k2", check_int("k2", k2, 1), n, "rows")
    length = min(max(list_length(k1, k2, weighting), k1 + 1), n)
    neighbors = exact_neighbors(vectors, length, run)
    distances: Distances = VectorDistances.of(neighbors, neighbors[:0], vectors)
    if weighting.squared_twice:
        distances = SquaredDistances(distances)
    v = encode(distances, k1, k2, weighting, run)
    listed = distances.neighbors.indices[:, : k1 + 1 if connected else 0]
    below = np.float32(2.0 if connected else limit)  # no distance is above 1
    columns = transposed(v, run)
    encodings = Encodings(
        measure=JACCARD,
        ptr=v.indptr,
        ids=v.indices,
        values=v.values,
        entropies=v.values,  # Jaccard reads none
        columns=Columns(columns.indptr, columns.indices, columns.values, columns.values),
        norms=np.ones(n),
    )
    args = (encodings, np.ascontiguousarray(listed), below)
    graph = run.cut(_BLOCK).rows("divergence", _jaccard_rows, args, n, n)
    return _joined(graph) if connected else graph


def _warn_of_norms(vectors: npt.NDArray[Any]) -> None:
    """Say that weights exp(-d^2) are meant for unit vectors, where these are not."""
    sample = vectors[:: max(1, len(vectors) // _NORMS)].astype(np.float64)
    with np.errstate(over="ignore"):
        typical = float(np.median(np.linalg.norm(sample, axis=1)))
    if abs(typical - 1) > _UNIT:
        warnings.warn(
            f"The vectors have norms of about {typical:.3g}. The dialect 'spcl' weighs neighbours "
            "by exp(-d^2), which is meant for norm 1: pass metric='cosine', or another dialect.",
            KinrankWarning,
            stacklevel=4,
        )


def _jaccard_rows(low: int, high: int, encodings: Encodings, lists: Ints, below: np.float32) -> Any:
    """Lengths, columns and distances < ``below`` of rows [low, high), ascending."""
    lengths, ids, values = kernels.divergence_rows(low, high, encodings, lists, 0)
    return sorted_rows(low, lengths, ids, values, below)


def _joined(graph: SparseRows) -> SparseRows:
    """Symmetric, above 0 beside the diagonal, and with paths at distance 1 where there was none."""
    n = len(graph)
    first = first_members(graph.indptr, graph.indices)
    begin = np.concatenate([graph.owners, first[:-1]])
    end = np.concatenate([graph.indices, first[1:]])
    d = np.concatenate([graph.values, np.ones(len(first) - 1, np.float32)])
    ends = (np.concatenate([begin, end]), np.concatenate([end, begin]))
    graph = SparseRows.of_entries(*ends, np.tile(d, 2), n)
    row = graph.owners
    column = graph.indices
    d = graph.values
    # A spanning tree takes a stored 0 for no edge: copies of a row would have no path to it.
    d[row != column] = np.maximum(d[row != column], _LEAST)
    # A point's distance to itself must stay: sorted by distance it comes first.
    order = np.lexsort((column, d, row))
    return SparseRows(graph.indptr, column[order], d[order], n)
