"""Approximate nearest rows by faiss (extra ``ann``), with the recall that was measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.kernels.online_search import farthest_of, settle_lists
from kinrank.neighbors.search import Found, exact_search
from kinrank.optional import require
from kinrank.parallel import Runner
from kinrank.types import Floats, Ints, Neighbors
from kinrank.validation import check_choice

Kind = Literal["auto", "flat", "hnsw", "ivf"]

_BLOCK = 16384
_FEW = 20_000  # rows up to which every row is looked at
_PROBES = 16
_LANDMARKS = 256
_SAMPLE = 256


class FaissSearch:
    """A faiss index as a search: squared Euclidean distances, -1 and infinity for none.

    index : any trained one, for L2 or for inner products of unit vectors
    """

    def __init__(self, index: Any, threads: int | None = None) -> None:
        self.index = index
        self._threads = threads
        self._faiss = require("faiss", extra="ann", purpose="The approximate search")

    @classmethod
    def build(cls, vectors: Floats, *, kind: Kind = "auto", run: Runner) -> FaissSearch:
        """Index some rows; "auto" is flat for few rows and inverted lists for many."""
        check_choice("kind", kind, ("auto", "flat", "hnsw", "ivf"))
        faiss = require("faiss", extra="ann", purpose="The approximate search")
        n, width = vectors.shape
        if kind == "auto":
            kind = "flat" if n <= _FEW else "ivf"
        with _threads(faiss, run.threads):
            if kind == "flat":
                index = faiss.IndexFlatL2(width)
            elif kind == "hnsw":
                index = faiss.IndexHNSWFlat(width, 32)
                index.hnsw.efSearch = 128
            else:
                index = _inverted_lists(faiss, vectors)
            for low in range(0, n, _BLOCK):
                index.add(vectors[low : low + _BLOCK])
        return cls(index, run.threads)

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def search(self, queries: Floats, k: int) -> Found:
        """The ``k`` nearest rows of each query, as far as they are found."""
        if queries.shape[1] != self.index.d:
            raise InvalidInputError(
                f"`queries` must have {self.index.d} columns, got {queries.shape[1]}."
            )
        with _threads(self._faiss, self._threads):
            values, ids = self.index.search(np.ascontiguousarray(queries, np.float32), k)
        if self.index.metric_type == self._faiss.METRIC_INNER_PRODUCT:
            values = 2 - 2 * values
        values = np.where(ids >= 0, np.maximum(values, 0), np.inf).astype(np.float32)
        return Found(ids.astype(np.int32), values)

    def cells(self, vectors: Floats) -> tuple[Floats, Ints]:
        """The centres of inverted lists, and the nearest of them for each row."""
        quantizer = self.index.quantizer
        centres = np.asarray(quantizer.reconstruct_n(0, quantizer.ntotal), np.float32)
        out = np.empty(len(vectors), np.int32)
        with _threads(self._faiss, self._threads):
            for low in range(0, len(vectors), _BLOCK):
                part = slice(low, low + _BLOCK)
                out[part] = quantizer.search(vectors[part], 1)[1][:, 0]
        return centres, out


def _inverted_lists(faiss: Any, vectors: Floats) -> Any:
    n, width = vectors.shape
    count = max(1, int(4 * n**0.5))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, count)
    index.nprobe = _PROBES
    index.cp.min_points_per_centroid = 1  # or faiss writes about it to the terminal
    step = max(1, n // (count * 64))
    with progress.stage("cells", 1):
        index.train(np.ascontiguousarray(vectors[::step]))
    return index


@contextmanager
def _threads(faiss: Any, threads: int | None) -> Iterator[None]:
    """Faiss with so many threads, and then with as many as before."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def approximate_neighbors(
    vectors: Floats, k: int, run: Runner, search: FaissSearch | None = None
) -> Neighbors:
    """About the ``k`` nearest rows of every row, the row itself first; their distances are exact.

    The largest distance of each row is that to some rows which are far from most.
    """
    search = search or FaissSearch.build(vectors, run=run)
    n = len(vectors)
    lists, list_d = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    with progress.stage("neighbours", n) as advance:
        for low in range(0, n, _BLOCK):
            part = slice(low, min(low + _BLOCK, n))
            found = _complete(search.search(vectors[part], min(n, k + 1)), vectors, part, run)
            kernel = partial(_settle, (low, vectors, found, lists[part], list_d[part]))
            run.map("neighbours", kernel, len(found))
            advance(part.stop - low)
    farthest = np.empty(n, np.float32)
    far = _landmarks(vectors)
    run.map("farthest", lambda a, b: farthest_of(a, b, vectors, far, farthest), n)
    return Neighbors(lists, list_d, np.maximum(farthest, list_d[:, -1]))


def _settle(args: tuple[Any, ...], low: int, high: int) -> None:
    settle_lists(low, high, *args)


def _complete(found: Found, vectors: Floats, part: slice, run: Runner) -> Ints:
    """The lists with those that are too short searched exactly."""
    short = np.flatnonzero((found.indices < 0).any(axis=1))
    if len(short):
        rows = vectors[part][short]
        exact = exact_search(rows, vectors, found.indices.shape[1], run)
        found.indices[short] = exact.indices
    return found.indices


def _landmarks(vectors: Floats) -> Floats:
    """Rows that are farthest from some of the others."""
    some = vectors[:: max(1, len(vectors) // _LANDMARKS)][:_LANDMARKS]
    top, who = np.full(len(some), -np.inf, np.float32), np.zeros(len(some), np.int64)
    for low in range(0, len(vectors), _BLOCK):
        part = vectors[low : low + _BLOCK]
        squared = np.einsum("ij,ij->i", part, part) - 2 * (some @ part.T)
        best = squared.argmax(axis=1)
        value = squared[np.arange(len(some)), best]
        who, top = np.where(value > top, best + low, who), np.maximum(value, top)
    return vectors[np.unique(who)]


def measured_recall(vectors: Floats, neighbors: Neighbors, run: Runner) -> float:
    """The share of the true neighbours of some rows that their lists hold."""
    rows = np.arange(0, len(vectors), max(1, len(vectors) // _SAMPLE))
    exact = exact_search(vectors[rows], vectors, neighbors.k, run)
    pairs = zip(neighbors.indices[rows], exact.indices, strict=True)
    return float(np.mean([len(np.intersect1d(*pair)) / neighbors.k for pair in pairs]))
