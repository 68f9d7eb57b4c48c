"""Checks of what users give, in one voice: what is allowed, and what came."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from kinrank.columns import with_vectors
from kinrank.errors import InvalidInputError, KinrankWarning, UnknownNameError, shown

Name = TypeVar("Name", bound=str | None)
Matrices: TypeAlias = list[tuple[str, npt.NDArray[Any]]]  # with their names in messages

# Outside this range squares would lose digits or overflow in float32.
SAFE_EXPONENT = 20
MOST_ROWS = (1 << 31) - 1  # row numbers are int32
_MOST = {"steps": 1000, "epochs": 100_000}  # of what is no number of rows
# The largest value beside rows that are not scaled with it: a million of its squares fit float32.
LARGEST = 2.0**50
_CHECK_ROWS = 256  # at a time, so that copies of them stay in the cache
_SAMPLE = 1024  # rows that tell where the vectors lie
_FAR = 16.0  # centre^2 over variance from which vectors are moved to the origin


def check_int(name: str, value: object, low: int, high: int | None = None) -> int:
    """``value`` as an int within [low, high]."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= low and (high is None or number <= high):
            return number
    open_end = high is None or (high == MOST_ROWS and not (isinstance(value, int) and value > high))
    bound = f"of at least {low}" if open_end else f"between {low} and {high}"
    raise InvalidInputError(f"`{name}` must be an integer {bound}, got {shown(value)}.")


def check_size(name: str, value: object) -> int:
    """``value`` as a number of rows, or of steps if that is its name."""
    return check_int(name, value, 1, _MOST.get(name, MOST_ROWS))


