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
from kinrank.neighbors.exact import search_range, squared_norms, stacked
from kinrank.neighbors.search import Found, exact_search
from kinrank.optional import require
from kinrank.parallel import Out, Runner
from kinrank.types import Floats, Ints, Neighbors
from kinrank.validation import check_choice

Kind = Literal["auto", "flat", "hnsw", "ivf", "pq"]

KINDS = ("auto", "flat", "hnsw", "ivf", "pq")
_BLOCK = 16384
_FEW = 20_000  # rows up to which every row is looked at
_PROBES = 16
_LANDMARKS = 256
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
    def build(cls, vectors: Floats, *, kind: Kind = "auto", run: Runner) -> FaissSearch:
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


def _inverted_lists(faiss: Any, vectors: Floats, *, coded: bool) -> Any:
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


def cell_count(n: int) -> int:
    """Inverted lists for ``n`` rows."""
    return max(1, int(4 * n**0.5))


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
    search = search or _prepared(vectors, run)
    with progress.stage("neighbours", len(vectors)):
        return _settled(search, vectors, 0, len(vectors), k, run)


def approximate_neighbors_and_more(
    vectors: Floats, k: int, n_first: int, first_k: int, run: Runner
) -> tuple[Neighbors, Neighbors]:
    """As ``approximate_neighbors``, and lists of ``first_k`` >= k for the first ``n_first`` rows.

    A few first rows are searched exactly: they are what is ranked for, and it costs less than
    the search of all others. The recall that was measured is told to ``progress``.
    """
    n = len(vectors)
    search = _prepared(vectors, run)
    with progress.stage("neighbours", n):
        if pays_for(n_first, n, first_k):
            longer = _settled(search, vectors, 0, n_first, first_k, run)
        else:
            longer = search_range(vectors, squared_norms(vectors), 0, n_first, first_k, run)
        rest = _settled(search, vectors, n_first, n, k, run)
        found = stacked(longer, rest, run)
    progress.tell("recall", measured_recall(vectors, found, run, n_first))
    return found, longer


def approximate_search(queries: Floats, gallery: Floats, k: int, run: Runner) -> Found:
    """About the ``k`` nearest gallery rows of each query; their distances are exact."""
    search = _prepared(gallery, run)
    outs = (Out(np.int32, k), Out(np.float32, k))
    args = (search, queries, gallery, run.threads)
    one = run.cut(_BLOCK, 1)
    return Found(*one.fill("search", _query_block, args, len(queries), *outs))


def pays_for(n_queries: int, n: int, k: int) -> bool:
    """Whether so many queries are better searched approximately: an index costs some of them."""
    return n_queries > cell_count(n) and 4 * k < n


def _prepared(vectors: Floats, run: Runner) -> FaissSearch:
    """The index of some rows; a runner that keeps files keeps it too."""
    kind: Kind = "pq" if run.coded else "auto"

    def make() -> FaissSearch:
        return FaissSearch.build(vectors, kind=kind, run=run)

    def load(path: Path) -> FaissSearch:
        return FaissSearch.load(path, run)

    return run.kept("search", make, FaissSearch.save, load)


def _settled(
    search: FaissSearch, vectors: Floats, low: int, high: int, k: int, run: Runner
) -> Neighbors:
    """The lists of rows low to high."""
    args = (low, search, vectors, _landmarks(vectors), run.threads)
    outs = (Out(np.int32, k), Out(np.float32, k), Out(np.float32))
    one = run.cut(_BLOCK, 1)
    return Neighbors(*one.fill("neighbours", _row_block, args, high - low, *outs))


def _row_block(
    low: int, high: int, start: int, search: FaissSearch, vectors: Floats, landmarks: Floats,
    threads: int, indices: Ints, distances: Floats, farthest: Floats,
) -> None:  # fmt: skip
    """Search some rows with all threads, and compute the distances of what was found."""
    run, part = Runner(threads), slice(low, high)
    rows = np.ascontiguousarray(vectors[start + low : start + high])
    found = _candidates(search, rows, vectors, indices.shape[1] + 1, run)
    lists, list_d, top = indices[part], distances[part], farthest[part]

    def settle(a: int, b: int) -> None:
        settle_lists(a, b, start + low, vectors, found, lists, list_d)
        farthest_of(a, b, rows, landmarks, top)

    run.map("neighbours", settle, len(rows))
    np.maximum(top, list_d[:, -1], out=top)


def _query_block(
    low: int, high: int, search: FaissSearch, queries: Floats, gallery: Floats, threads: int,
    indices: Ints, values: Floats,
) -> None:  # fmt: skip
    run, part = Runner(threads), slice(low, high)
    found = _candidates(search, queries[part], gallery, indices.shape[1], run)
    args = (queries[part], gallery, found, indices[part], values[part])
    run.map("search", lambda a, b: settle_candidates(a, b, *args), high - low)


def _candidates(search: FaissSearch, rows: Floats, vectors: Floats, k: int, run: Runner) -> Ints:
    """What is worth a second look, with lists that are too short searched exactly."""
    k = min(_WIDER * k if search.rough else k, len(vectors))
    found = search.search(rows, k).indices
    short = np.flatnonzero((found < 0).any(axis=1))
    if len(short):
        found[short] = exact_search(rows[short], vectors, k, run).indices
    return found


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


def measured_recall(vectors: Floats, neighbors: Neighbors, run: Runner, first: int = 0) -> float:
    """The share of the true neighbours of some rows from ``first`` on that their lists hold."""
    rows = np.arange(first, len(vectors), max(1, (len(vectors) - first) // _SAMPLE))
    exact = exact_search(vectors[rows], vectors, neighbors.k, Runner(run.threads))
    pairs = zip(neighbors.indices[rows], exact.indices, strict=True)
    return float(np.mean([len(np.intersect1d(*pair)) / neighbors.k for pair in pairs]))
