"""Tables of SQLite with sqlite-vec as stores (extra ``sqlite-vec``)."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, OptionalDependencyError, UnknownNameError
from kinrank.index.ids import Ids
from kinrank.io import PathLike
from kinrank.optional import require
from kinrank.search.searcher import Metric
from kinrank.stores.base import TableStore, engine_errors
from kinrank.stores.where import Wanted, sql_condition, sql_literal
from kinrank.types import Floats, Longs
from kinrank.validation import check_choice

__all__ = ["SqliteVecStore"]

# ruff: noqa: S608  names of tables and columns are quoted, and SQL takes no parameters for them

_FUNCTIONS: dict[Metric, str] = {
    "euclidean": "vec_distance_L2",
    "cosine": "vec_distance_cosine",
}
_FLOAT = 4  # bytes
_PAGE = 4096  # rows that are read at a time
_INTEGERS = 2**63


class SqliteVecStore(TableStore):
    """A table of SQLite with a column of ids and one of vectors: float32 as blobs, or ``vec0``.

    Every search compares with all rows, as sqlite-vec does: it is exact.

    Parameters
    ----------
    database : a file, or a connection into which sqlite-vec is loaded
    table : its name
    id_column, vector_column : their names; ids are text or integers, each once
    metric : "euclidean" or "cosine"

    Where Python's own sqlite3 cannot load extensions, the package ``pysqlite3-binary`` can.
    """

    _FETCH = 500  # SQLite takes 999 parameters in old versions

    def __init__(
        self,
        database: PathLike | Any,
        table: str,
        id_column: str = "id",
        vector_column: str = "embedding",
        metric: Metric = "euclidean",
    ) -> None:
        require("sqlite_vec", extra="sqlite-vec", purpose="A SQLite store")
        self.metric: Metric = check_choice("metric", metric, tuple(_FUNCTIONS))
        self._lock = threading.Lock()  # a connection serves one thread at a time
        is_file = isinstance(database, (str, os.PathLike))
        self._connection: Any = open_database(database) if is_file else database
        self._table = _quoted(table)
        self._id = _quoted(id_column)
        self._vector = _quoted(vector_column)
        self._describe(table, id_column, vector_column)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __len__(self) -> int:
        return int(self._ask(f"SELECT count(*) FROM {self._table}")[0][0])

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        columns = ", ".join([self._id, *(self._attribute(name) for name in names)])
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        with self._lock:  # until all pages are read
            with _errors():
                rows = self._connection.execute(f"SELECT {columns} FROM {self._table}{where}")
            while True:
                with _errors():
                    page = rows.fetchmany(_PAGE)
                if not page:
                    return
                yield page

    def _expression(self, wanted: Wanted) -> str | None:
        """By type and value: SQLite keeps values of any type in a column, and orders by a collation
        that a column may choose.
        """
        column = self._attribute(wanted.name)
        if wanted.values is not None:  # of which it keeps True and False as 1 and 0
            values = tuple(int(one) if isinstance(one, bool) else one for one in wanted.values)
            wanted = replace(wanted, values=values)
        numbers = wanted.numbers
        if any(abs(number) >= _INTEGERS for number in numbers):
            return None
        texts = [value for value in wanted.values or () if isinstance(value, str)]
        if texts and numbers:
            return None
        kinds = "'integer', 'real'" if numbers else "'text'"
        # Without a plus the column's affinity would make numbers of text.
        compared = sql_condition(wanted, f"(+{column} COLLATE BINARY)", sql_literal)
        return f"(typeof({column}) IN ({kinds}) AND {compared})"

    def _attribute(self, name: str) -> str:
        """A column by its name, quoted."""
        if name not in self._columns_of_table:
            raise UnknownNameError("attribute", name, self._columns_of_table)
        return _quoted(name)

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        distance = f"{_FUNCTIONS[self.metric]}({self._vector}, ?)"
        statement = (
            f"SELECT {self._id}, {distance} AS distance FROM {self._table} "
            f"WHERE {self._vector} IS NOT NULL ORDER BY distance LIMIT ?"
        )
        owners: list[int] = []
        names: list[Any] = []
        values: list[float] = []
        for query, row in enumerate(rows):
            for name, value in self._ask(statement, (row.tobytes(), k)):
                owners.append(query)
                names.append(name)
                values.append(np.inf if value is None else value)
        measured = np.array(values, np.float64)
        return (
            np.array(owners, np.int64),
            names,
            measured**2 if self.metric == "euclidean" else measured,
        )

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        wanted = ids.tolist()
        marks = ", ".join("?" * len(wanted))
        rows = self._ask(
            f"SELECT {self._id}, {self._vector} FROM {self._table} WHERE {self._id} IN ({marks})",
            wanted,
        )
        names = [name for name, _ in rows]
        for name, blob in rows:
            if blob is None or len(blob) != _FLOAT * self.width:
                raise InvalidInputError(
                    f"Every row must have a vector of {self.width} float32 numbers, got {name!r} "
                    "without."
                )
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), np.float32)
        return names, vectors.reshape(len(rows), self.width)

    def _ask(self, statement: str, values: Any = ()) -> list[Any]:
        with self._lock, _errors():
            rows: list[Any] = self._connection.execute(statement, values).fetchall()
        return rows

    def _describe(self, table: str, id_column: str, vector_column: str) -> None:
        """Read what the columns are."""
        self._ask("SELECT vec_version()")  # says that sqlite-vec is not loaded
        columns = [row[1] for row in self._ask(f"PRAGMA table_info({self._table})")]
        self._columns_of_table = columns
        if not columns:
            raise InvalidInputError(f"The database has no table {table!r}.")
        for name in (id_column, vector_column):
            if name not in columns:
                raise InvalidInputError(f"The table has no column {name!r}, only {columns}.")
        kinds = {
            row[0] for row in self._ask(f"SELECT DISTINCT typeof({self._id}) FROM {self._table}")
        }
        if len(kinds) > 1 or not kinds <= {"text", "integer"}:
            raise InvalidInputError(
                f"Column {id_column!r} must hold text or integers alone to be ids, got "
                f"{' and '.join(sorted(kinds))}."
            )
        self._text = "text" in kinds
        sizes = self._ask(
            f"SELECT DISTINCT length({self._vector}) FROM {self._table} "
            f"WHERE {self._vector} IS NOT NULL LIMIT 2"
        )
        if len(sizes) != 1 or sizes[0][0] % _FLOAT or sizes[0][0] == 0:
            got = " and ".join(str(size) for (size,) in sizes) or "no vectors"
            raise InvalidInputError(
                f"Column {vector_column!r} must hold float32 vectors of one length, got {got} "
                "(bytes)."
            )
        self.width = sizes[0][0] // _FLOAT


def open_database(path: PathLike) -> Any:
    """A connection to a file that is there, to be read, with sqlite-vec loaded."""
    extension = require("sqlite_vec", extra="sqlite-vec", purpose="A SQLite store")
    file = Path(path)
    if not file.is_file():
        raise InvalidInputError(f"`database` must be a file of SQLite, and there is no {file}.")
    with _errors():
        connection = _module().connect(
            f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
        connection.enable_load_extension(True)
        extension.load(connection)
        connection.enable_load_extension(False)
    return connection


def _module() -> ModuleType:
    """Python's sqlite3 if it can load extensions, else the package that can."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    try:
        return require("pysqlite3", extra="sqlite-vec", purpose="Loading sqlite-vec")
    except OptionalDependencyError as error:
        raise OptionalDependencyError(
            "pysqlite3",
            "sqlite-vec",
            "This Python's sqlite3 cannot load extensions, so a SQLite store",
        ) from error


def _quoted(name: Any) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidInputError(f"Names of tables and columns must be text, got {name!r}.")
    return '"' + name.replace('"', '""') + '"'


def _errors() -> AbstractContextManager[None]:
    # pysqlite3 has errors of its own, which are not those of sqlite3.
    return engine_errors("SQLite", Exception)
