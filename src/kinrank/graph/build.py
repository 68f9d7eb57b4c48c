"""The affinity graph: weights of near rows, made symmetric and normalised."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from kinrank.errors import KinrankWarning
from kinrank.graph.clusters import nearest
from kinrank.kernels import rows as kernels
from kinrank.parallel import Runner
from kinrank.types import Floats, Neighbors, SparseRows


@dataclass(frozen=True, eq=False)
class Graph:
    """S, symmetric with spectral radius at most 1, and the W it was made from, on one pattern."""

    s: SparseRows
    w: SparseRows

    def floor(self, tol: float) -> Floats:
        """How light a row may be before a walk leaves it out: 0.02 sqrt(tol) sqrt(D).

        F sqrt(D) = sqrt(D), so that leaving out such rows changes column j by no more than the
        factor times sqrt(D_j); and a walk that matters is left out only if it is that light seen
        from both its ends, hence the root.
        """
        owner = np.repeat(np.arange(len(self.w)), self.w.lengths)
        degree = np.bincount(owner, weights=self.w.values, minlength=len(self.w))
        floor: Floats = (0.02 * np.sqrt(tol) * np.sqrt(degree)).astype(np.float32)
        return floor


def affinity(neighbors: Neighbors, first: int, last: int, sigma: float) -> Floats:
    """exp(-d^2 / sigma^2) to the neighbours in columns [first, last) of the lists.

    d^2 is the squared distance over the row's farthest. Returns (n, last - first) float32.
    """
    scale = np.where(neighbors.farthest > 0, neighbors.farthest, 1).astype(np.float64)
    d2 = np.minimum(neighbors.distances[:, first:last] / scale[:, None], 1.0)
    return np.exp(-d2 / sigma**2).astype(np.float32)


def build_graph(
    neighbors: Neighbors, k: int, sigma: float, kappa: float, xi: SparseRows, *, symmetric: bool,
    run: Runner,
) -> Graph:  # fmt: skip
    """W_ij = exp(-d^2 / sigma^2) for the k nearest j of i, times kappa in xi[i]; S from W.

    symmetric : W becomes (W + W^T) / 2 and S = D^-1/2 W D^-1/2. Otherwise W stays as it is and S
    is the symmetric part of D^-1/2 W D^-1/2.
    """
    ids = neighbors.indices[:, 1 : k + 1]
    order = np.argsort(ids, axis=1)
    weights = np.take_along_axis(affinity(neighbors, 1, k + 1, sigma), order, axis=1)
    pattern = nearest(ids, k)
    favoured = _look_up(pattern, xi, run)
    w = pattern.with_data(weights.ravel() * (1 + (kappa - 1) * favoured).astype(np.float32))
    if symmetric:
        w = half_sum(w)
        return Graph(_normalize(w), w)
    s = half_sum(_normalize(w))
    return Graph(_bound_radius(s), s.with_data(_look_up(s, w, run)))


def half_sum(a: SparseRows) -> SparseRows:
    """(A + A^T) / 2."""
    ptr, ids, places = kernels.transpose(a.indptr, a.indices, a.n_columns)
    half = a.values / np.float32(2)
    indptr, merged, values = kernels.merge_rows(a.indptr, a.indices, half, ptr, ids, half[places])
    return SparseRows(indptr, merged, values, a.n_columns)


def transposed(a: SparseRows) -> SparseRows:
    """A^T."""
    ptr, ids, places = kernels.transpose(a.indptr, a.indices, a.n_columns)
    return SparseRows(ptr, ids, None if a.data is None else a.data[places], len(a))


def _normalize(w: SparseRows) -> SparseRows:
    """D^-1/2 W D^-1/2, D the row sums; a row without weight stays empty of it."""
    owner = np.repeat(np.arange(len(w)), w.lengths)
    degree = np.bincount(owner, weights=w.values, minlength=len(w))
    root = np.zeros(len(w))
    np.divide(1.0, np.sqrt(degree), out=root, where=degree > 0)
    return w.with_data((w.values * root[owner] * root[w.indices]).astype(np.float32))


def _look_up(pattern: SparseRows, other: SparseRows, run: Runner) -> Floats:
    out = np.empty(pattern.nnz, np.float32)
    args = (pattern.indptr, pattern.indices, other.indptr, other.indices, other.values, out)
    run.map("graph", lambda a, b: kernels.values_at(a, b, *args), len(pattern))
    return out


def _bound_radius(s: SparseRows) -> SparseRows:
    """S over its spectral radius if that is above 1.

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
        return float(np.abs(np.linalg.eigvalsh(s.to_scipy().toarray().astype(np.float64))).max())
    from scipy.sparse.linalg import eigsh

    matrix = s.to_scipy().astype(np.float64)
    start = np.ones(len(s))
    return float(np.abs(eigsh(matrix, k=1, which="LM", v0=start, return_eigenvectors=False))[0])
