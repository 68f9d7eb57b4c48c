"""Approximate nearest rows by faiss (extra ``ann``), with the recall that was measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.kernels.online_search import farthest_of, settle_lists
from kinrank.kernels.search import settle_candidates
from kinrank.neighbors.cells import cell_count, far_rows
from kinrank.neighbors.search import Found, exact_search
from kinrank.optional import require
from kinrank.parallel import Out, Runner
from kinrank.stored import Stored, for_kernels
from kinrank.types import Floats, Ints, Neighbors
from kinrank.validation import check_choice

Kind = Literal["auto", "flat", "hnsw", "ivf", "pq"]

KINDS = ("auto", "flat", "hnsw", "ivf", "pq")
_BLOCK = 16384
_FEW = 20_000  # rows up to which every row is looked at
_PROBES = 16
_SAMPLE = 256
_CODES = 4  # columns that a byte of a product-quantised row stands for
_WIDER = 4  # times as many candidates where their order is only roughly known


class FaissSearch:
    """A faiss index as a search: squared Euclidean distances, -1 and infinity for none.

    index : any trained one, for L2 or for inner products of unit vectors
    """

    def __init__(self, index: Any, threads: int | None = None) -> None:
        self.index = index
        self._threads = threads
        self._faiss = require("faiss", extra="ann", purpose="The approximate search")

    @classmethod
    def build(cls, vectors: Stored, *, kind: Kind = "auto", run: Runner) -> FaissSearch:
        """Index some rows; "auto" is flat for few rows and inverted lists for many.

        "pq" keeps a quarter of a byte for each column: the order of what it finds is rough.
        """
        check_choice("kind", kind, KINDS)
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
                index = _inverted_lists(faiss, vectors, coded=kind == "pq")
            with progress.stage("cells", n) as advance:
                for low in range(0, n, _BLOCK):
                    index.add(np.ascontiguousarray(vectors[low : low + _BLOCK]))
                    advance(min(_BLOCK, n - low))
        return cls(index, run.threads)

    def save(self, path: Path) -> None:
        """Write the index to a file."""
        self._faiss.write_index(self.index, str(path))

    @classmethod
    def load(cls, path: Path, run: Runner) -> FaissSearch:
        """Read what ``save`` wrote."""
        faiss = require("faiss", extra="ann", purpose="The approximate search")
        return cls(faiss.read_index(str(path)), run.threads)

    @property
    def rough(self) -> bool:
        """Whether distances are those of codes, not of the rows."""
        return isinstance(self.index, self._faiss.IndexIVFPQ)

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


def _inverted_lists(faiss: Any, vectors: Stored, *, coded: bool) -> Any:
    n, width = vectors.shape
    count = cell_count(n)
    # Handed to the index, which must outlive this function.
    quantizer = faiss.IndexFlatL2(width)
    if coded:
        parts = next(m for m in range(max(width // _CODES, 1), 0, -1) if width % m == 0)
        index = faiss.IndexIVFPQ(quantizer, width, count, parts, 8)
        index.pq.cp.min_points_per_centroid = 1
    else:
        index = faiss.IndexIVFFlat(quantizer, width, count)
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
    vectors: Stored, k: int, run: Runner, search: FaissSearch | None = None
) -> Neighbors:
    """About the ``k`` nearest rows of every row, the row itself first; their distances are exact.

    The largest distance of each row is that to some rows which are far from most.
    """
    search = search or FaissSearch.build(vectors, run=run)
    with progress.stage("neighbours", len(vectors)):
        return _settled(search, vectors, 0, len(vectors), k, run)


class Coded:
    """Rows as product-quantised codes, of which faiss finds candidates; a runner keeps them."""

    def __init__(self, vectors: Stored, run: Runner) -> None:
        self._vectors = vectors

        def make() -> FaissSearch:
            return FaissSearch.build(vectors, kind="pq", run=run)

        def load(path: Path) -> FaissSearch:
            return FaissSearch.load(path, run)

        with progress.stage("cells", len(vectors)):
            self._search = run.kept("codes", make, FaissSearch.save, load)

    def rows(self, low: int, high: int, k: int, run: Runner) -> Neighbors:
        """About the ``k`` nearest rows of rows low to high, each first in its own list."""
        return _settled(self._search, self._vectors, low, high, k, run)

    def first(self, count: int, k: int, run: Runner) -> Neighbors:
        """The same of the first rows."""
        return self.rows(0, count, k, run)

    def search(self, queries: Stored, k: int, run: Runner) -> Found:
        """About the ``k`` nearest rows of each query; their distances are exact."""
        outs = (Out(np.int32, k), Out(np.float32, k))
        args = (self._search, queries, self._vectors, Runner(run.threads))
        one = run.cut(_BLOCK, 1)
        return Found(*one.fill("search", _query_block, args, len(queries), *outs))


def _settled(
    search: FaissSearch, vectors: Stored, low: int, high: int, k: int, run: Runner
) -> Neighbors:
    """The lists of rows low to high."""
    args = (low, search, vectors, far_rows(vectors), Runner(run.threads))
    outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
    one = run.cut(_BLOCK, 1)
    return Neighbors(*one.fill("neighbours", _row_block, args, high - low, *outs))


def _row_block(
    low: int, high: int, start: int, search: FaissSearch, vectors: Stored, landmarks: Floats,
    run: Runner, indices: Ints, distances: Floats, farthest: Floats,
) -> None:  # fmt: skip
    """Search some rows with all threads, and compute the distances of what was found."""
    part = slice(low, high)
    rows = np.ascontiguousarray(vectors[start + low : start + high])
    found = _candidates(search, rows, vectors, indices.shape[1] + 1, run)
    lists, list_d, top = indices[part], distances[part], farthest[part]
    every = for_kernels(vectors)

    def settle(a: int, b: int) -> None:
        settle_lists(a, b, start + low, every, found, lists, list_d)
        farthest_of(a, b, rows, landmarks, top)

    run.map("neighbours", settle, len(rows))
    np.maximum(top, list_d[:, -1], out=top)


def _query_block(
    low: int, high: int, search: FaissSearch, queries: Stored, gallery: Stored, run: Runner,
    indices: Ints, values: Floats,
) -> None:  # fmt: skip
    part = slice(low, high)
    rows = queries[part]
    found = _candidates(search, rows, gallery, indices.shape[1], run)
    args = (rows, for_kernels(gallery), found, indices[part], values[part])
    run.map("search", lambda a, b: settle_candidates(a, b, *args), high - low)


def _candidates(search: FaissSearch, rows: Floats, vectors: Stored, k: int, run: Runner) -> Ints:
    """What is worth a second look, with lists that are too short searched exactly."""
    k = min(_WIDER * k if search.rough else k, len(vectors))
    found = search.search(rows, k).indices
    short = np.flatnonzero((found < 0).any(axis=1))
    if len(short):
        found[short] = exact_search(rows[short], vectors, k, run).indices
    return found


def measured_recall(vectors: Stored, neighbors: Neighbors, run: Runner, first: int = 0) -> float:
    """The share of the true neighbours of some rows from ``first`` on that their lists hold."""
    rows = np.arange(first, len(vectors), max(1, (len(vectors) - first) // _SAMPLE))
    exact = exact_search(vectors[rows], vectors, neighbors.k, Runner(run.threads))
    pairs = zip(neighbors.indices[rows], exact.indices, strict=True)
    return float(np.mean([len(np.intersect1d(*pair)) / neighbors.k for pair in pairs]))
