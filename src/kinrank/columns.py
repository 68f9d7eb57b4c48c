"""Columns of data frames (pandas, polars, Arrow) as arrays; none of these packages is imported."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError

_LIBRARIES = ("pandas", "polars", "pyarrow")
_FRAMES = ("DataFrame", "Table", "RecordBatch")
_NUMBERS = ("int", "uint", "float", "halffloat", "double")  # how names of Arrow's types begin
_LISTS = ("list<", "large_list<", "fixed_size_list<")


def library_of(values: object) -> str:
    """The package that an object comes from."""
    return type(values).__module__.partition(".")[0]


def is_frame(values: object) -> bool:
    """Whether it is a data frame of pandas or polars, or a table of Arrow."""
    return library_of(values) in _LIBRARIES and type(values).__name__ in _FRAMES


def column_names(frame: Any) -> list[Any]:
    """The names of a frame's columns."""
    return list(frame.column_names if library_of(frame) == "pyarrow" else frame.columns)


def vector_columns(frame: Any) -> list[Any]:
    """The names of the columns that hold lists of numbers."""
    return [name for name in column_names(frame) if holds_vectors(frame[name])]


def with_vectors(name: str, values: Any) -> Any:
    """The vectors of a frame or of a column as a matrix; anything else as it is.

    name : for messages
    """
    if library_of(values) not in _LIBRARIES:
        return values
    if is_frame(values):
        listed = vector_columns(values)
        if not listed:
            return values  # numbers, a column each
        values = values[only_column(name, listed)]
    return matrix_of(name, values) if holds_vectors(values) else values


def only_column(name: str, listed: Sequence[Any]) -> Any:
    """The one column of vectors that there is."""
    if len(listed) > 1:
        raise InvalidInputError(
            f"`{name}` must have one column of vectors, got {len(listed)} "
            f"({', '.join(str(column) for column in listed)}): say which."
        )
    return listed[0]


def holds_vectors(column: Any) -> bool:
    """Whether the values of a column are lists of numbers."""
    library = library_of(column)
    if library == "polars":
        inner = getattr(column.dtype, "inner", None)
        return inner is not None and bool(inner.is_numeric())
    if library == "pandas":
        kind = getattr(column.dtype, "pyarrow_dtype", None)
        if kind is not None:
            return _is_list_of_numbers(kind)
        if column.dtype != object:
            return False
        first = next((value for value in column if not _is_null(value)), None)
        return isinstance(first, (list, tuple, np.ndarray)) and _is_vector(first)
    return library == "pyarrow" and _is_list_of_numbers(getattr(column, "type", None))


def _is_list_of_numbers(kind: Any) -> bool:
    return str(kind).startswith(_LISTS) and str(kind.value_type).startswith(_NUMBERS)


def _is_vector(values: Any) -> bool:
    try:
        array = np.asarray(values)
    except ValueError:  # lists of lists of different lengths
        return False
    # A list with a null among its numbers is of objects; it is refused when it is read.
    numbers = all(value is None or isinstance(value, (int, float)) for value in array.flat)
    return array.ndim == 1 and (array.dtype.kind in "fiu" or numbers)


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124  NaN


def matrix_of(name: str, column: Any) -> npt.NDArray[Any]:
    """A column of vectors as an array (n, d); not copied where it lies in one piece.

    name : for messages
    """
    library = library_of(column)
    if library == "polars":
        return _matrix_of_polars(name, column)
    if library == "pandas":
        if getattr(column.dtype, "pyarrow_dtype", None) is None:
            return _matrix_of_lists(name, column.tolist())
        column = column.array.__arrow_array__()
    return _matrix_of_arrow(name, column)


def _matrix_of_lists(name: str, rows: list[Any]) -> npt.NDArray[Any]:
    _refuse_null_rows(name, np.array([_is_null(row) for row in rows], np.bool_))
    arrays = [np.asarray(row) for row in rows]
    _refuse_ragged(name, np.array([len(array) if array.ndim else -1 for array in arrays]))
    for number, array in enumerate(arrays):
        if array.dtype.kind not in "fiu":
            raise InvalidInputError(
                f"`{name}` must hold real numbers, got {array.dtype} in row {number} (nulls, or "
                "something else among the numbers)."
            )
    return np.stack(arrays) if arrays else np.empty((0, 0), np.float32)


def _matrix_of_polars(name: str, column: Any) -> npt.NDArray[Any]:
    _refuse_null_rows(name, column.is_null().to_numpy())
    if hasattr(column.dtype, "width") or str(column.dtype).startswith("Array"):
        flat = column.reshape((-1,))
        width = column.dtype.shape[0]
    else:
        lengths = column.list.len().to_numpy()
        _refuse_ragged(name, lengths)
        flat = column.explode()
        width = int(lengths[0]) if len(lengths) else 0
    _refuse_null_values(name, flat.null_count())
    return np.asarray(flat.to_numpy()).reshape(len(column), width)


def _matrix_of_arrow(name: str, column: Any) -> npt.NDArray[Any]:
    if hasattr(column, "chunks"):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    _refuse_null_rows(name, ~column.is_valid().to_numpy(zero_copy_only=False))
    if str(column.type).startswith("fixed_size_list<"):
        width = int(column.type.list_size)
    else:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        _refuse_ragged(name, lengths)
        width = int(lengths[0]) if len(lengths) else 0
    flat = column.flatten()
    _refuse_null_values(name, flat.null_count)
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), width)


def _refuse_null_rows(name: str, is_null: npt.NDArray[np.bool_]) -> None:
    nulls = np.flatnonzero(is_null)
    if len(nulls):
        raise InvalidInputError(
            f"`{name}` must have a vector in every row, got {len(nulls)} without one, the first in "
            f"row {nulls[0]}: leave these rows out."
        )


def _refuse_null_values(name: str, count: int) -> None:
    if count:
        raise InvalidInputError(
            f"`{name}` must have vectors without nulls among their numbers, got {count} nulls."
        )


def _refuse_ragged(name: str, lengths: npt.NDArray[Any]) -> None:
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        raise InvalidInputError(
            f"`{name}` must have vectors of one length, got {lengths[0]} numbers in row 0 and "
            f"{lengths[other[0]]} in row {other[0]}."
        )


def null_count(column: Any) -> int:
    """How many values of a column are missing."""
    if library_of(column) == "pandas":
        return int(column.isna().sum())
    count = column.null_count
    return int(count() if callable(count) else count)


def words_or_numbers(column: Any) -> npt.NDArray[Any] | None:
    """A column without nulls as text, whole numbers, numbers or truth values; None for others.

    Dates and times become text in ISO's form, which sorts as they do.
    """
    library = library_of(column)
    values = column.to_pylist() if library == "pyarrow" else list(column.to_list())
    kinds = {type(value) for value in values}
    if kinds <= {bool} or kinds <= {int} or kinds <= {float}:
        return np.array(values)
    if kinds <= {str}:
        return np.array(values, str)
    if kinds <= {Decimal}:
        return np.array(values, np.float64)
    if all(hasattr(value, "isoformat") for value in values):
        return np.array([value.isoformat() for value in values], str)
    return None
