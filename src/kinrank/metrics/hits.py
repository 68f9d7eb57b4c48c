"""From a ranking and what is right to the positions of the right answers, and to metrics of these.

Metrics are float64 fractions in [0, 1], one per query, NaN for a query that has no right answer in
the gallery. A right answer that the ranking does not list counts as never found, so a cut ranking
gives a lower bound of what the whole one would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.kernels import metrics as kernels
from kinrank.parallel import Runner
from kinrank.types import Ints, Longs, Ranking, Values
from kinrank.validation import as_array

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
        return np.flatnonzero(self.totals == 0)

    @property
    def missing(self) -> int:
        return int(self.totals.sum()) - len(self.positions)

    @property
    def rows(self) -> Longs:
        """The query of each position."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.found)

    @property
    def order(self) -> Longs:
        """The number of right answers before each position."""
        return np.arange(len(self.positions), dtype=np.int64) - self.indptr[self.rows]

    def average_precision(self) -> Values:
        """Mean over the right answers of the precision at their position (0 where not listed)."""
        return _share(self._sum((self.order + 1.0) / (self.positions + 1.0)), self.totals)

    def trapezoidal_ap(self) -> Values:
        """Area under the precision-recall curve by trapezoids, as the Oxford protocols define it.

        Each right answer adds the mean of the precision just before it and at it.
        """
        positions = self.positions.astype(np.float64)
        before = np.ones(len(positions))
        np.divide(self.order, positions, out=before, where=positions > 0)
        at = (self.order + 1.0) / (positions + 1.0)
        return _share(self._sum((before + at) / 2), self.totals)

    def average_precision_at(self, k: int) -> Values:
        """Average precision of the first ``k``, over the right answers that could be among them."""
        precision = (self.order + 1.0) / (self.positions + 1.0)
        return _share(self._sum(precision * (self.positions < k)), np.minimum(self.totals, k))

    def inverse_negative_penalty(self) -> Values:
        """Number of right answers over the rank of the last one; 0 if one is not listed."""
        return _share(self.totals / self._last_rank(), self.totals > 0)

    def found_within(self, k: int) -> Values:
        """1 if a right answer is among the first ``k``, else 0: a point of the CMC curve."""
        return _share(self._count_within(k) > 0, self.totals > 0)

    def recall_at(self, k: int) -> Values:
        """Share of the right answers that are among the first ``k``."""
        return _share(self._count_within(k), self.totals)

    def precision_at(self, k: int) -> Values:
        """Share of the first ``k`` that are right; what a shorter list lacks counts as wrong."""
        return _share(self._count_within(k), np.where(self.totals > 0, k, 0))

    def precision_until_last(self, k: int) -> Values:
        """Precision of the first ``k``, or up to the last right answer if it comes sooner.

        The Revisited protocol does not punish a query for having fewer right answers than ``k``.
        """
        depth = np.minimum(k, self._last_rank())
        return _share(self._count_within(k), np.where(self.totals > 0, depth, 0))

    def ndcg_at(self, k: int) -> Values:
        """Normalised discounted cumulative gain of the first ``k``, right answers of gain 1."""
        gains = np.where(self.positions < k, 1.0 / np.log2(self.positions + 2.0), 0.0)
        ideal = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(k) + 2.0))])
        return _share(self._sum(gains), ideal[np.minimum(self.totals, k)])

    def _last_rank(self) -> Values:
        """The rank of the last right answer, infinite where one is not listed or there is none."""
        last = np.full(len(self), np.inf)
        complete = (self.found == self.totals) & (self.totals > 0)
        last[complete] = 1.0 + self.positions[self.indptr[1:][complete] - 1]
        return last

    def _count_within(self, k: int) -> Values:
        return self._sum((self.positions < k).astype(np.float64))

    def _sum(self, values: Values) -> Values:
        return np.bincount(self.rows, weights=values, minlength=len(self)).astype(np.float64)


def as_indices(ranking: Any) -> Ints:
    """The gallery rows of a ``Ranking`` or of an integer array, (n_queries, k) int32."""
    if isinstance(ranking, Ranking):
        return np.ascontiguousarray(ranking.indices)
    indices = as_array("ranking", ranking)
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
    run = partial(
        kernels.label_positions,
        indices,
        query_labels,
        gallery_labels,
        query_cameras,
        gallery_cameras,
        query_rows,
        indptr,
    )
    return _compress(Runner.of().map("evaluate", run, len(indices)), indptr, totals)


def listed_hits(
    indices: Ints, right: list[npt.NDArray[Any]], junk: list[npt.NDArray[Any]], n_gallery: int
) -> Hits:
    """Right and junk are lists of gallery rows, one pair per query."""
    indptr, right_rows = _concatenate(right)
    run = partial(
        kernels.listed_positions, indices, indptr, right_rows, *_concatenate(junk), n_gallery
    )
    return _compress(Runner.of().map("evaluate", run, len(indices)), indptr, np.diff(indptr))


def _count_matches(
    query_labels: Ints, gallery_labels: Ints, query_cameras: Ints, gallery_cameras: Ints
) -> Longs:
    labels = [side.astype(np.int64) for side in (query_labels, gallery_labels)]
    totals = _count_equal(*labels)
    if len(gallery_cameras):
        # One number for each pair of label and camera.
        cameras = (query_cameras, gallery_cameras)
        width = max(int(side.max(initial=0)) for side in cameras) + 1
        pairs = zip(labels, cameras, strict=True)
        totals -= _count_equal(*(label * width + camera for label, camera in pairs))
    totals[query_labels < 0] = 0
    return totals


def _count_equal(queries: Longs, gallery: Longs) -> Longs:
    ordered = np.sort(gallery)
    return np.searchsorted(ordered, queries, "right") - np.searchsorted(ordered, queries, "left")


def _offsets(counts: npt.NDArray[Any]) -> Longs:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _concatenate(lists: list[npt.NDArray[Any]]) -> tuple[Longs, Ints]:
    lengths = np.array([len(rows) for rows in lists], np.int64)
    return _offsets(lengths), np.concatenate([NOTHING, *lists]).astype(np.int32)


def _compress(parts: list[Ints], slots: Longs, totals: Longs) -> Hits:
    """Drop the slots of right answers that the ranking does not list."""
    positions = np.concatenate([NOTHING, *parts])
    kept = positions >= 0
    return Hits(_offsets(kept)[slots], positions[kept], totals)


def _share(part: npt.NDArray[np.generic], whole: npt.NDArray[np.generic]) -> Values:
    result = np.full(len(part), np.nan)
    np.divide(part, whole, out=result, where=np.asarray(whole) > 0)
    return result