def check_float(
    name: str,
    value: object,
    low: float,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """``value`` as a finite float within [low, high], or without an end that is open."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # of an integer or a fraction
            number = math.inf
        above = number > low if low_open else number >= low
        below = number < high if high_open else number <= high
        if math.isfinite(number) and above and below:
            return number
    left = "(" if low_open else "["
    right = ")" if high_open or math.isinf(high) else "]"
    raise InvalidInputError(
        f"`{name}` must be a number in {left}{low:g}, {high:g}{right}, got {shown(value)}."
    )


def check_bool(name: str, value: object) -> bool:
    """``value`` as a bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidInputError(f"`{name}` must be True or False, got {shown(value)}.")


def check_path(name: str, value: object) -> str:
    """``value`` as the path of a file or folder, which may or may not be there."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        if isinstance(path, str) and path and "\0" not in path and _can_be_encoded(path):
            return path
    raise InvalidInputError(f"`{name}` must be the path of a file or folder, got {shown(value)}.")


def _can_be_encoded(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a character
        return False
    return True


def as_list(name: str, values: Any, what: str) -> list[Any]:
    """``values`` as a list; what : they must be, for messages."""
    if not isinstance(values, (str, bytes, Mapping)):
        try:
            return list(values)
        except Exception:  # noqa: BLE001, S110  whatever the user's object raises
            pass
    raise InvalidInputError(f"`{name}` must be {what}, got {shown(values)}.")


def check_choice(name: str, value: Name, choices: Collection[Name]) -> Name:
    """``value`` if it is one of ``choices``."""
    try:
        if value in choices:
            return value
    except (TypeError, ValueError):  # not hashable, or an array, which is many values
        pass
    raise UnknownNameError(name, value, [str(choice) for choice in choices])


def reduce_k(name: str, value: int, limit: int, what: str) -> int:
    """``value``, or ``limit`` with a warning when there are no more rows than that."""
    if value <= limit:
        return value
    warnings.warn(
        f"`{name}` is {value}, but there are only {limit} {what}: {limit} is used.",
        KinrankWarning,
        stacklevel=3,
    )
    return limit


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """``values`` as a plain numpy array, without importing the library they come from."""
    if type(values) is np.ndarray:
        return values
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(values).sum())
        if masked:
            raise InvalidInputError(f"`{name}` must have no masked entries, got {masked}.")
        return np.asarray(values.data)
    if isinstance(values, np.ndarray):
        return np.asarray(values) if isinstance(values, np.matrix) else values
    library = type(values).__module__.partition(".")[0]
    if library == "scipy":
        raise InvalidInputError(f"`{name}` must be a dense array, got a sparse matrix.")
    try:
        if library == "torch":
            values = values.detach().cpu()
            values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        array = np.asarray(values)
    except Exception as error:  # whatever the user's object raises
        ragged = "inhomogeneous" in str(error)
        got = "rows of different lengths" if ragged else f"{type(values).__name__} ({error})"
        raise InvalidInputError(f"`{name}` must be an array, got {got}.") from error
    if array.dtype.kind in "US":
        refuse_last_nulls(name, values)
    return array


def refuse_last_nulls(name: str, values: Any) -> None:
    r"""Refuse text that ends with the character \0: numpy drops it, so that "a\0" would be "a"."""
    if isinstance(values, (str, bytes)):
        if values[-1:] in ("\0", b"\0"):
            raise InvalidInputError(
                f"`{name}` must be text that does not end with the character \\0, "
                f"got {shown(values)}."
            )
    elif isinstance(values, (list, tuple)) or getattr(values, "dtype", None) == np.dtype(object):
        for value in values:
            refuse_last_nulls(name, value)


def text_of_objects(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of Python's texts as one of numpy's; others stay as they are."""
    if array.dtype != object or {type(value) for value in array.ravel()} != {str}:
        return array
    refuse_last_nulls(name, array.ravel())
    return array.astype(str)


def as_labels(name: str, values: Any, n: int, what: str, kinds: str = "biuU") -> npt.NDArray[Any]:
    """``values`` as a whole number or text for each of the ``n`` ``what``."""
    array = text_of_objects(name, as_array(name, values))
    if array.dtype.kind in "US" and isinstance(values, (list, tuple)):
        kinds_given = {isinstance(value, (str, bytes)) for value in values}
        if len(kinds_given) > 1:  # numpy makes the text "1" of the number 1
            raise InvalidInputError(f"`{name}` must be all numbers or all text, got both.")
    if array.shape != (n,) or array.dtype.kind not in kinds:
        raise InvalidInputError(
            f"`{name}` must be a whole number or text for each of the {n} {what}, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    return array


def as_matrix(name: str, values: Any) -> npt.NDArray[Any]:
    """``values`` as a two-dimensional numeric array with at least one row and one column.

    A data frame gives its column of vectors, or its columns of numbers.
    """
    array = as_array(name, with_vectors(name, values))
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"`{name}` must hold real numbers, got dtype {array.dtype}.")
    if array.ndim != 2:
        hint = " (one vector is reshape(1, -1))" if array.ndim == 1 else ""
        raise InvalidInputError(
            f"`{name}` must be two-dimensional{hint}, got {array.ndim} dimension(s), "
            f"shape {array.shape}."
        )
    if 0 in array.shape:
        raise InvalidInputError(
            f"`{name}` must have at least one row and one column, got shape {array.shape}."
        )
    return array


class RowMap(Protocol):
    """What makes other rows of unit rows, such as a projection."""

    @property
    def dims(self) -> int:
        """The columns of what it makes."""

    def project(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Of (n, d) the rows that are kept, (n, dims)."""


def as_vectors(
    *named: tuple[str, Any],
    cosine: bool = False,
    together: bool = True,
    empty: Any = np.empty,
    onto: RowMap | None = None,
) -> npt.NDArray[np.float32]:
    """Stack named row sets into one finite, C-contiguous float32 array, a copy.

    Parameters
    ----------
    named : pairs of a name for messages and an array, (n_i, d) each
    cosine : divide each row by its Euclidean norm
    together : these are all the rows there are, so that they may be scaled and moved together;
        otherwise values above ``LARGEST`` are refused
    empty : makes the array, (shape, dtype); written to a few rows at a time
    onto : what is made of the rows in the end, each over its norm whatever ``cosine`` says

    Returns
    -------
    array, (sum of n_i, d), float32
        All values times one power of two if they are so large or small that squares would not
        fit, and moved if they lie together far from the origin; distances keep their proportions.
    """
    matrices = same_width(*named)
    exponent = 0
    cosine = cosine or onto is not None
    if not cosine and together:
        exponent = common_exponent(matrices)
    elif not cosine:
        refuse_too_large(matrices)
    stacked = stack_rows(matrices, cosine, exponent, empty, onto)
    shift = origin_shift(stacked) if together and not cosine else None
    if shift is not None:
        stacked -= shift
    return stacked


def same_width(*named: tuple[str, Any]) -> Matrices:
    """Named row sets as matrices that have the same columns."""
    matrices = [(name, as_matrix(name, values)) for name, values in named]
    first = matrices[0][0]
    width = matrices[0][1].shape[1]
    for name, matrix in matrices:
        if matrix.shape[1] != width:
            raise InvalidInputError(
                f"`{name}` must have as many columns as `{first}` ({width}), got {matrix.shape[1]}."
            )
    return matrices


def stack_rows(
    matrices: Matrices,
    cosine: bool,
    exponent: int,
    empty: Any = np.empty,
    onto: RowMap | None = None,
    *,
    half: bool = False,
    shift: Any = 0,
) -> npt.NDArray[Any]:
    """One float32 array: each row over its norm, or all over a power of two.

    half : the bits of float16, to which each value is rounded after ``shift`` was subtracted
    """
    width = matrices[0][1].shape[1] if onto is None else onto.dims
    begin = 0
    shape = (sum(len(matrix) for _, matrix in matrices), width)
    stacked: npt.NDArray[Any] = empty(shape, np.uint16 if half else np.float32)
    for name, matrix in matrices:
        for low in range(0, len(matrix), _CHECK_ROWS):
            rows = matrix[low : low + _CHECK_ROWS]
            place = slice(begin + low, begin + low + len(rows))
            if cosine:
                rows = _unit_rows(name, rows, low)
            elif exponent:
                rows = np.ldexp(rows.astype(np.float64), -exponent)
            if onto is not None:
                rows = onto.project(rows.astype(np.float32))
            stacked[place] = (
                _half_bits(name, rows.astype(np.float32) - shift, low) if half else rows
            )
        begin += len(matrix)
    return stacked


def _half_bits(name: str, rows: npt.NDArray[np.float32], low: int) -> npt.NDArray[np.uint16]:
    with np.errstate(over="ignore"):
        half = rows.astype(np.float16)
    if not np.isfinite(half).all():
        row, column = np.argwhere(~np.isfinite(half))[0]
        raise InvalidInputError(
            f"`{name}` must hold values of at most {np.finfo(np.float16).max:g} for "
            f"vectors='float16', got {rows[row, column]:g} in row {low + row}."
        )
    return half.view(np.uint16)


def unit_blocks(matrices: Matrices, size: int) -> Iterator[npt.NDArray[np.float32]]:
    """The rows over their norms, ``size`` at a time and fewer at the end of each matrix."""
    for name, matrix in matrices:
        for low in range(0, len(matrix), size):
            yield _unit_rows(name, matrix[low : low + size], low).astype(np.float32)


def as_half_vectors(
    *named: tuple[str, Any],
    cosine: bool = False,
    empty: Any = np.empty,
    onto: RowMap | None = None,
) -> npt.NDArray[np.uint16]:
    """As ``as_vectors``, each value rounded to float16 in the end: the bits of these."""
    matrices = same_width(*named)
    cosine = cosine or onto is not None
    exponent = 0 if cosine else common_exponent(matrices)
    shift = None if cosine else origin_shift(_sampled(matrices, exponent))
    moved = 0 if shift is None else shift
    return stack_rows(matrices, cosine, exponent, empty, onto, half=True, shift=moved)


def _sampled(matrices: Matrices, exponent: int) -> npt.NDArray[np.float32]:
    """The rows that ``origin_shift`` would look at, were they all in one array."""
    step = max(1, sum(len(matrix) for _, matrix in matrices) // _SAMPLE)
    sampled = []
    begin = 0
    for name, matrix in matrices:
        sampled.append((name, matrix[-begin % step :: step]))
        begin += len(matrix)
    return stack_rows(sampled, False, exponent)


def origin_shift(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
    """What to subtract from rows that lie together far from the origin: products lose digits there.

    The shift has few bits, so that subtracting it is exact for all but the largest differences.
    """
    sample = rows[:: max(1, len(rows) // _SAMPLE)]
    centre = sample.mean(axis=0, dtype=np.float64)
    offset = float(np.mean(centre**2))
    spread = float(np.einsum("ij,ij->", sample, sample, dtype=np.float64)) / sample.size - offset
    if offset <= _FAR * max(spread, 1e-30):
        return None
    mantissa, exponent = np.frexp(centre)
    return np.asarray(np.ldexp(np.round(mantissa * 256), exponent - 8), np.float32)


def common_exponent(matrices: Matrices) -> int:
    """The power of two to divide by, 0 when values are of ordinary size; checks finiteness."""
    largest = max(top for matrix in matrices for _, top in _largest_values(*matrix))
    exponent = math.frexp(largest)[1]
    return exponent if largest > 0 and abs(exponent) > SAFE_EXPONENT else 0


def refuse_too_large(matrices: Matrices, exponent: int = 0) -> None:
    """Refuse values above ``LARGEST`` after a division by a power of two, and non-finite ones.

    Their squares would overflow beside rows that are not scaled with them.
    """
    limit = LARGEST * 2.0**exponent if exponent < 900 else math.inf  # of a float64 no more
    for name, matrix in matrices:
        for low, top in _largest_values(name, matrix):
            if top > limit:
                rows = np.abs(matrix[low : low + _CHECK_ROWS].astype(np.float64))
                row = low + int(np.argmax(rows.max(axis=1)))
                raise InvalidInputError(
                    f"`{name}` must hold values of at most {limit:.2g} in size, so that distances "
                    f"from the other rows fit float32, got {top:.2g} in row {row}."
                )


def check_finite(name: str, matrix: npt.NDArray[Any]) -> None:
    """Refuse NaN and infinity."""
    for _ in _largest_values(name, matrix):
        pass


def _largest_values(name: str, matrix: npt.NDArray[Any]) -> Iterator[tuple[int, float]]:
    """The largest absolute value of a few rows at a time, and the first of these."""
    for low in range(0, len(matrix), _CHECK_ROWS):
        rows = matrix[low : low + _CHECK_ROWS]
        top = max(float(rows.max()), -float(rows.min()))  # NaN if there is one
        if not math.isfinite(top):
            _refuse_non_finite(name, rows, low)
        yield low, top


def _unit_rows(name: str, rows: npt.NDArray[Any], low: int) -> npt.NDArray[np.float64]:
    wide = rows.astype(np.float64)
    if not np.isfinite(wide).all():
        _refuse_non_finite(name, rows, low)
    peak = np.max(np.abs(wide), axis=1, keepdims=True)
    if (peak == 0).any():
        row = low + int(np.argmin(peak[:, 0] != 0))
        raise InvalidInputError(
            f"Row {row} of `{name}` is a zero vector, which has no cosine. Remove it, or use "
            "metric='euclidean' without `whiten`."
        )
    wide /= peak
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide


def _refuse_non_finite(name: str, rows: npt.NDArray[Any], low: int) -> None:
    row = low + int(np.argmin(np.isfinite(rows).all(axis=1)))
    raise InvalidInputError(f"`{name}` must be finite, got NaN or infinity in row {row}.")
