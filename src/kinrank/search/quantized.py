"""Nearest rows by product-quantised codes in faiss (extra ``ann``), and how many were found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kinrank import progress
from kinrank.kernels.scan import farthest_of
from kinrank.kernels.search import settle
from kinrank.optional import require
from kinrank.parallel import Out, Runner
from kinrank.search.cells import cell_count, far_rows
from kinrank.search.exact import SearchResult, exact_search
from kinrank.search.stored import Stored, for_kernels
from kinrank.search.tiles import settling
from kinrank.types import Floats, Ints, Neighbors

_BLOCK = 16384
_PROBES = 16
_CODES = 4  # columns that a byte of a product-quantised row stands for
_WIDER = 4  # times as many candidates where their order is only roughly known


class FaissSearch:
    """Product-quantised rows in inverted lists: a byte for a few columns, so the order is rough."""

    def __init__(self, index: Any, threads: int | None = None) -> None:
        self.index = index
        self._threads = threads
        self._faiss = require("faiss", extra="ann", purpose="The quantised search")

    @classmethod
    def build(cls, vectors: Stored, run: Runner) -> FaissSearch:
        """Index some rows."""
        faiss = require("faiss", extra="ann", purpose="The quantised search")
        n = len(vectors)
        with _threads(faiss, run.threads):
            index = _inverted_lists(faiss, vectors)
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
        faiss = require("faiss", extra="ann", purpose="The quantised search")
        return cls(faiss.read_index(str(path)), run.threads)

    def search(self, queries: Floats, k: int) -> Ints:
        """About the ``k`` nearest rows of each query; -1 where there are too few."""
        with _threads(self._faiss, self._threads):
            _, ids = self.index.search(np.ascontiguousarray(queries, np.float32), k)
        found: Ints = ids.astype(np.int32)
        return found


def _inverted_lists(faiss: Any, vectors: Stored) -> Any:
    n, width = vectors.shape
    count = cell_count(n)
    parts = next(m for m in range(max(width // _CODES, 1), 0, -1) if width % m == 0)
    # The quantizer is handed to the index, which must outlive this function.
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(width), width, count, parts, 8)
    index.pq.cp.min_points_per_centroid = 1
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


class Coded:
    """Rows as product-quantised codes, of which faiss finds candidates; a runner keeps them."""

    def __init__(self, vectors: Stored, run: Runner) -> None:
        self._vectors = vectors

        def make() -> FaissSearch:
            return FaissSearch.build(vectors, run)

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

    def search(self, queries: Stored, k: int, run: Runner) -> SearchResult:
        """About the ``k`` nearest rows of each query; their distances are exact."""
        outs = (Out(np.int32, k), Out(np.float32, k))
        args = (self._search, queries, self._vectors, Runner(run.threads))
        one = run.cut(_BLOCK, 1)
        return SearchResult(*one.fill("search", _query_block, args, len(queries), *outs))


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
    names = np.arange(start + low, start + high, dtype=np.int32)
    args = settling(rows, for_kernels(vectors), found, names)

    def some(a: int, b: int) -> None:
        settle(a, b, *args, lists, list_d)
        farthest_of(a, b, rows, landmarks, top)

    run.map("neighbours", some, len(rows))
    np.maximum(top, list_d[:, -1], out=top)


def _query_block(
    low: int, high: int, search: FaissSearch, queries: Stored, gallery: Stored, run: Runner,
    indices: Ints, values: Floats,
) -> None:  # fmt: skip
    part = slice(low, high)
    rows = queries[part]
    found = _candidates(search, rows, gallery, indices.shape[1], run)
    args = (*settling(rows, for_kernels(gallery), found), indices[part], values[part])
    run.map("search", lambda a, b: settle(a, b, *args), high - low)


def _candidates(search: FaissSearch, rows: Floats, vectors: Stored, k: int, run: Runner) -> Ints:
    """What is worth a second look, with lists that are too short searched exactly."""
    k = min(_WIDER * k, len(vectors))
    found = search.search(rows, k)
    short = np.flatnonzero((found < 0).any(axis=1))
    if len(short):
        found[short] = exact_search(rows[short], vectors, k, run).indices
    return found
