"""The parts of a list of pictures, put together: rows, names, labels, failures."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.features.parts import Parts
from kinrank.features.sources import ImageList
from kinrank.features.worker import Rows


@dataclass(frozen=True)
class StoredParts:
    """Parts that are read again each time they are walked through, one at a time."""

    store: Parts
    keys: list[str]

    def __iter__(self) -> Iterator[Rows]:
        for key in self.keys:
            rows = self.store.find(key)
            if rows is None:
                raise OSError(
                    errno.ENOENT,
                    "A finished part has gone; another run may write the same file",
                    str(self.store.folder),
                )
            yield rows


class Side:
    """The parts of one list of pictures, put together."""

    def __init__(self, listed: ImageList, parts: Iterable[Rows], sizes: Sequence[int]) -> None:
        self.listed, self._parts, self._sizes = listed, parts, sizes
        counts = np.zeros(len(listed), np.int64)  # rows of each picture
        reasons: dict[int, str] = {}
        self.width = start = 0
        for rows, size in zip(parts, sizes, strict=True):
            counts[start : start + size] = np.bincount(rows.owners, minlength=size)
            reasons |= {start + item: why for item, why in rows.failures.items()}
            self.width = max(self.width, rows.features.shape[1])
            start += size
        self.failures = (*listed.skipped, *((listed.names[i], why) for i, why in reasons.items()))
        self._counts = counts
        self.n_rows = int(counts.sum())
        if self.n_rows and listed.fixed and counts.max() == 1:
            self._counts = np.ones_like(counts)
            self.n_rows = len(listed)
        if not self.n_rows:
            first = next((f"{name}: {why}" for name, why in self.failures), "no pictures")
            raise InvalidInputError(
                f"At least one of the {len(listed)} pictures in {listed.root} must be usable, "
                f"got none; the first: {first}."
            )
        self._kept = np.flatnonzero((self._counts > 0) | listed.fixed)

    def blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        """The rows, part by part."""
        start = 0
        for rows, size in zip(self._parts, self._sizes, strict=True):
            expected = int(self._counts[start : start + size].sum())
            if len(rows.features) == expected:
                yield rows.features.reshape(expected, self.width)
            else:  # rows are fixed, and some are missing
                whole = np.zeros((expected, self.width), np.float32)
                whole[rows.owners] = rows.features.reshape(-1, self.width)
                yield whole
            start += size

    def owners(self) -> npt.NDArray[np.int32]:
        """For each row the place of its picture among the names."""
        return np.repeat(np.arange(len(self._kept)), self._counts[self._kept]).astype(np.int32)

    def column(self, name: str) -> Any:
        """Names, labels or cameras of the pictures that are kept; None if there are none."""
        values = getattr(self.listed, name)
        return None if values is None else np.asarray(values)[self._kept]
