"""Tables of PostgreSQL with pgvector as stores (extra ``pgvector``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, StoreError, UnknownIdError, UnknownNameError
from kinrank.index.ids import Ids, as_ids
from kinrank.optional import require
from kinrank.search.searcher import METRICS, Metric
from kinrank.stores.base import TableStore, as_lists, engine_errors, squared_between_rows
from kinrank.stores.where import AttributeKind, Wanted, sql_condition, sql_literal
from kinrank.types import Floats, Longs, Neighbors
from kinrank.validation import check_bool, check_choice, check_int

__all__ = ["PgVectorStore"]

_OPERATORS: dict[Metric, str] = {"euclidean": "<->", "cosine": "<=>", "inner": "<#>"}
_TEXTS = ("text", "character varying", "uuid")
_INTEGERS = ("smallint", "integer", "bigint")
# Dates as text in one form, which orders as they do.
_DATES = {
    "date": "to_char({}, 'YYYY-MM-DD')",
    "timestamp without time zone": """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.US')""",
    "timestamp with time zone": (
        """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
    ),
}
_CURSOR = "kinrank_pages"
_OWNERS = 512  # rows whose neighbours are handed on together
_PAGE = 4096  # rows that are read at a time
_MAX_EF = 1000  # pgvector's limit of hnsw.ef_search

_VECTOR = re.compile(r'(?:(?:\w+|"(?:[^"]|"")+")\.)?vector(?:\((\d+)\))?')
_COLUMN = "embedding"  # the vectors, if several columns might be

_COLUMNS = """
    SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
# One search for each query, so that the planner can use an index.
_SEARCH = """
    SELECT q.number, found.id, found.value
    FROM unnest(%(queries)s::vector[]) WITH ORDINALITY AS q(vector, number)
    CROSS JOIN LATERAL (
        SELECT {id}::{shown} AS id, ({vector} {operator} q.vector) AS value
        FROM {table} ORDER BY {vector} {operator} q.vector LIMIT %(k)s
    ) AS found
    ORDER BY q.number, found.value
"""
# The same for the rows of the table themselves, each among its own neighbours.
_NEIGHBORS = """
    SELECT a.{id}::{shown}, found.id, found.value
    FROM {table} AS a
    CROSS JOIN LATERAL (
        SELECT b.{id}::{shown} AS id, (b.{vector} {operator} a.{vector}) AS value
        FROM {table} AS b ORDER BY b.{vector} {operator} a.{vector} LIMIT %(k)s
    ) AS found
    WHERE a.{vector} IS NOT NULL
"""
# As bytes, which do not depend on the adapters that a connection has.
_FETCHED = "SELECT {id}::{shown}, vector_send({vector}) FROM {table} WHERE {id} = ANY(%s::{kind}[])"


class PgVectorStore(TableStore):
    """A table with a column of ids and a column of type vector.

    Search settings are local to a transaction. A store that opened its connection closes it in
    ``close`` or at the end of a ``with`` block.

    Parameters
    ----------
    connection : a psycopg connection for this store alone, or the text that opens one. With the
        text, a connection that was lost is opened again.
    table : its name, or ``("schema", "table")``
    id_column : its name; ids are integers, text or UUIDs (as text), each once
    vector_column : its name; None is the only one of type vector, or "embedding" of several
    metric : "euclidean", "cosine" or "inner": the operator ``<->``, ``<=>`` or ``<#>``. An index
        of another operator class is not used; the whole table is then searched, exactly.
    exact : search the whole table even if it has a vector index
    ef_search, probes : of HNSW and IVFFlat indexes; None is the larger of k and 40, and the
        server's own. HNSW finds at most 1,000: beyond that the whole table is searched.
    """

    _FETCH = 16384

    def __init__(
        self,
        connection: Any,
        table: str | tuple[str, str],
        id_column: str = "id",
        vector_column: str | None = None,
        metric: Metric = "euclidean",
        *,
        exact: bool = False,
        ef_search: int | None = None,
        probes: int | None = None,
    ) -> None:
        self.metric: Metric = check_choice("metric", metric, METRICS)
        self._exact = check_bool("exact", exact)
        self._ef = 40 if ef_search is None else check_int("ef_search", ef_search, 1, _MAX_EF)
        self._probes = None if probes is None else check_int("probes", probes, 1, 32768)
        self._psycopg = require("psycopg", extra="pgvector", purpose="A PostgreSQL store")
        self._text_to_connect = connection if isinstance(connection, str) else None
        if isinstance(connection, str):
            connection = self._connect(connection)
        elif not isinstance(connection, self._psycopg.Connection):
            raise InvalidInputError(
                "`connection` must be a psycopg connection or the text that opens one, "
                f"got {type(connection).__name__}."
            )
        self._connection = connection
        self._lock = Lock()
        try:
            self._describe(table, id_column, vector_column)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection if this store opened it; nothing opens it again."""
        if self._text_to_connect is not None:
            self._text_to_connect = None
            self._connection.close()

    def __enter__(self) -> PgVectorStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM {table}")[0][0])

    def neighbors(self, k: int) -> Iterator[tuple[Ids, Neighbors]]:
        """See ListingStore: by a lateral join of the table with itself."""
        limit = check_int("k", k, 1) + 1  # the row itself
        owners: list[Any] = []
        found: list[tuple[Any, float]] = []
        for page in self._streamed(_NEIGHBORS, {"k": limit}, self._settings(limit)):
            for owner, name, value in page:
                if len(owners) >= limit * _OWNERS and owner != owners[-1]:
                    yield self._neighbors_of(owners, found, limit)
                    owners = []
                    found = []
                owners.append(owner)
                found.append((name, value))
        if owners:
            yield self._neighbors_of(owners, found, limit)

    def _neighbors_of(
        self, owners: list[Any], found: list[tuple[Any, float]], limit: int
    ) -> tuple[Ids, Neighbors]:
        """What was found of some rows, each without itself."""
        names = as_ids(list(dict.fromkeys(owners)))
        of_row = {name: row for row, name in enumerate(names.tolist())}
        rows = np.array([of_row[owner] for owner in owners], np.int64)
        ids = as_ids([name for name, _ in found])
        values = np.array([value for _, value in found], np.float64)
        if self.metric == "euclidean":
            values **= 2
        order = np.lexsort((values, rows))
        order = order[ids[order] != names[rows[order]]]
        squared = squared_between_rows(self.metric, values[order])
        return names, as_lists(len(names), limit, rows[order], ids[order], squared)

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        columns = ["{id}::{shown}", *(_template(self._attribute(name)[0]) for name in names)]
        text = f"SELECT {', '.join(columns)} FROM {{table}}"  # noqa: S608  names are quoted
        if conditions:
            text += f" WHERE {' AND '.join(map(_template, conditions))}"
        return self._streamed(text)

    def _streamed(
        self, text: str, values: Any = None, settings: dict[str, str] | None = None
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a statement, some at a time; the connection serves nothing else meanwhile."""
        self._rows("SELECT 1")  # opens a connection that was lost
        statement = self._psycopg.sql.SQL(text).format(**self._names)
        with (
            self._lock,
            engine_errors("PostgreSQL", self._psycopg.Error),
            self._connection.transaction(),
            self._psycopg.ServerCursor(
                self._connection, _CURSOR, row_factory=self._psycopg.rows.tuple_row
            ) as cursor,
        ):
            self._set(settings)
            cursor.execute(statement, values or (), binary=True)
            while page := cursor.fetchmany(_PAGE):
                yield page

    def _attribute(self, name: str) -> tuple[str, AttributeKind]:
        """A column in statements, and what its values are; dates are text that orders as they do.

        An error if there is no such column, or one of another type.
        """
        if name not in self._types:
            raise UnknownNameError("attribute", name, list(self._types))
        kind = re.sub(r"\(\d+\)", "", self._types[name])
        column = self._psycopg.sql.Identifier(name).as_string(self._connection)
        if kind in _DATES:
            return _DATES[kind].format(column), "text"
        if kind in _TEXTS:
            return f'({column}::text COLLATE "C")', "text"
        if kind in _INTEGERS:
            return f"{column}::bigint", "integers"
        if kind in ("real", "double precision"):
            return f"{column}::double precision", "numbers"
        if kind == "boolean":
            return column, "True or False"
        raise InvalidInputError(
            f"Column {name!r} must hold text, numbers, dates or booleans to be an attribute, got "
            f"{kind}."
        )

    def _expression(self, wanted: Wanted) -> str | None:
        column, kind = self._attribute(wanted.name)
        wanted = wanted.of_kind(kind)
        if kind == "numbers" and not wanted.fits_float64:
            return None
        if any(abs(number) == math.inf for number in wanted.numbers):
            return None
        return sql_condition(wanted, column, sql_literal, "false")

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        values = {"queries": [str(row.tolist()) for row in rows], "k": k}
        results = self._rows(_SEARCH, values, self._settings(k))
        owners = np.array([number for number, _, _ in results], np.int64) - 1
        distances = np.array([value for _, _, value in results], np.float64)
        if self.metric == "euclidean":
            distances **= 2
        return owners, [name for _, name, _ in results], distances

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        try:
            found = self._rows(_FETCHED, (ids.tolist(),))
        except StoreError as error:
            if not isinstance(error.__cause__, self._psycopg.DataError):
                raise
            # Ids that the column's type cannot hold.
            raise UnknownIdError(f"There is no row with such an id: {error.__cause__}") from error
        if any(vector is None for _, vector in found):
            raise InvalidInputError("Some rows of the table have no vector.")
        if any(len(vector) != 4 + 4 * self.width for _, vector in found):
            raise InvalidInputError(
                f"Some rows of the table have vectors of another length than {self.width}."
            )
        layout = np.dtype([("header", "V4"), ("vector", ">f4", (self.width,))])
        vectors = np.frombuffer(b"".join(vector for _, vector in found), layout)["vector"]
        return [name for name, _ in found], vectors.astype(np.float32)

    def _describe(
        self, table: str | tuple[str, str], id_column: str, vector_column: str | None
    ) -> None:
        """Read what the columns are, and keep the names that statements are made with."""
        sql = self._psycopg.sql
        parts: Any = (table,) if isinstance(table, str) else table
        if not isinstance(parts, tuple) or len(parts) not in (1, 2):
            raise InvalidInputError(f"`table` must be a name or (schema, table), got {table!r}.")
        text = sql.Identifier(*(_name("table", part) for part in parts)).as_string(self._connection)
        self._names = {"table": sql.SQL(_escaped(text))}
        columns = dict(self._rows(_COLUMNS, (text,)))
        self._types = columns
        if not columns:
            raise InvalidInputError(
                f"The database has no table {text}. Name one of another schema as (schema, table)."
            )
        vector_column = self._vector_column(text, columns, vector_column)
        for column in (_name("id_column", id_column), vector_column):
            if column not in columns:
                raise InvalidInputError(
                    f"The table {text} has no column {column!r}, only {', '.join(columns)}."
                )
        for name, column in (("id", id_column), ("vector", vector_column)):
            quoted = sql.Identifier(column).as_string(self._connection)
            self._names[name] = sql.SQL(_escaped(quoted))
        self._names["operator"] = sql.SQL(_OPERATORS[self.metric])
        kind = re.sub(r"\(\d+\)", "", columns[id_column])
        if kind not in (*_TEXTS, *_INTEGERS):
            raise InvalidInputError(
                f"Column {id_column!r} must hold text or integers to be ids, got {kind}."
            )
        self._text = kind in _TEXTS
        self._names["kind"] = sql.SQL(kind)
        self._names["shown"] = sql.SQL("text" if self._text else "bigint")
        self.width = self._width(vector_column, columns[vector_column])

    def _vector_column(self, table: str, kinds: dict[str, str], wanted: str | None) -> str:
        """The column that was named, or the one that it must be."""
        if wanted is not None:
            return _name("vector_column", wanted)
        able = [column for column, kind in kinds.items() if _VECTOR.fullmatch(kind)]
        if len(able) == 1 or _COLUMN in able:
            return able[0] if len(able) == 1 else _COLUMN
        raise InvalidInputError(
            f"`vector_column` must be given for the table {table}, which has "
            f"{', '.join(map(repr, able)) or 'no columns'} of type vector."
        )

    def _width(self, column: str, kind: str) -> int:
        """The length of the vectors, which the type may leave open."""
        match = _VECTOR.fullmatch(kind)
        if match is None:
            raise InvalidInputError(f"Column {column!r} must be of type vector, got {kind}.")
        if match[1]:
            return int(match[1])
        sizes = self._rows("SELECT DISTINCT vector_dims({vector}) FROM {table}")
        if len(sizes) != 1 or sizes[0][0] is None:
            raise InvalidInputError(
                f"Column {column!r} must hold vectors of one length, got {len(sizes)} lengths."
            )
        return int(sizes[0][0])

    def _settings(self, k: int) -> dict[str, str]:
        """What the server has to know for this search."""
        if self._exact or k > _MAX_EF:
            return {"enable_indexscan": "off"}
        settings = {"hnsw.ef_search": str(max(self._ef, k))}
        if self._probes is not None:
            settings["ivfflat.probes"] = str(self._probes)
        return settings

    def _connect(self, text: str) -> Any:
        with engine_errors("The connection to PostgreSQL", self._psycopg.Error):
            return self._psycopg.connect(text)

    def _rows(
        self, text: str, values: Any = None, settings: dict[str, str] | None = None
    ) -> list[Any]:
        """All rows of a statement; over a new connection where the old one was lost."""
        with self._lock:
            try:
                return self._rows_of_statement(text, values, settings)
            except StoreError as error:
                if not self._connection.closed:
                    raise
                if self._text_to_connect is None:
                    raise StoreError(
                        f"{error} The connection is closed. Give the store the text that opens one "
                        "instead of a connection, and it opens another when one is lost."
                    ) from error.__cause__
            self._connection = self._connect(self._text_to_connect)
            return self._rows_of_statement(text, values, settings)

    def _rows_of_statement(
        self, text: str, values: Any, settings: dict[str, str] | None
    ) -> list[Any]:
        """All rows of a statement in a transaction of its own."""
        statement = self._psycopg.sql.SQL(text).format(**self._names)
        # Not the connection's own kind of cursor, which may give dicts.
        kind = partial(self._psycopg.Cursor, row_factory=self._psycopg.rows.tuple_row)
        with (
            engine_errors("PostgreSQL", self._psycopg.Error),
            self._connection.transaction(),
            kind(self._connection) as cursor,
        ):
            self._set(settings)
            rows: list[Any] = cursor.execute(statement, values or (), binary=True).fetchall()
        return rows

    def _set(self, settings: dict[str, str] | None) -> None:
        """Settings for the transaction that is open."""
        for name, value in (settings or {}).items():
            with self._psycopg.Cursor(self._connection) as cursor:
                cursor.execute("SELECT set_config(%s, %s, true)", (name, value))


def _name(what: str, text: object) -> str:
    """A name as PostgreSQL may have it."""
    whole = isinstance(text, str) and text.encode(errors="ignore").decode() == text
    if isinstance(text, str) and whole and text and "\0" not in text:
        return text
    raise InvalidInputError(f"`{what}` must be a name of PostgreSQL, got {text!r}.")


def _template(text: str) -> str:
    """Text in a template of a statement, where braces are names."""
    return _escaped(text).replace("{", "{{").replace("}", "}}")


def _escaped(text: str) -> str:
    """Text in a statement with parameters, where % begins one."""
    return text.replace("%", "%%")
