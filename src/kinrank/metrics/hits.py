"""From a ranking and what is right to the positions of the right answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.kernels import metrics as kernels
from kinrank.parallel import Runner
from kinrank.types import Ints, Longs, Ranking

NOTHING = np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Hits:
    """The positions of the right answers of each query.

    Attributes
    ----------
    indptr : (n_queries + 1,) int64, where the positions of each query begin
    positions : (n_hits,) int32, ascending within a query, from 0, junk not counted
    totals : (n_queries,) int64, how many right answers there are, listed in the ranking or not
    """

    indptr: Longs
    positions: Ints
    totals: Longs

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def found(self) -> Longs:
        """How many right answers the ranking lists, per query."""
        return np.diff(self.indptr)

    @property
    def no_match(self) -> Longs:
        """The queries without a right answer in the gallery."""
        return np.flatnonzero(self.totals == 0)

    @property
    def missing(self) -> int:
        """How many right answers the ranking does not list, over all queries."""
        return int(self.totals.sum()) - len(self.positions)

    @property
    def rows(self) -> Longs:
        """The query of each position."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.found)

    @property
    def order(self) -> Longs:
        """The number of right answers before each position."""
        return np.arange(len(self.positions), dtype=np.int64) - self.indptr[self.rows]


def as_indices(ranking: Any) -> Ints:
    """The gallery rows of a ``Ranking`` or of an integer array, (n_queries, k) int32."""
    if isinstance(ranking, Ranking):
        return np.ascontiguousarray(ranking.indices)
    indices = np.asarray(ranking)
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        raise InvalidInputError(
            "`ranking` must be a Ranking or an integer array of shape (n_queries, k), "
            f"got dtype {indices.dtype}, shape {indices.shape}."
        )
    if indices.size and indices.max() > np.iinfo(np.int32).max:
        raise InvalidInputError(
            f"`ranking` must hold gallery rows below 2**31, got {indices.max()}."
        )
    return np.ascontiguousarray(indices, dtype=np.int32)


def check_ranking(indices: Ints, n_queries: int, n_gallery: int, what: str) -> None:
    """Refuse a ranking of other queries or over another gallery."""
    if len(indices) != n_queries:
        raise InvalidInputError(
            f"`ranking` must have one row per query ({n_queries} in {what}), got {len(indices)}."
        )
    if indices.shape[1] > n_gallery:
        raise InvalidInputError(
            f"`ranking` must have at most one column per gallery row ({n_gallery} in {what}), "
            f"got {indices.shape[1]}: it is over another gallery."
        )
    faults = Runner.of().map("check", partial(kernels.find_fault, indices, n_gallery), len(indices))
    for kind, row, index in faults:
        if kind == kernels.OUT_OF_RANGE:
            raise InvalidInputError(
                f"`ranking` must hold gallery rows from 0 to {n_gallery - 1} (or -1 for none), "
                f"got {index} in row {row}: it is over another gallery."
            )
        if kind == kernels.REPEATED:
            raise InvalidInputError(
                f"`ranking` must name a gallery row at most once per query, "
                f"got {index} twice in row {row}."
            )


def label_hits(
    indices: Ints,
    query_labels: Ints,
    gallery_labels: Ints,
    query_cameras: Ints = NOTHING,
    gallery_cameras: Ints = NOTHING,
    query_rows: Ints = NOTHING,
) -> Hits:
    """Right is a gallery row with the label of the query, from another camera if there are any.

    Labels are whole numbers, below 0 for junk; every array is int32.
    """
    totals = _count_matches(query_labels, gallery_labels, query_cameras, gallery_cameras)
    if len(query_rows):
        same = gallery_labels[np.maximum(query_rows, 0)] == query_labels
        totals -= (query_rows >= 0) & same
    indptr = _offsets(totals)
    arrays = (query_labels, gallery_labels, query_cameras, gallery_cameras, query_rows)
    run = partial(kernels.label_positions, indices, *arrays, indptr)
    return _compress(Runner.of().map("evaluate", run, len(indices)), indptr, totals)


def listed_hits(
    indices: Ints, right: list[npt.NDArray[Any]], junk: list[npt.NDArray[Any]], n_gallery: int
) -> Hits:
    """Right and junk are lists of gallery rows, one pair per query."""
    indptr, right_rows = _concatenate(right)
    lists = (indptr, right_rows, *_concatenate(junk))
    run = partial(kernels.listed_positions, indices, *lists, n_gallery)
    return _compress(Runner.of().map("evaluate", run, len(indices)), indptr, np.diff(indptr))


def _count_matches(
    query_labels: Ints, gallery_labels: Ints, query_cameras: Ints, gallery_cameras: Ints
) -> Longs:
    totals = _count_equal(query_labels.astype(np.int64), gallery_labels.astype(np.int64))
    if len(gallery_cameras):
        # One number for each pair of label and camera.
        width = int(max(query_cameras.max(initial=0), gallery_cameras.max(initial=0))) + 1
        totals -= _count_equal(
            query_labels.astype(np.int64) * width + query_cameras,
            gallery_labels.astype(np.int64) * width + gallery_cameras,
        )
    totals[query_labels < 0] = 0
    return totals


def _count_equal(queries: Longs, gallery: Longs) -> Longs:
    ordered = np.sort(gallery)
    return np.searchsorted(ordered, queries, "right") - np.searchsorted(ordered, queries, "left")


def _offsets(counts: Longs) -> Longs:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _concatenate(lists: list[npt.NDArray[Any]]) -> tuple[Longs, Ints]:
    lengths = np.array([len(rows) for rows in lists], np.int64)
    joined = np.concatenate([NOTHING, *lists]).astype(np.int32)
    return _offsets(lengths), joined


def _compress(parts: list[Ints], slots: Longs, totals: Longs) -> Hits:
    """Drop the slots of right answers that the ranking does not list."""
    positions = np.concatenate([NOTHING, *parts])
    kept = positions >= 0
    before = _offsets(kept.astype(np.int64))
    return Hits(before[slots], positions[kept], totals)
