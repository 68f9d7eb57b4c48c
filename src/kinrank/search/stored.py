"""Vectors as a run keeps them: float32, or float16, which is half the bytes.

Values are rounded to float16 once; everything is computed in float32 from what that left.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.kernels.stored import decode
from kinrank.search.blas import one_blas_thread
from kinrank.types import Floats
from kinrank.validation import Matrices, RowMap, as_half_vectors, as_vectors

Bits: TypeAlias = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class HalfRows:
    """Rows in float16 that are read as float32: ``rows[some]`` is an array of these alone.

    bits : (n, d) uint16, as kernels take them (``kernels.stored.row_of``)

    There is no array of all of them: numpy would make it without being asked.
    """

    bits: Bits

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""
        return self.bits.shape

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, key: Any) -> Floats:
        bits = np.ascontiguousarray(self.bits[key])
        out = np.empty(bits.shape, np.float32)
        decode(bits.reshape(-1), out.reshape(-1))  # numpy takes ten times as long
        return out

    def __neg__(self) -> HalfRows:
        return HalfRows(self.bits ^ np.uint16(0x8000))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("rows in float16 are read some at a time")


Stored: TypeAlias = Floats | HalfRows


def stored_vectors(
    matrices: Matrices,
    cosine: bool,
    threads: int,
    onto: RowMap | None = None,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    arrays: Arrays = IN_MEMORY,
) -> Stored:
    """Checked rows, one above the other; see ``as_vectors``.

    dtype : in which they are kept; arrays : where
    """
    alone = one_blas_thread() if threads == 1 and onto is not None else nullcontext()
    with alone:
        if dtype == "float16":
            return HalfRows(
                as_half_vectors(*matrices, cosine=cosine, empty=arrays.empty, onto=onto)
            )
        return as_vectors(*matrices, cosine=cosine, empty=arrays.empty, onto=onto)


def rows_between(vectors: Stored, low: int, high: int | None = None) -> Stored:
    """Rows [low, high), to the end for None, kept as they are: a view, no copy."""
    if isinstance(vectors, HalfRows):
        return HalfRows(vectors.bits[low:high])
    return vectors[low:high]


def for_kernels(vectors: Stored) -> Floats | Bits:
    """The array that kernels take: float32, or the bits of float16 as uint16, (n, d)."""
    return vectors.bits if isinstance(vectors, HalfRows) else vectors
