"""Guided similarity separation: graph, network, training; see ``kinrank.methods.learned.gss``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from kinrank.kernels.sparse_dense import sparse_dense_rows
from kinrank.learned.network import tensor
from kinrank.learned.recipes import GSSRecipe
from kinrank.parallel import Out, Runner
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.search.stored import Stored
from kinrank.types import Floats, Ints, SparseRows

_NOISE = 1e-5
_SAMPLE = 2048  # rows whose pairs tell the quantile
_CHUNK = 4096


class GSSNetwork(nn.Module):
    """Two layers over the graph, the second added to the first.

    z1 = A X W1 + b1; z2 = A elu(z1) W2 + b2; h = the unit vector along z1 + decay elu(z2)

    Both W begin as the identity with a little noise beside the diagonal, so that h begins as a
    smoothing of X over the graph.
    """

    def __init__(self, dimension: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.first = nn.Linear(dimension, dimension)
        self.second = nn.Linear(dimension, dimension)
        for layer in (self.first, self.second):
            nn.init.normal_(layer.weight, std=_NOISE)
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight.fill_diagonal_(1.0)

    def forward(self, smoothed: Tensor, graph: Tensor, places: Tensor) -> Tensor:
        """h of some rows.

        Parameters
        ----------
        smoothed : (m, d), rows of A X: of the rows asked for and of all that they are linked to
        graph : (b, m) sparse, the rows of A that are asked for
        places : (b,) where they are among the m
        """
        first = self.first(smoothed)
        return self.finish(first[places], torch.sparse.mm(graph, functional.elu(first)))

    def finish(self, first: Tensor, mixed: Tensor) -> Tensor:
        """h from z1 and A elu(z1), (b, d) each."""
        second = functional.elu(self.second(mixed))
        return functional.normalize(first + self.decay * second, dim=-1)

    def penalty(self) -> Tensor:
        """Half the sum of the squared weights."""
        return (self.first.weight.square().sum() + self.second.weight.square().sum()) / 2


class GalleryGraph:
    """A = D^-1/2 (W + I) D^-1/2 of a gallery, sparse, and what it makes of the vectors.

    W_ij = max(s_ij, 0) where i is among the k1 nearest of j or the other way round; D the row sums.
    """

    def __init__(self, gallery: Stored, k1: int, run: Runner) -> None:
        n = len(gallery)
        k = min(k1, len(gallery) - 1)
        lists = exact_neighbors(gallery, k + 1, run)
        weight = np.maximum(1 - lists.distances[:, 1:] / 2, 0).ravel()
        itself = np.arange(n)
        near = lists.indices[:, 1:].ravel()
        listing = np.repeat(itself, k)
        rows, ids = (np.concatenate([itself, *two]) for two in ((listing, near), (near, listing)))
        edges, first, entry = np.unique(rows * n + ids, return_index=True, return_inverse=True)
        largest = np.zeros(len(edges), np.float32)
        np.maximum.at(largest, entry, np.concatenate([np.ones(n, np.float32), weight, weight]))
        # Each row has itself first, then its nearest, then the others that list it; by number
        # where there is but one nearest.
        order = np.lexsort((first if k > 1 else edges, edges // n))
        order = order[largest[order] > 0]
        rows, ids = np.divmod(edges[order], n)
        weight = largest[order]
        ptr = np.searchsorted(rows, np.arange(n + 1))
        self.root = 1 / np.sqrt(np.add.reduceat(weight, ptr[:-1]))
        weight = self.root[rows] * weight * self.root[ids]
        self.matrix = SparseRows(ptr, ids.astype(np.int32), weight, n)
        self.smoothed: Floats = multiply(self.matrix, gallery[:], run)

    def queries(
        self, queries: Stored, gallery: Stored, kq: int, run: Runner, own: Ints | None = None
    ) -> tuple[SparseRows, Floats]:
        """The rows of A of queries that are linked to their kq nearest: (q, n), and to themselves.

        own : rows that the queries are, to which they are not linked again. The gallery does not
        know the queries, so that each is answered on its own.
        """
        near = exact_search(queries, gallery, kq, run, own_rows=own)
        weight = np.maximum(1 - near.distances / 2, 0)
        root = 1 / np.sqrt(1 + weight.sum(axis=1, dtype=np.float64))
        weight = (weight * root[:, None] * self.root[near.indices]).astype(np.float32)
        ptr = np.arange(0, weight.size + 1, kq)
        links = SparseRows(ptr, near.indices.ravel(), weight.ravel(), len(gallery))
        return links, (root**2).astype(np.float32)[:, None]


class GSSTask:
    """Push similarities away from beta: -(max(h_i h_j, 0) - beta)^2 / 2, the mean over pairs.

    beta is the given quantile of the similarities at the beginning. Beyond ``batch`` rows a step
    takes the pairs among a random ``batch`` of them, and computes no more of the network than these
    need; beta is then measured on 2,048 rows.
    """

    steps = 1

    def __init__(self, network: GSSNetwork, graph: GalleryGraph, recipe: GSSRecipe) -> None:
        self.network = network
        self._graph = graph
        self._recipe = recipe
        self._device = next(network.parameters()).device
        with torch.no_grad():
            sample = self._embedded(self._rows(_SAMPLE, [recipe.seed, 0]))
            similarity = (sample @ sample.T).cpu().numpy()
        self.beta = float(np.quantile(similarity, recipe.quantile))

    def losses(self, epoch: int) -> Iterator[Tensor]:
        rows = self._rows(self._recipe.batch, [self._recipe.seed, 1, epoch])
        embedded = self._embedded(rows)
        apart = functional.relu(embedded @ embedded.T) - self.beta
        yield self._recipe.penalty * self.network.penalty() - apart.square().mean() / 2

    def score(self) -> None:
        """Nothing is held out: there are no labels."""

    def _rows(self, most: int, seed: list[int]) -> npt.NDArray[np.int64]:
        n = len(self._graph.smoothed)
        if n <= most:
            return np.arange(n)
        return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))

    def _embedded(self, rows: npt.NDArray[np.int64]) -> Tensor:
        matrix = self._graph.matrix
        lengths = matrix.lengths[rows]
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(matrix.indptr[rows] - ptr[:-1], lengths) + np.arange(ptr[-1])
        needed = np.union1d(rows, matrix.indices[entries])
        ids = np.searchsorted(needed, matrix.indices[entries])
        chosen = SparseRows(ptr, ids, matrix.values[entries], len(needed))
        smoothed = tensor(self._graph.smoothed[needed], self._device)
        places = tensor(np.searchsorted(needed, rows), self._device)
        embedded: Tensor = self.network(smoothed, sparse(chosen, self._device), places)
        return embedded


def embed(
    network: GSSNetwork, smoothed: Floats, mix: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """elu(z1) and h of rows of A X, (n, d) each, a few thousand rows at a time.

    mix : A elu(z1) from elu(z1)
    """
    device = next(network.parameters()).device
    hidden = np.empty_like(smoothed)
    out = np.empty_like(smoothed)
    chunks = [slice(low, low + _CHUNK) for low in range(0, len(smoothed), _CHUNK)]
    with torch.inference_mode():
        for rows in chunks:
            out[rows] = network.first(tensor(smoothed[rows], device)).cpu().numpy()
            hidden[rows] = functional.elu(torch.from_numpy(out[rows])).numpy()
        mixed = mix(hidden)
        for rows in chunks:
            inputs = (tensor(values[rows], device) for values in (out, mixed))
            out[rows] = network.finish(*inputs).cpu().numpy()
    return hidden, out


def multiply(matrix: SparseRows, x: Floats, run: Runner) -> Floats:
    """A sparse matrix times a dense one."""
    out = Out(np.float32, x.shape[1])
    product: Floats = run.fill("graph", sparse_dense_rows, (*matrix.csr, x), len(matrix), out)
    return product


def sparse(matrix: SparseRows, device: torch.device) -> Tensor:
    """A matrix as torch has them."""
    rows = np.repeat(np.arange(len(matrix)), matrix.lengths)
    places = torch.from_numpy(np.stack([rows, matrix.indices]).astype(np.int64))
    made = torch.sparse_coo_tensor(
        places,
        torch.from_numpy(matrix.values),
        (len(matrix), matrix.n_columns),
        is_coalesced=True,
        check_invariants=False,
    )
    return made.to(device)
