"""Tables: parquet files and data frames with a column of vectors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from kinrank.columns import (
    column_names,
    is_frame,
    library_of,
    matrix_of,
    null_count,
    only_column,
    vector_columns,
    words_or_numbers,
)
from kinrank.errors import FileFormatError, InvalidInputError, KinrankWarning, UnknownNameError
from kinrank.io import PathLike, is_parquet, read_parquet
from kinrank.validation import as_list, check_path


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table as ``CAS.fit`` takes them; made by ``kinrank.read_table``.

    Attributes
    ----------
    vectors : (n, d)
    ids : (n,) whole numbers or text, or None
    attributes : the other columns by name, (n,) each

    Examples
    --------
    >>> import numpy, kinrank
    >>> kinrank.Table(numpy.eye(3), ids=numpy.array(["a", "b", "c"]))
    <Table of 3 rows, 3 columns of vectors, 0 others>
    """

    vectors: npt.NDArray[Any]
    ids: npt.NDArray[Any] | None = None
    attributes: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        n, width = self.vectors.shape
        return f"<Table of {n:,} rows, {width} columns of vectors, {len(self.attributes)} others>"


def read_table(
    source: Any,
    column: str | None = None,
    id: str | None = None,  # noqa: A002  as it is called in the shell
    *,
    attributes: Sequence[str] | None = None,
) -> Table:
    """The vectors, ids and attributes of a parquet file or a data frame.

    Parameters
    ----------
    source : a parquet file (extra ``tables``), a data frame of pandas or polars, or a table of
        Arrow
    column : the column of vectors, lists or arrays of one length; None takes the only one
    id : the column of the rows' ids; None for none
    attributes : the columns that become attributes; None takes all others that can be. A warning
        names those that cannot: they have nulls, or are neither text, numbers, truth values nor
        dates.

    Returns
    -------
    Table
        Fixed-size lists of Arrow and arrays of polars in one piece are not copied.

    Examples
    --------
    >>> import pandas, kinrank
    >>> frame = pandas.DataFrame({"sku": ["a", "b"], "embedding": [[0.0, 1.0], [1.0, 0.0]]})
    >>> table = kinrank.read_table(frame, column="embedding", id="sku")
    >>> table.vectors.shape, table.ids.tolist()
    ((2, 2), ['a', 'b'])
    """
    if attributes is not None:
        attributes = as_list("attributes", attributes, "names of columns")
    frame, title = _frame_of(source)
    names = column_names(frame)
    for wanted in (column, id, *(attributes or ())):
        if wanted is not None and wanted not in names:
            raise UnknownNameError(f"column of {title}", wanted, [str(name) for name in names])
    listed = vector_columns(frame)
    if column is None and not listed:
        raise InvalidInputError(
            f"{title} must have a column of vectors (lists of numbers), got the columns "
            f"{', '.join(str(name) for name in names) or 'none'}."
        )
    chosen = only_column(title, listed) if column is None else column
    if chosen not in listed:
        raise InvalidInputError(
            f"The column {chosen!r} of {title} must hold vectors (lists of numbers), "
            f"got {_kind(frame[chosen])}."
        )
    others = [name for name in names if name not in (chosen, id) and name not in listed]
    return Table(
        vectors=matrix_of(f"{title}:{chosen}", frame[chosen]),
        ids=None if id is None else _required_column(frame, id, title),
        attributes=_attributes(frame, others)
        if attributes is None
        else {name: _required_column(frame, name, title) for name in attributes},
    )


def _frame_of(source: Any) -> tuple[Any, str]:
    """A frame, and what it is called in messages."""
    if is_frame(source):
        return source, "the data frame"
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidInputError(
            "`source` must be a parquet file, a data frame of pandas or polars or a table of "
            f"Arrow, got {type(source).__name__}."
        )
    return parquet_table(source), Path(source).name


def parquet_table(path: PathLike) -> Any:
    """A whole parquet file as a table of Arrow."""
    file = Path(check_path("source", path))
    if not is_parquet(file):
        raise FileFormatError(f"{file} must be a parquet file.")
    return read_parquet(file)


def _kind(column: Any) -> str:
    return str(column.type if library_of(column) == "pyarrow" else column.dtype)


def _required_column(frame: Any, name: str, title: str) -> npt.NDArray[Any]:
    nulls = null_count(frame[name])
    if nulls:
        raise InvalidInputError(
            f"The column {name!r} of {title} must have a value in every row, got {nulls} nulls."
        )
    values = words_or_numbers(frame[name])
    if values is None:
        raise InvalidInputError(
            f"The column {name!r} of {title} must be text, numbers, truth values or dates, got "
            f"{_kind(frame[name])}."
        )
    return values


def _attributes(frame: Any, names: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
    """The columns that can be attributes; a warning names the others."""
    taken = {}
    refused = []
    for name in names:
        nulls = null_count(frame[name])
        values = None if nulls else words_or_numbers(frame[name])
        if values is None:
            refused.append(f"{name} ({f'{nulls:,} nulls' if nulls else _kind(frame[name])})")
        else:
            taken[str(name)] = values
    if refused:
        warnings.warn(
            f"Columns that cannot be attributes are left out: {', '.join(refused)}.",
            KinrankWarning,
            stacklevel=3,
        )
    return taken
