"""Several arrays of rows as one, without a copy: a gallery and a million distractors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError


class StackedRows:
    """Two-dimensional arrays of one width, one below the other.

    Rows are taken with a slice or an array of row numbers, as from an array; only those are read,
    so that parts may be mapped from disk. ``np.asarray`` copies the whole.
    """

    def __init__(self, *parts: npt.NDArray[Any]) -> None:
        widths = [part.shape[1] for part in parts]
        if len(set(widths)) != 1:
            raise InvalidInputError(f"`parts` must have one number of columns, got {widths}.")
        self.parts = parts
        self.shape = (sum(len(part) for part in parts), widths[0])
        self.dtype = np.result_type(*[part.dtype for part in parts])
        self.ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            numbers = np.arange(len(self))[rows]
        else:
            numbers = np.asarray(rows, np.int64)
        taken = np.empty((len(numbers), self.shape[1]), self.dtype)
        begin = 0
        for part in self.parts:
            here = (numbers >= begin) & (numbers < begin + len(part))
            taken[here] = part[numbers[here] - begin]
            begin += len(part)
        return taken

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("stacked rows cannot be had as an array without a copy")
        whole = np.concatenate(self.parts, axis=0)
        return whole if dtype is None else whole.astype(dtype, copy=False)
