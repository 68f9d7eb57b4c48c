"""Graphs of near rows: affinities W made symmetric and normalised to S, and mutual neighbours.

``neighbors`` has for each of n rows its K nearest, itself first, with squared distances, and the
largest squared distance of the row, ``farthest``. ``run`` computes blocks of rows on threads, or in
files (``kinrank.parallel.Runner``). Matrices are ``SparseRows``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from kinrank.errors import KinrankWarning
from kinrank.kernels.affinity import affinity_lists, affinity_pairs
from kinrank.kernels.lists import confident_rows, sorted_weights, without_diagonal
from kinrank.kernels.rows import values_at
from kinrank.parallel import ALONE, Out, Runner
from kinrank.stages.clusters import reciprocal, regular
from kinrank.stages.sparse import half_sum, normalized, times
from kinrank.stages.spectrum import extreme_value
from kinrank.types import Floats, Ints, Neighbors, SparseRows


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of affinities, as two n x n matrices on one pattern.

    s : S, symmetric, of spectral radius 1 at most; w : W, the affinities it was made from
    """

    s: SparseRows
    w: SparseRows


def affinity(squared: Floats, farthest: Floats, sigma: float) -> Floats:
    """exp(-d^2 / sigma^2) of p pairs, float32.

    squared, farthest : (p,) squared distances, and what each is divided by: the largest squared
        distance of its row
    """
    weights = np.empty(len(squared), np.float32)
    affinity_pairs(squared, farthest, float(sigma) ** 2, weights)
    return weights


def list_affinities(
    neighbors: Neighbors, first: int, last: int, sigma: float, run: Runner = ALONE
) -> Floats:
    """The affinities exp(-d^2 / sigma^2) of each row to columns [first, last) of its list.

    Returns (n, last - first) float32, or fewer columns if the lists end before.
    """
    last = min(last, neighbors.k)
    args = (neighbors.distances, neighbors.farthest, first, float(sigma) ** 2)
    out = Out(np.float32, last - first)
    weights: Floats = run.fill("graph", affinity_lists, args, len(neighbors), out)
    return weights


def weighted_lists(lists: Ints, first: int, weights: Floats, run: Runner) -> SparseRows:
    """Columns first to first + k of the lists, (n, K), with weights, (n, k), as a sparse matrix."""
    n, k = weights.shape
    ids, data = run.fill(
        "graph", sorted_weights, (lists, first, weights), n, Out(np.int32, k), Out(np.float32, k)
    )
    return regular(ids, data, len(lists))


def affinity_graph(
    neighbors: Neighbors,
    k: int,
    sigma: float,
    kappa: float,
    confident: SparseRows,
    *,
    symmetric: bool,
    run: Runner,
) -> Graph:
    """W_ij = exp(-d^2 / sigma^2) for the k nearest j of i, times kappa in xi[i]; S from W.

    confident : xi
    symmetric : W becomes (W + W^T) / 2 and S = D^-1/2 W D^-1/2. Otherwise W stays as it is and S
        is the symmetric part of D^-1/2 W D^-1/2.
    """
    weights = list_affinities(neighbors, 1, k + 1, sigma, run)
    w = weighted_lists(neighbors.indices, 1, weights, run)
    is_confident = values_on(w, confident, run)
    args = (w.indptr, w.values, is_confident, float(kappa))
    out = Out(np.float32, indptr=w.indptr)
    w = w.with_data(run.fill("graph", confident_rows, args, len(w), out))
    if symmetric:
        w = half_sum(w, run)
        return Graph(normalized(w, run), w)
    s = half_sum(normalized(w, run), run)
    return Graph(_bound_radius(s), s.with_data(values_on(s, w, run)))


def values_on(pattern: SparseRows, other: SparseRows, run: Runner) -> Floats:
    """The values of ``other`` on a pattern, 0 where it has none; (nnz of the pattern,) float32."""
    args = (pattern.indptr, pattern.indices, other.indptr, other.indices, other.values)
    out = Out(np.float32, indptr=pattern.indptr)
    values: Floats = run.fill("graph", values_at, args, len(pattern), out)
    return values


def _bound_radius(s: SparseRows) -> SparseRows:
    """S divided by its spectral radius, with a warning, if that is above 1; else S itself.

    With a W that is not symmetric a hub can bring the radius of the symmetric part above 1, and
    then neither the series nor the closed form means anything.
    """
    radius = spectral_radius(s)
    if radius <= 1 + 1e-6:
        return s
    warnings.warn(
        f"The graph is not symmetric and its spectral radius is {radius:.3f}, above 1: it is "
        "divided by that, or the diffusion would not converge.",
        KinrankWarning,
        stacklevel=2,
    )
    return s.with_data((s.values / radius).astype(np.float32))


def spectral_radius(s: SparseRows) -> float:
    """The largest absolute eigenvalue of a symmetric matrix."""
    if len(s) < 64:
        return float(np.abs(np.linalg.eigvalsh(s.toarray())).max())
    return abs(extreme_value(lambda x: times(s, x), np.ones(len(s)), "LM"))


def mutual_graph(neighbors: Neighbors, k: int, gamma: float, run: Runner) -> SparseRows:
    """D^-1/2 W D^-1/2 with W_ij = max(s_ij, 0)^gamma where i and j are in each other's first k.

    neighbors : of unit vectors, so that s = 1 - d^2 / 2; the row itself counts among its k but has
    no edge
    """
    n = len(neighbors)
    args = (neighbors.distances, gamma)
    weights = run.fill("graph", _power_rows, args, n, Out(np.float32, k))
    nearest = weighted_lists(neighbors.indices, 0, weights, run)
    pattern = reciprocal(neighbors.indices, k, run)
    w = pattern.with_data(values_on(pattern, nearest, run))
    return normalized(run.rows("graph", without_diagonal, w.csr, n, n), run)


def similarity_power(squared: Floats, gamma: float) -> Floats:
    """max(s, 0)^gamma, s = 1 - d^2 / 2, from squared distances d^2 of unit vectors."""
    return (np.maximum(1 - squared / 2, 0) ** np.float32(gamma)).astype(np.float32)


def _power_rows(low: int, high: int, squared: Floats, gamma: float, out: Floats) -> None:
    """``similarity_power`` of rows [low, high): what ``run`` calls for each block."""
    out[low:high] = similarity_power(squared[low:high, : out.shape[1]], gamma)
