"""Vectors as a run keeps them: float32, or float16, which is half the bytes.

Values are rounded to float16 once; everything is computed in float32 from what that left.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.kernels.stored import decode
from kinrank.parallel import ALONE, Runner
from kinrank.search.blas import one_blas_thread
from kinrank.search.whitening import Whiten, Whitening, fit_power
from kinrank.types import Floats
from kinrank.validation import Matrices, as_half_vectors, as_vectors, same_width

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
    queries: Any, gallery: Any, cosine: bool, run: Runner, whiten: Whiten = None
) -> Stored:
    """Queries and gallery as checked rows, one above the other, in an array of the runner.

    gallery : None where the queries are the gallery
    """
    given = [("vectors", queries)]
    if gallery is not None:
        given = [("queries", queries), ("gallery", gallery)]
    named = same_width(*given)
    whitening = whitening_for(whiten, named[-1:], run)
    alone = one_blas_thread() if run.threads == 1 and whitening is not None else nullcontext()
    with alone:
        if run.vectors == "float16":
            return HalfRows(as_half_vectors(*named, cosine=cosine, empty=run.empty, onto=whitening))
        return as_vectors(*named, cosine=cosine, empty=run.empty, onto=whitening)


def whitening_for(whiten: Whiten, matrices: Matrices, run: Runner = ALONE) -> Whitening | None:
    """The whitening that ``whiten`` is for checked rows: fitted to them if it is a power."""
    if whiten is None:
        return None
    if isinstance(whiten, Whitening):
        if whiten.width != matrices[0][1].shape[1] or whiten.dims < 1:
            raise InvalidInputError(
                f"`whiten` must be a whitening of {matrices[0][1].shape[1]} columns, as "
                f"`{matrices[0][0]}` has, got one of {whiten.width} to {whiten.dims}."
            )
        return whiten

    def stacked() -> Floats:
        fitted = fit_power(matrices, whiten)
        return np.concatenate([fitted.mean[None], fitted.projection])

    arrays = run.kept("whitening", stacked)  # for when the run goes on
    return Whitening(arrays[0], arrays[1:])


def rows_between(vectors: Stored, low: int, high: int | None = None) -> Stored:
    """Rows low to high, kept as they are: no copy."""
    if isinstance(vectors, HalfRows):
        return HalfRows(vectors.bits[low:high])
    return vectors[low:high]


def for_kernels(vectors: Stored) -> Floats | Bits:
    """The array that kernels take."""
    return vectors.bits if isinstance(vectors, HalfRows) else vectors
