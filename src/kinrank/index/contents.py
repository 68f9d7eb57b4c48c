"""Whether the arrays of a file are what kernels take them for, which check nothing themselves."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.index.frame import Frame
from kinrank.index.ids import refuse_duplicates
from kinrank.index.state import State
from kinrank.index.storage import Arrays
from kinrank.reading import reading
from kinrank.types import Neighbors, SparseRows
from kinrank.validation import LARGEST

_CHUNK = 1 << 20  # entries that are compared at a time
_TYPES = {"indptr": "i8", "indices": "i4", "names": "i4", "cell": "i4", "norms": "f8"}
_MATRICES = ("vectors", "centres", "neighbors.indices", "neighbors.distances")
_UNORDERED = ("tilde", "p")  # rows whose entries stand in the order in which they were found
_OF_ANY_SIZE = ("neighbors", "w", "degree", "walk_norm", "f")  # squares, and multiples of kappa
_LARGEST = 4 * LARGEST  # rows at its ends that were moved
_LARGEST_EXPONENT = 1100  # of float64, with room


def check_types(arrays: Arrays) -> None:
    """Raise unless every array of a file has the type and dimensions of its name."""
    for name, array in arrays.items():
        expected = np.dtype(_TYPES.get(name.rpartition(".")[2], "f4"))
        right = array.dtype == expected
        if name == "ids":
            right = array.dtype == np.int64 or array.dtype.kind == "U"
        if not right or array.ndim != (2 if name in _MATRICES else 1):
            raise ValueError(f"`{name}` of {array.dtype} with {array.ndim} dimensions")


def check_frame(frame: Frame) -> None:
    """Raise unless queries can be brought into the frame."""
    whole = (type(frame.width), type(frame.exponent)) == (int, int) and type(frame.cosine) is bool
    shift = frame.shift
    if not whole or frame.width < 1 or abs(frame.exponent) > _LARGEST_EXPONENT:
        raise ValueError(f"a frame of {frame.width!r}, {frame.cosine!r}, {frame.exponent!r}")
    if shift is not None and shift.shape != (frame.width,):
        raise ValueError("a shift that does not fit the columns")
    if shift is not None:
        _check_finite("shift", shift)


def check_contents(path: Path, state: State) -> None:
    """Raise unless all numbers lie where they must; reads every array once."""
    n, smoothing = len(state), state.method.smoothing
    with reading(path, "an index whose parts fit each other"):
        for field in fields(state):
            part = getattr(state, field.name)
            if isinstance(part, SparseRows):
                _check_rows(field.name, part, n)
                if field.name not in _UNORDERED and (field.name, smoothing) != ("hat", "aqe"):
                    _check_order(field.name, part)
            elif isinstance(part, np.ndarray) and part.dtype.kind == "f":
                _check_finite(field.name, part)
        _check_neighbors(state.neighbors, n)
        _check_ids(state)
        _check_range("names", state.names, 0, n)
        if (np.bincount(state.names, minlength=n) != 1).any():
            raise ValueError("`names` that are not different from each other")
        _check_range("cell", state.cell, 0, len(state.centres))


def _check_ids(state: State) -> None:
    if state.ids.dtype.kind == "U":
        _check_range("ids", np.ascontiguousarray(state.ids).view(np.uint32), 0, 0x110000)
    refuse_duplicates(state.ids)


def _check_rows(name: str, rows: SparseRows, n: int) -> None:
    lengths = rows.lengths
    if lengths.min() < 0 or lengths.max() > n:
        raise ValueError(f"`{name}` with a row of {lengths.min()} or {lengths.max()} entries")
    _check_range(name, rows.indices, 0, n)
    if rows.data is not None:
        _check_finite(name, rows.data)
        if name == "w" and rows.nnz and rows.data.min() < 0:
            raise ValueError("`w` with weights below 0")


def _check_order(name: str, rows: SparseRows) -> None:
    ptr, ids = rows.indptr, rows.indices
    for low in range(0, len(ids) - 1, _CHUNK):
        some = ids[low : low + _CHUNK + 1]
        falls = np.flatnonzero(some[1:] <= some[:-1]) + (low + 1)
        if (ptr[np.searchsorted(ptr, falls)] != falls).any():  # elsewhere than between two rows
            raise ValueError(f"`{name}` with entries that are not ascending")


def _check_neighbors(known: Neighbors, n: int) -> None:
    """Lists begin with the row itself and ascend; -1 and infinity only where a list has ended."""
    _check_range("neighbors", known.indices, -1, n)
    _check_finite("neighbors", known.farthest)
    step = max(1, _CHUNK // known.k)
    for low in range(0, n, step):
        ids, d = known.indices[low : low + step], known.distances[low : low + step]
        ended = ids < 0
        if (
            (ids[:, 0] != np.arange(low, low + len(ids))).any()
            or not np.isfinite(d[:, 0]).all()
            or not (d[:, 1:] >= d[:, :-1]).all()
            or (ended[:, :-1] & ~ended[:, 1:]).any()
            or (np.isinf(d) & ~ended).any()
        ):
            raise ValueError("`neighbors` that are not lists of nearest rows, nearest first")


def _check_range(name: str, values: npt.NDArray[Any], low: int, high: int) -> None:
    if values.size and not low <= int(values.min()) <= int(values.max()) < high:
        raise ValueError(
            f"`{name}` with numbers from {values.min()} to {values.max()}, outside {low} to {high}"
        )


def _check_finite(name: str, values: npt.NDArray[Any]) -> None:
    # Both are NaN if one of the values is. Squares and sums of most have to fit.
    limit = float(np.finfo(np.float64).max) if name in _OF_ANY_SIZE else _LARGEST
    if values.size and not -limit <= float(values.min()) <= float(values.max()) <= limit:
        raise ValueError(f"`{name}` with values that are not finite, or too large")
