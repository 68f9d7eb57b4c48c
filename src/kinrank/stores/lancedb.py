"""Tables of LanceDB as stores (extra ``lancedb``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.index.ids import Ids, as_ids
from kinrank.optional import require
from kinrank.search.searcher import METRICS, Metric
from kinrank.stores.base import TableStore, engine_errors
from kinrank.stores.where import AttributeKind, Wanted, sql_condition, sql_literal
from kinrank.types import Floats, Longs
from kinrank.validation import check_bool, check_choice, check_int

__all__ = ["LanceStore"]

_PAGE = 4096  # rows that are read at a time
_TYPES: dict[Metric, str] = {"euclidean": "l2", "cosine": "cosine", "inner": "dot"}


class LanceStore(TableStore):
    """A table with a column of ids and a column of vectors of fixed length.

    Parameters
    ----------
    table : of ``lancedb.connect(...).open_table(...)``
    id_column, vector_column : their names; ids are text or integers, each once
    metric : "euclidean", "cosine" or "inner"; None is that of the vector index, or "euclidean"
    exact : search the whole table even if it has a vector index
    refine : with a vector index: how many times k candidates are compared by their vectors before
        the first k are returned. LanceDB's indexes are compressed; without it many are missed.
    """

    _FETCH = 4096

    def __init__(
        self,
        table: Any,
        id_column: str = "id",
        vector_column: str = "vector",
        metric: Metric | None = None,
        *,
        exact: bool = False,
        refine: int = 10,
    ) -> None:
        module = require("lancedb.table", extra="lancedb", purpose="A LanceDB store")
        if not isinstance(table, module.Table):
            raise InvalidInputError(f"`table` must be a LanceDB table, got {type(table).__name__}.")
        self._table = table
        self._id = id_column
        self._vector = vector_column
        self._describe()
        self._exact = check_bool("exact", exact)
        self._refine = check_int("refine", refine, 1, 1000)
        indexed = self._indexed()
        if metric is None:
            metric = indexed or "euclidean"
        self.metric: Metric = check_choice("metric", metric, METRICS)
        self._refined = indexed is not None and not exact
        if self._refined and indexed != metric:
            raise InvalidInputError(
                f"`metric` must be that of the vector index ({indexed!r}) unless exact=True, "
                f"got {metric!r}."
            )

    def __len__(self) -> int:
        with _errors():
            return int(self._table.count_rows())

    def _pages(self, names: list[str], conditions: list[Any]) -> Iterator[list[tuple[Any, ...]]]:
        for name in names:
            self._attribute_kind(name)
        columns = list(dict.fromkeys([self._id, *names]))
        with _errors():
            query = self._table.search().select(columns).limit(max(len(self), 1))
            if conditions:
                query = query.where(" AND ".join(conditions))
            batches = iter(query.to_batches(_PAGE))
        while True:
            with _errors():
                batch = next(batches, None)
            if batch is None:
                return
            values = {column: batch[column].to_pylist() for column in columns}
            yield list(zip(*(values[name] for name in [self._id, *names]), strict=True))

    def _attribute_kind(self, name: str) -> AttributeKind:
        """What the values of a column are; an error if they cannot be an attribute."""
        arrow = require("pyarrow.types", extra="lancedb", purpose="A LanceDB store")
        if name not in self._table.schema.names:
            raise UnknownNameError("attribute", name, list(self._table.schema.names))
        kind = self._field(name).type
        if arrow.is_string(kind) or arrow.is_large_string(kind):
            return "text"
        if arrow.is_boolean(kind):
            return "True or False"
        if arrow.is_integer(kind):
            return "integers"
        if arrow.is_floating(kind):
            return "numbers"
        raise InvalidInputError(
            f"Column {name!r} must hold text, numbers or booleans to be an attribute, got {kind}."
        )

    def _expression(self, wanted: Wanted) -> str | None:
        kind = self._attribute_kind(wanted.name)
        wanted = wanted.of_kind(kind)
        if not wanted.fits_float64 or (kind == "numbers" and not wanted.fits_float32):
            return None
        return sql_condition(wanted, f"`{wanted.name}`", sql_literal, "false")

    def _nearest(self, rows: Floats, k: int) -> tuple[Longs, Any, npt.NDArray[Any]]:
        with _errors():
            query = self._table.search([row.tolist() for row in rows], self._vector)
            query = query.distance_type(_TYPES[self.metric]).select([self._id, "_distance"])
            query = query.limit(k)
            if self._refined:
                results = query.refine_factor(self._refine).to_arrow()
            else:
                results = query.bypass_vector_index().to_arrow()
        owners = np.zeros(len(results), np.int64)  # a single query is answered without its number
        if "query_index" in results.column_names:
            owners = results["query_index"].to_numpy().astype(np.int64)
        values = results["_distance"].to_numpy()
        order = np.lexsort((values, owners))
        if self.metric == "inner":
            values = values - 1  # LanceDB answers 1 - xy
        return owners[order], as_ids(results[self._id].to_pylist())[order], values[order]

    def _rows_of(self, ids: Ids) -> tuple[list[Any], Floats]:
        with _errors():
            query = self._table.search().where(self._among(ids)).limit(len(ids))
            found = query.select([self._id, self._vector]).to_arrow()
        return found[self._id].to_pylist(), column_vectors(found[self._vector])

    def _among(self, ids: Ids) -> str:
        """A filter in LanceDB's SQL, which takes no parameters."""
        if not self._text:
            ids = ids[(ids >= self._range[0]) & (ids <= self._range[1])]
        if len(ids) == 0:
            return "false"
        return f"`{self._id}` IN ({', '.join(map(sql_literal, ids.tolist()))})"

    def _describe(self) -> None:
        """Read what the columns are."""
        arrow = require("pyarrow.types", extra="lancedb", purpose="A LanceDB store")
        kind = self._field(self._id).type
        self._text = arrow.is_string(kind) or arrow.is_large_string(kind)
        if arrow.is_integer(kind):
            # LanceDB refuses to compare with others; it takes the least one of 64 bits for a float.
            limits = np.iinfo(kind.to_pandas_dtype())
            most = int(np.iinfo(np.int64).max)
            self._range = max(int(limits.min), -most), min(int(limits.max), most)
        elif not self._text:
            raise InvalidInputError(
                f"Column {self._id!r} must hold text or integers to be ids, got {kind}."
            )
        kind = self._field(self._vector).type
        if not (arrow.is_fixed_size_list(kind) and arrow.is_floating(kind.value_type)):
            raise InvalidInputError(
                f"Column {self._vector!r} must hold vectors of a fixed length, got {kind}."
            )
        self.width = int(kind.list_size)

    def _field(self, name: str) -> Any:
        if "`" in str(name):
            raise InvalidInputError(f"Columns must have no backtick in their names, got {name!r}.")
        if name not in self._table.schema.names:
            raise InvalidInputError(
                f"The table has no column {name!r}, only {self._table.schema.names}."
            )
        return self._table.schema.field(name)

    def _indexed(self) -> Metric | None:
        """The metric of the vector index, if there is one."""
        for index in self._table.list_indices():
            if list(index.columns) == [self._vector]:
                kind = str(self._table.index_stats(index.name).distance_type).lower()
                return next((metric for metric, name in _TYPES.items() if name == kind), None)
        return None


def _errors() -> AbstractContextManager[None]:
    return engine_errors("The LanceDB table", RuntimeError, ValueError, OSError)


def column_vectors(column: Any) -> Floats:
    """A column of vectors of a fixed length, (n, width)."""
    if column.null_count:
        raise InvalidInputError("Some rows of the table have no vector.")
    flat = column.combine_chunks().flatten()
    return np.asarray(flat, np.float32).reshape(-1, column.type.list_size)
